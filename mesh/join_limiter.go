package mesh

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// joinLimiter limits the rate of enrolment requests per source, the number that are served
// at a time per source and in total, and the rate of unvalidated handshakes. A source is an
// IPv4 address or an IPv6 /64 network.
type joinLimiter struct {
	mu         sync.Mutex
	inside     int                      // joiners being served
	places     map[netip.Prefix]int     // the same, per source
	sources    map[netip.Prefix]*bucket // rate of requests, per source
	handshakes bucket
}

// bucket is a token bucket.
type bucket struct {
	tokens float64 // left at the time at
	at     time.Time
}

const (
	maxJoiners          = 64
	maxJoinersPerSource = 8
	maxJoinSources      = 4096 // with so many in the table, new sources are refused
	joinBurst           = 20
	joinRefill          = 500 * time.Millisecond // for one more request

	handshakeBurst = 256
	handshakeEvery = 4 * time.Millisecond
)

func newJoinLimiter() *joinLimiter {
	return &joinLimiter{places: map[netip.Prefix]int{}, sources: map[netip.Prefix]*bucket{}}
}

// acquire reserves a place for a joiner. It returns false if all places, or those of the
// source, are taken. leave releases the place.
func (d *joinLimiter) acquire(from net.Addr) (leave func(), ok bool) {
	source := sourceOf(from)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside >= maxJoiners || d.places[source] >= maxJoinersPerSource {
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

// allow reports whether the source may make a request now, and counts it.
func (d *joinLimiter) allow(from net.Addr, now time.Time) bool {
	source := sourceOf(from)
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.sources[source]
	if b == nil {
		if len(d.sources) >= maxJoinSources {
			return false
		}
		b = &bucket{tokens: joinBurst, at: now}
		d.sources[source] = b
	}
	b.refill(now, joinBurst, joinRefill)
	return b.take()
}

// handshakesBusy reports whether handshakes begin at such a rate that each client must
// first prove its address, which costs it one more round trip.
func (d *joinLimiter) handshakesBusy(now time.Time) bool {
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

// prune removes the sources whose bucket is full again.
func (d *joinLimiter) prune(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for source, b := range d.sources {
		if b.refill(now, joinBurst, joinRefill); b.tokens >= joinBurst {
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
