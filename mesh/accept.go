package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
)

// maxAccepted bounds the accepted connections.
const maxAccepted = 4096

// maxMachineStreams bounds the open streams on one connection of an identity that is not
// a node, because each of them may hold a partly received message.
const maxMachineStreams = 256

// headerWithin bounds the wait for the header of a new stream.
const headerWithin = 5 * time.Second

// serverTLS selects the TLS settings by ALPN protocol: joiners have no certificate yet,
// all other clients must present one.
func (m *Mesh) serverTLS() *tls.Config {
	members := m.cfg.Credentials.ServerFor(func(_ string, peer certs.Identity) error {
		if !m.admits(peer.Role) {
			return ErrForbidden
		}
		return nil
	}, protocolNode)
	served := []*tls.Config{members}
	if m.cfg.Enrol != nil {
		served = append(served, m.cfg.Credentials.JoinServer(protocolJoin))
	}
	return certs.ByProtocol(served...)
}

func (m *Mesh) acceptConns(listener *quic.Listener) {
	for {
		qc, err := listener.Accept(m.ctx)
		if err != nil {
			return // the listener is closed; it has no other errors
		}
		if !m.spawn(func() { m.serveConn(qc) }) {
			_ = qc.CloseWithError(codeDraining, "")
		}
	}
}

func (m *Mesh) serveConn(qc *quic.Conn) {
	state := qc.ConnectionState().TLS
	if state.NegotiatedProtocol == protocolJoin {
		m.serveEnrol(qc)
		return
	}
	peer, err := certs.PeerOf(state)
	if err != nil {
		_ = qc.CloseWithError(codeProtocol, "")
		return
	}
	c := m.newConn(qc, peer, false, 0)
	if err := m.register(c); err != nil {
		return
	}
	defer m.unregister(c)
	credit := credit{limit: int(m.cfg.windows.streams)}
	for {
		qs, err := qc.AcceptStream(qc.Context())
		if err != nil {
			return
		}
		if open := credit.begin(); open > maxMachineStreams && peer.Role != certs.RoleNode {
			refuse(qs, codeBusy)
			credit.end(qs)
			continue
		}
		// One goroutine each; their number is bounded by the peer's stream credit.
		if !m.spawn(func() { m.serveStream(c, qs); credit.end(qs) }) {
			refuse(qs, codeDraining)
			credit.end(qs)
		}
	}
}

// admits reports whether a role may call any method of this process.
func (m *Mesh) admits(role certs.Role) bool {
	if role == certs.RoleNode {
		return true
	}
	for _, method := range m.cfg.Methods {
		if slices.Contains(method.Roles, role) {
			return true
		}
	}
	return false
}

func refuse(qs *quic.Stream, code quic.StreamErrorCode) {
	qs.CancelRead(code)
	qs.CancelWrite(code)
}

func (m *Mesh) serveStream(c *conn, qs *quic.Stream) {
	_ = qs.SetReadDeadline(time.Now().Add(headerWithin)) // it never fails
	h, err := readHeader(qs)
	if err != nil {
		if errors.Is(err, ErrProtocol) {
			m.log.Warn("bad stream", "peer", c.peer, "err", err)
		}
		refuse(qs, codeProtocol)
		return
	}
	_ = qs.SetReadDeadline(time.Time{})
	switch h.kind {
	case kindBytes:
		m.serveBytes(c, qs, h.name)
		return
	case kindProbe:
		refuse(qs, codeDone)
		return
	}
	method, ok := m.cfg.Methods[h.name]
	if !ok || method.Handle == nil {
		refuse(qs, codeUnknown)
		return
	}
	if !slices.Contains(method.Roles, c.peer.Role) {
		m.log.Warn("call refused", "peer", c.peer, "method", h.name)
		refuse(qs, codeForbidden)
		return
	}
	if !m.beginCall(method.Class) {
		refuse(qs, codeDraining)
		return
	}
	defer m.endCall()

	ctx, cancel := context.WithCancelCause(m.ctx)
	defer cancel(nil)
	stop := context.AfterFunc(qs.Context(), func() {
		cause, _ := causeOf(context.Cause(qs.Context()))
		cancel(&UnreachableError{Peer: c.peer.ID, Sent: true, Cause: cause})
	})
	defer stop()
	s := &Stream{qs: qs, on: c, ctx: ctx, role: handler}
	s.sent.Store(true)
	c.add(s)
	s.answer(m.handle(ctx, h.name, method, s))
}

// handle runs the handler and turns a panic into an error of this call.
func (m *Mesh) handle(ctx context.Context, name string, method Method, s *Stream) (err error) {
	defer func() {
		if p := recover(); p != nil {
			m.log.Error("panic in a handler", "method", name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = &Error{Code: CodeInternal, Message: "the handler of " + name + " panicked"}
		}
	}()
	return method.Handle(ctx, s)
}
