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

// What a joiner is told. No more: why a token does not hold is nobody's business but
// the operator's, who finds it in the log.
var (
	// ErrRefused: the token is unknown, used up or expired, or the proof is wrong.
	ErrRefused = errors.New("mesh: the cluster refuses this token")
	// ErrTryLater: the cluster cannot decide now, or was asked too often. Nothing was
	// used up.
	ErrTryLater = errors.New("mesh: the cluster cannot enrol anybody just now")
)

// EnrolRequest is what a joiner asks, as Config.Enrol gets it.
type EnrolRequest struct {
	TokenID string
	SPKI    []byte   // the joiner's public key
	Name    string   // what the joiner calls itself: a wish, at most 63 bytes
	Remote  net.Addr // where it asks from
	// Verify checks that the joiner holds the token's secret, that its key is the one
	// above, and that it asks on this very connection. It must be called before the
	// token is used up. Its error is one of package certs.
	Verify func(tokenKey ed25519.PublicKey, role certs.Role) error
}

// RecoverRequest is what a member asks whose certificate has expired. The proof is
// to be verified against the nonce and the exporter value of its connection.
type RecoverRequest struct {
	Proof           certs.RecoverRequest
	Nonce, Exporter []byte
	Remote          net.Addr
}

// EnrolReply is what a new member needs.
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

// Credentials gives the new member's credentials, with the key that it enrolled.
func (r EnrolReply) Credentials(key crypto.Signer, options ...certs.Option) (*certs.Credentials, error) {
	return certs.NewCredentials(tls.Certificate{Certificate: r.Chain, PrivateKey: key}, r.Trust, options...)
}

// The exchange at the door: one stream, frames of JSON. The joiner says hello, the
// server sends a nonce, the joiner asks, the server answers with an EnrolReply or an
// error frame of one of these codes.
const (
	codeRefused  = "refused"
	codeTryLater = "try_later"

	joinWithin    = 15 * time.Second
	maxJoinerName = 63
)

// joinHello says nothing yet: it is there so that the stream is.
type joinHello struct{}

type joinChallenge struct {
	Nonce []byte `json:"nonce"`
}

// joinAsk asks by a token, or with Recover set by a certificate that has expired.
type joinAsk struct {
	Request certs.JoinRequest     `json:"request,omitzero"`
	Recover *certs.RecoverRequest `json:"recover,omitempty"`
	Name    string                `json:"name"`
}

// Joiner is what a machine that wants to join has.
type Joiner struct {
	// Conn is a socket, which Enrol only borrows; it can be the later mesh's.
	Conn  net.PacketConn
	Token certs.Token
	Key   crypto.Signer // its public key is certified
	Name  string        // a wish, may be empty
}

// Enrol asks the node at addr ("host:port") for a certificate. It believes nobody who
// cannot show the root that the token names, and checks all that it is given. Errors
// are ErrRefused, ErrTryLater, one of package certs, or an *UnreachableError; with its
// Sent, asking again with the same key is safe and gives the same certificate.
func Enrol(ctx context.Context, joiner Joiner, addr string) (EnrolReply, error) {
	var met certs.Learned
	conf := certs.PinnedClient(joiner.Token.Pin, protocolJoin)
	reply, err := atDoor(ctx, joiner.Conn, conf, addr, func(state tls.ConnectionState, nonce, exporter []byte) (ask joinAsk, err error) {
		if met, err = joiner.Token.Pin.Learn(state, conf.Time()); err != nil {
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

// Recover asks the node at addr for a new certificate for key when the one of the
// credentials has expired. Errors are those of Enrol.
func Recover(ctx context.Context, conn net.PacketConn, credentials *certs.Credentials, key crypto.Signer, addr string) (EnrolReply, error) {
	return atDoor(ctx, conn, credentials.Client(nil, protocolJoin), addr, func(_ tls.ConnectionState, nonce, exporter []byte) (joinAsk, error) {
		proof, err := credentials.Recover(key.Public(), nonce, exporter)
		return joinAsk{Recover: &proof}, err
	})
}

// question makes what is asked at a door, in answer to the nonce.
type question func(state tls.ConnectionState, nonce, exporter []byte) (joinAsk, error)

// atDoor has one exchange at a node's door. The socket is borrowed.
func atDoor(ctx context.Context, conn net.PacketConn, conf *tls.Config, addr string, ask question) (EnrolReply, error) {
	transport := &quic.Transport{Conn: sturdy(conn)}
	reply, err := exchange(ctx, transport, conf, addr, ask)
	return reply, errors.Join(err, transport.Close())
}

func exchange(ctx context.Context, transport *quic.Transport, conf *tls.Config, addr string, ask question) (EnrolReply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, joinWithin, &quic.HandshakeTimeoutError{})
	defer cancel()
	lost := func(sent bool, err error) error {
		if ctx.Err() != nil {
			return &UnreachableError{Peer: addr, Sent: sent, Cause: context.Cause(ctx)}
		}
		cause, certain := causeOf(err)
		return &UnreachableError{Peer: addr, Sent: sent && !certain, Cause: cause}
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
	talk := frames{qs}
	var challenge joinChallenge
	if err := errors.Join(talk.send(joinHello{}), talk.receive(&challenge)); err != nil {
		return EnrolReply{}, told(err, func(err error) error { return lost(false, err) })
	}
	asked, err := ask(state, challenge.Nonce, exporter)
	if err != nil {
		return EnrolReply{}, err
	}
	var reply EnrolReply
	if err := errors.Join(talk.send(asked), talk.receive(&reply)); err != nil {
		return EnrolReply{}, told(err, func(err error) error { return lost(true, err) })
	}
	return reply, nil
}

// check makes sure that what was given is what was asked for: a certificate for this key
// and role, in the cluster behind the token's pin, under the roots that it gives. Which
// roots those are, the node says that the pin has proved.
func (r EnrolReply) check(joiner Joiner, learned certs.Learned) error {
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

// told turns the server's error frame into what the joiner may know.
func told(err error, lost func(error) error) error {
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

// frames sends and receives values as JSON frames, never compressed, on a stream.
type frames struct{ qs *quic.Stream }

func (f frames) send(v any) error {
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

func (f frames) receive(v any) error {
	message, err := (*codec)(nil).readFrame(f.qs)
	if err != nil {
		return noEOF(err)
	}
	if err := json.Unmarshal(message, v); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}
