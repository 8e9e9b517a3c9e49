package mesh

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
)

// A joiner is told no more than these two. The reason why a token was refused is only in
// the node's log, for the operator.
var (
	// ErrRefused: the token is unknown, used up or expired, or the proof is wrong.
	ErrRefused = errors.New("mesh: the cluster refuses this token")
	// ErrTryLater: the cluster cannot decide now, or a rate limit was hit. The token was
	// not used.
	ErrTryLater = errors.New("mesh: the cluster cannot enrol anybody just now")
)

// EnrolRequest is a joiner's request, as Config.Enrol gets it.
type EnrolRequest struct {
	TokenID string
	SPKI    []byte   // the joiner's public key
	Name    string   // the name that the joiner would like, at most 63 bytes
	Remote  net.Addr // the joiner's address
	// Verify checks that the joiner has the token's secret and that its proof is for SPKI
	// and for this connection. It must be called before the token is used. Its error is
	// one of package certs.
	Verify func(tokenKey ed25519.PublicKey, role certs.Role) error
}

// RecoverRequest is the request of a member whose certificate has expired. The proof must
// be verified against the nonce and the exporter value of its connection.
type RecoverRequest struct {
	Proof certs.RecoverRequest
	// Nonce was sent to the member; Exporter is the TLS exporter value of its connection.
	Nonce, Exporter []byte
	Remote          net.Addr
}

// EnrolReply is what a new member gets.
type EnrolReply struct {
	Chain     [][]byte       `json:"chain"` // certificates in DER, leaf first
	Trust     certs.Trust    `json:"trust"`
	Identity  certs.Identity `json:"identity"`
	GossipKey []byte         `json:"gossip_key,omitempty"` // for nodes only
	Nodes     []NodeAddr     `json:"nodes"`
}

// NodeAddr says where a node can be reached.
type NodeAddr struct {
	ID   string `json:"id"`
	Addr string `json:"addr"` // host:port
}

// Credentials returns the new member's credentials. key is the key that was enrolled.
func (r EnrolReply) Credentials(key crypto.Signer, options ...certs.Option) (*certs.Credentials, error) {
	return certs.NewCredentials(tls.Certificate{Certificate: r.Chain, PrivateKey: key}, r.Trust, options...)
}

// The enrolment exchange uses one stream with JSON frames. The joiner sends a joinHello,
// the server a joinChallenge, the joiner a joinAsk, and the server an EnrolReply or an
// error frame with one of these codes.
const (
	codeRefused  = "refused"
	codeTryLater = "try_later"

	joinWithin    = 15 * time.Second
	maxJoinerName = 63
)

// joinHello is empty. It opens the stream, so that the server can speak first.
type joinHello struct{}

type joinChallenge struct {
	Nonce []byte `json:"nonce"`
}

// joinAsk is authenticated by a token or, with Recover set, by an expired certificate.
type joinAsk struct {
	// Request is the zero value if Recover is set.
	Request certs.JoinRequest     `json:"request,omitzero"`
	Recover *certs.RecoverRequest `json:"recover,omitempty"`
	// Name is the one that the joiner would like; may be empty.
	Name string `json:"name"`
}

// Joiner is what a process needs to join.
type Joiner struct {
	// Conn is a socket. Enrol does not close it, so a mesh can use it afterwards.
	Conn net.PacketConn
	// Token is the join token, whose pin says which cluster to trust.
	Token certs.Token
	Key   crypto.Signer // the key to certify
	Name  string        // the name that the joiner would like; may be empty
}

// Enrol asks the node at addr ("host:port") for a certificate. It trusts only a server
// whose chain leads to the root that the token pins, and verifies the reply. The error is
// ErrRefused, ErrTryLater, one of package certs, or an *UnreachableError. A retry with the
// same key is safe, also if the request was Sent: it yields the same identity.
func Enrol(ctx context.Context, joiner Joiner, addr string) (EnrolReply, error) {
	var met certs.PinnedPeer
	conf := certs.PinnedClient(joiner.Token.Pin, protocolJoin)
	reply, err := exchangeOnce(ctx, joiner.Conn, conf, addr, func(state tls.ConnectionState, nonce, exporter []byte) (ask joinAsk, err error) {
		if met, err = joiner.Token.Pin.Verify(state, conf.Time()); err != nil {
			return ask, err
		}
		ask.Name = joiner.Name
		ask.Request, err = joiner.Token.Request(met.Cluster, joiner.Key.Public(), nonce, exporter)
		return ask, err
	})
	if err != nil {
		return EnrolReply{}, err
	}
	return reply, reply.check(joiner, met)
}

