package agentlink

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// The methods by which machines and nodes speak.
const (
	methodAttach = "link/attach" // a machine is there, and hears what is offered to it
	methodCall   = "link/call"   // what one call says on a machine
	methodRenew  = "link/renew"  // a new certificate for a machine
	methodLeave  = "link/leave"  // a machine unlinks itself

	methodOffer = "machines/offer" // between nodes: offer a call to a machine
	methodRelay = "machines/relay" // between nodes: what a call says, to its home
)

// protocol is the version of what machines and nodes say to each other.
const protocol = 1

// Codes of errors. Append only.
const (
	codeUnlinked  = "unlinked"  // the machine is none of this mesh
	codeDraining  = "draining"  // this node holds no machines any more
	codeForgotten = "forgotten" // nobody waits for the call any more
	codeLater     = "later"     // its home cannot be reached now
	codeVersion   = "version"
	codeReplaced  = "replaced" // the machine has come back on another connection
	codeSilent    = "silent"   // the machine gave no sign of life
)

// Facts is what a machine says of itself.
type Facts struct {
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	Version   string   `json:"version,omitempty"`
	Languages []string `json:"languages"`
	// Consent says in a few words what the owner allows.
	Consent string `json:"consent"`
}

// hello is the first message of a machine on methodAttach. Facts that change follow, and
// empty messages as signs of life, at least every heartbeatEvery.
type hello struct {
	Protocol int   `json:"protocol"`
	Facts    Facts `json:"facts"`
}

// welcome answers a hello. Offers follow.
type welcome struct {
	Name  string          `json:"name"`
	Actor string          `json:"actor"`
	Node  string          `json:"node"`
	Nodes []mesh.NodeAddr `json:"nodes"`
}

// offer says that a call waits for the machine. Program is there when it is short and its
// time is not.
type offer struct {
	CallID  string   `json:"call_id"`
	Home    string   `json:"home"`
	Program *program `json:"program,omitempty"`
}

// program is what a machine is to run. Timeout is what is left of the call's, which is
// Whole; a node of the first release does not say that.
type program struct {
	Actor      string            `json:"actor"`
	Thought    string            `json:"thought,omitempty"`
	Language   surfaces.Language `json:"language"`
	Code       string            `json:"code"`
	Stdin      string            `json:"stdin,omitempty"`
	Timeout    time.Duration     `json:"timeout_ns"`
	Whole      time.Duration     `json:"whole_timeout_ns,omitempty"`
	Files      []surfaces.File   `json:"files,omitempty"`
	Primitives bool              `json:"primitives,omitempty"`
}

// claim is the first message of methodCall: whose call it is, and whether the machine
// has its program yet.
type claim struct {
	CallID string `json:"call_id"`
	Home   string `json:"home"`
	Need   bool   `json:"need,omitempty"`
}

// relayed is the first message of methodRelay.
type relayHeader struct {
	Machine string `json:"machine"`
	Claim   claim  `json:"claim"`
}

// opened answers a claim. Next is the number of the first item that is not there yet.
type claimReply struct {
	Next    uint64   `json:"next"`
	Program *program `json:"program,omitempty"`
}

// word is what the home of a call says to the machine.
type control struct {
	Answer *answer `json:"answer,omitempty"`
	Stop   bool    `json:"stop,omitempty"`
	// Done says that the result is there: the machine may forget the call.
	Done bool `json:"done,omitempty"`
}

// answer is the answer to the use of a number.
type answer struct {
	Use    uint64          `json:"use"`
	Answer json.RawMessage `json:"answer"`
}

// offered is the question of methodOffer, and told its answer.
type offerRequest struct {
	Machine string `json:"machine"`
	Offer   offer  `json:"offer"`
}

type offerReply struct {
	// Sent says that the machine may have the offer; Busy that it is not read.
	Sent bool `json:"sent"`
	Busy bool `json:"busy,omitempty"`
}

// renewal asks for a certificate, renewed is it.
type renewRequest struct {
	SPKI []byte `json:"spki"`
}

type renewReply struct {
	Chain [][]byte        `json:"chain"`
	Trust certs.Trust     `json:"trust"`
	Nodes []mesh.NodeAddr `json:"nodes"`
}

type empty struct{}

// heartbeatEvery is the time between two signs of life of a machine; one without any for
// heartbeatTimeout is taken for asleep.
const (
	heartbeatEvery   = 2 * time.Second
	heartbeatTimeout = 5 * time.Second
)

const (
	// maxMessage bounds a message with a program or a result, in bytes: files of
	// surfaces.MaxFilesBytes are a third longer in JSON.
	maxMessage = 48 << 20
	// maxSmall bounds all other messages, and maxFirst the first one that a machine sends
	// on a stream, whoever it is.
	maxSmall = 1 << 20
	maxFirst = 64 << 10
)

func send(s *mesh.Stream, message []byte) error { return s.SendLong(message, maxMessage) }

func receive(s *mesh.Stream, most int) ([]byte, error) { return s.ReceiveLong(most) }

func sendJSON(s *mesh.Stream, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return send(s, b)
}

func receiveJSON(s *mesh.Stream, most int, v any) error {
	b, err := receive(s, most)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", mesh.ErrProtocol, err)
	}
	return nil
}

// firstWithin is how long a peer may take for the first message of a stream.
const firstWithin = 10 * time.Second

// first takes the first message of a stream, or cuts it.
func receiveFirst(s *mesh.Stream, most int, v any) error {
	late := time.AfterFunc(firstWithin, s.Cancel)
	defer late.Stop()
	return receiveJSON(s, most, v)
}

func isCode(err error, code string) bool {
	var e *mesh.Error
	return errors.As(err, &e) && e.Code == code
}
