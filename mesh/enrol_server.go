package mesh

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
)

// serveEnrol serves one connection of a joiner: one stream with one request.
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
	leave, ok := m.joins.acquire(qc.RemoteAddr())
	if !ok {
		_ = qc.CloseWithError(codeBusy, "")
		return
	}
	defer leave()

	qs, err := qc.AcceptStream(ctx)
	if err != nil {
		return
	}
	reply, err := m.answerEnrol(ctx, qc, jsonFrames{qs})
	if err == nil {
		err = jsonFrames{qs}.send(reply)
	} else {
		m.log.Warn("enrolment refused", "remote", qc.RemoteAddr(), "err", err)
		answer := &Error{Code: codeRefused, Message: "refused"}
		if errors.Is(err, ErrTryLater) {
			answer = &Error{Code: codeTryLater, Message: "try later"}
		}
		_, err = qs.Write(appendError(nil, answer))
	}
	if err == nil && qs.Close() == nil {
		// The joiner closes when it has its answer. Closing here could lose the answer.
		<-qc.Context().Done()
	}
	_ = qc.CloseWithError(codeDone, "")
}

// answerEnrol reads a joiner's request and returns the decision. A panic ends only this
// request.
func (m *Mesh) answerEnrol(ctx context.Context, qc *quic.Conn, talk jsonFrames) (reply EnrolReply, err error) {
	defer func() {
		if p := recover(); p != nil {
			m.log.Error("panic in enrolment", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			reply, err = EnrolReply{}, ErrTryLater
		}
	}()
	if !m.joins.allow(qc.RemoteAddr(), time.Now()) {
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
