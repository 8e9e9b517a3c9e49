package mesh

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
)

// serveEnrol serves one joiner: one stream, one question.
func (m *Mesh) serveEnrol(qc *quic.Conn) {
	ctx, cancel := context.WithTimeout(m.ctx, joinWithin)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = qc.CloseWithError(codeCancelled, "") })
	defer stop()
	if !m.beginCall(Data) {
		_ = qc.CloseWithError(codeDraining, "")
		return
	}
	defer m.endCall()
	leave, ok := m.doors.enter(qc.RemoteAddr())
	if !ok {
		_ = qc.CloseWithError(codeBusy, "")
		return
	}
	defer leave()

	qs, err := qc.AcceptStream(ctx)
	if err != nil {
		return
	}
	reply, err := m.askedToEnrol(ctx, qc, frames{qs})
	if err == nil {
		err = frames{qs}.send(reply)
	} else {
		m.log.Warn("enrolment refused", "remote", qc.RemoteAddr(), "err", err)
		answer := &Error{Code: codeRefused, Message: "refused"}
		if errors.Is(err, ErrTryLater) {
			answer = &Error{Code: codeTryLater, Message: "try later"}
		}
		_, err = qs.Write(appendError(nil, answer))
	}
	if err == nil && qs.Close() == nil {
		// The joiner closes when it has its answer; closing here could lose it.
		<-qc.Context().Done()
	}
	_ = qc.CloseWithError(codeDone, "")
}

// askedToEnrol hears what a joiner asks and has it answered. A panic ends this visit only.
func (m *Mesh) askedToEnrol(ctx context.Context, qc *quic.Conn, talk frames) (reply EnrolReply, err error) {
	defer func() {
		if p := recover(); p != nil {
			m.log.Error("panic in enrolment", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			reply, err = EnrolReply{}, ErrTryLater
		}
	}()
	if !m.doors.knock(qc.RemoteAddr(), time.Now()) {
		return EnrolReply{}, ErrTryLater
	}
	state := qc.ConnectionState().TLS
	exporter, err := certs.Exporter(state)
	if err != nil {
		return EnrolReply{}, err
	}
	var hello joinHello
	if err := talk.receive(&hello); err != nil {
		return EnrolReply{}, err
	}
	nonce := certs.NewNonce()
	var ask joinAsk
	if err := errors.Join(talk.send(joinChallenge{nonce}), talk.receive(&ask)); err != nil {
		return EnrolReply{}, err
	}
	if len(ask.Name) > maxJoinerName {
		return EnrolReply{}, ErrProtocol
	}
	if ask.Recover != nil {
		if m.cfg.Recover == nil {
			return EnrolReply{}, errors.New("nothing is recovered here")
		}
		return m.cfg.Recover(ctx, RecoverRequest{Proof: *ask.Recover, Nonce: nonce, Exporter: exporter, Remote: qc.RemoteAddr()})
	}
	return m.cfg.Enrol(ctx, EnrolRequest{
		TokenID: ask.Request.TokenID,
		SPKI:    ask.Request.SPKI,
		Name:    ask.Name,
		Remote:  qc.RemoteAddr(),
		Verify: func(tokenKey ed25519.PublicKey, role certs.Role) error {
			return ask.Request.Verify(m.id.Cluster, role, tokenKey, nonce, exporter)
		},
	})
}

// doors bounds how often one source may ask, and how many joiners are served at once, of
// one source and of all. A source is an address, or the network of one in IPv6.
type doors struct {
	mu         sync.Mutex
	inside     int
	places     map[netip.Prefix]int // of those inside
	sources    map[netip.Prefix]*bucket
	handshakes bucket
}

type bucket struct {
	tokens float64
	at     time.Time
}

const (
	doorSlots   = 64
	doorPlaces  = 8    // of one source
	doorSources = 4096 // when so many are remembered, new ones wait
	doorBurst   = 20
	doorEvery   = 500 * time.Millisecond // one more knock

	handshakeBurst = 256
	handshakeEvery = 4 * time.Millisecond
)

func newDoors() *doors {
	return &doors{places: map[netip.Prefix]int{}, sources: map[netip.Prefix]*bucket{}}
}

// enter takes a place, if there is one and the source does not have its share already.
// What it gives ends that.
func (d *doors) enter(from net.Addr) (leave func(), ok bool) {
	source := sourceOf(from)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside >= doorSlots || d.places[source] >= doorPlaces {
		return nil, false
	}
	d.inside++
	d.places[source]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.inside--
		if d.places[source]--; d.places[source] == 0 {
			delete(d.places, source)
		}
	}, true
}

// knock takes one from the source's bucket.
func (d *doors) knock(from net.Addr, now time.Time) bool {
	source := sourceOf(from)
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.sources[source]
	if b == nil {
		if len(d.sources) >= doorSources {
			return false
		}
		b = &bucket{tokens: doorBurst, at: now}
		d.sources[source] = b
	}
	b.refill(now, doorBurst, doorEvery)
	return b.take()
}

// crowded tells whether so many handshakes begin that each must first show, with one
// round trip more, that it comes from where it says.
func (d *doors) crowded(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handshakes.refill(now, handshakeBurst, handshakeEvery)
	return !d.handshakes.take()
}

func (b *bucket) refill(now time.Time, most float64, every time.Duration) {
	b.tokens = min(most, b.tokens+float64(now.Sub(b.at))/float64(every))
	b.at = now
}

func (b *bucket) take() bool {
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// forget drops the sources whose bucket is full again.
func (d *doors) forget(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for source, b := range d.sources {
		if b.refill(now, doorBurst, doorEvery); b.tokens >= doorBurst {
			delete(d.sources, source)
		}
	}
}

func sourceOf(addr net.Addr) netip.Prefix {
	udp, ok := addr.(*net.UDPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := udp.AddrPort().Addr().Unmap()
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // an address of no family
	}
	return prefix
}