// Recover asks the node at addr for a certificate for key, to replace the expired one of
// the credentials. Its errors are those of Enrol.
func Recover(ctx context.Context, conn net.PacketConn, credentials *certs.Credentials, key crypto.Signer, addr string) (EnrolReply, error) {
	return exchangeOnce(ctx, conn, credentials.Client(nil, protocolJoin), addr, func(_ tls.ConnectionState, nonce, exporter []byte) (joinAsk, error) {
		proof, err := credentials.Recover(key.Public(), nonce, exporter)
		return joinAsk{Recover: &proof}, err
	})
}

// buildAsk makes the request, after the nonce has come.
type buildAsk func(state tls.ConnectionState, nonce, exporter []byte) (joinAsk, error)

// exchangeOnce runs one enrolment exchange with the node at addr. conn stays open.
func exchangeOnce(ctx context.Context, conn net.PacketConn, conf *tls.Config, addr string, ask buildAsk) (EnrolReply, error) {
	socket, err := tolerateSendErrors(conn)
	if err != nil {
		return EnrolReply{}, err
	}
	transport := &quic.Transport{Conn: socket}
	reply, err := exchange(ctx, transport, conf, addr, ask)
	return reply, errors.Join(err, transport.Close())
}

func exchange(ctx context.Context, transport *quic.Transport, conf *tls.Config, addr string, ask buildAsk) (EnrolReply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, joinWithin, &quic.HandshakeTimeoutError{})
	defer cancel()
	lost := func(sent bool, err error) error {
		if ctx.Err() != nil {
			return &UnreachableError{Peer: addr, Sent: sent, Cause: context.Cause(ctx)}
		}
		cause, unsent := causeOf(err)
		return &UnreachableError{Peer: addr, Sent: sent && !unsent, Cause: cause}
	}
	to, err := resolve(ctx, addr)
	if err != nil {
		return EnrolReply{}, lost(false, err)
	}
	qc, err := transport.Dial(ctx, to, conf, &quic.Config{
		HandshakeIdleTimeout: DefaultHandshake, MaxIncomingStreams: -1, MaxIncomingUniStreams: -1,
	})
	if err != nil {
		return EnrolReply{}, lost(false, err)
	}
	defer qc.CloseWithError(codeDone, "")
	defer context.AfterFunc(ctx, func() { _ = qc.CloseWithError(codeCancelled, "") })()

	state := qc.ConnectionState().TLS
	exporter, err := certs.Exporter(state)
	if err != nil {
		return EnrolReply{}, err
	}
	qs, err := qc.OpenStreamSync(ctx)
	if err != nil {
		return EnrolReply{}, lost(false, err)
	}
	talk := jsonFrames{qs}
	var challenge joinChallenge
	if err := errors.Join(talk.send(joinHello{}), talk.receive(&challenge)); err != nil {
		return EnrolReply{}, remoteError(err, func(err error) error { return lost(false, err) })
	}
	asked, err := ask(state, challenge.Nonce, exporter)
	if err != nil {
		return EnrolReply{}, err
	}
	var reply EnrolReply
	if err := errors.Join(talk.send(asked), talk.receive(&reply)); err != nil {
		return EnrolReply{}, remoteError(err, func(err error) error { return lost(true, err) })
	}
	return reply, nil
}

// check verifies that the certificate is for the joiner's key and role, in the cluster
// that the token's pin has proved, and valid under the roots in the reply. The roots
// themselves are taken on the word of that node, which the pin has authenticated.
func (r EnrolReply) check(joiner Joiner, learned certs.PinnedPeer) error {
	credentials, err := r.Credentials(joiner.Key)
	if err != nil {
		return err
	}
	id := credentials.Identity()
	if id != r.Identity || id.Cluster != learned.Cluster || id.Role != joiner.Token.Role {
		return fmt.Errorf("%w: enrolled as %s", ErrProtocol, id)
	}
	return nil
}

// remoteError maps the server's error frame to an error of Enrol. Other errors are passed
// to lost.
func remoteError(err error, lost func(error) error) error {
	var answer *Error
	switch {
	case !errors.As(err, &answer):
		return lost(err)
	case answer.Code == codeRefused:
		return ErrRefused
	case answer.Code == codeTryLater:
		return ErrTryLater
	}
	return fmt.Errorf("%w: %w", ErrProtocol, answer)
}

// jsonFrames sends and receives JSON values on a stream, in uncompressed frames.
type jsonFrames struct{ qs *quic.Stream }

func (f jsonFrames) send(v any) error {
	message, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(message) > MaxFrame {
		return ErrTooLarge
	}
	_, err = f.qs.Write((*codec)(nil).appendMessage(nil, message))
	return err
}

func (f jsonFrames) receive(v any) error {
	message, err := (*codec)(nil).readFrame(f.qs)
	if err != nil {
		return noEOF(err)
	}
	if err := json.Unmarshal(message, v); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}
