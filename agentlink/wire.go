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

// The methods of the link.
const (
	methodAttach = "link/attach" // a machine connects, and receives offers
	methodCall   = "link/call"   // a machine reports one call
	methodRenew  = "link/renew"  // a machine renews its certificate
	methodLeave  = "link/leave"  // a machine unlinks itself

	methodOffer = "machines/offer" // between nodes: offer a call to a machine
	methodRelay = "machines/relay" // between nodes: relay a machine's report to the call's home
)

// protocol is the version of the link's protocol.
const protocol = 1

// Error codes. Append only.
const (
	codeUnlinked  = "unlinked"  // the mesh does not know the machine
	codeDraining  = "draining"  // the node accepts no machines
	codeForgotten = "forgotten" // the call's home does not wait for the call any more
	codeLater     = "later"     // temporary: for instance the call's home cannot be reached
	codeVersion   = "version"
	codeReplaced  = "replaced" // the machine has come back on another connection
	codeSilent    = "silent"   // the machine sent no heartbeat
)

// Facts is what a machine tells about itself.
type Facts struct {
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	Version   string   `json:"version,omitempty"`
	Languages []string `json:"languages"`
	// Consent is a summary of what the owner allows.
	Consent string `json:"consent"`
}

// hello is a machine's first message on methodAttach. Changed facts follow, and empty
// messages as heartbeats, at least every heartbeatEvery.
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

// elsewhere is the data of an error with codeDraining: the nodes that accept the machine.
type elsewhere struct {
	Nodes []mesh.NodeAddr `json:"nodes"`
}

// offer offers a call to the machine. Program is present if it is small and its timeout is
// longer than shortCall.
type offer struct {
	CallID  string   `json:"call_id"`
	Home    string   `json:"home"`
	Program *program `json:"program,omitempty"`
}

// program is what a machine is to run. Timeout is the remaining time, Whole the call's
// timeout. A node of the first release does not send Whole.
type program struct {
	Actor    string            `json:"actor"`
	Thought  string            `json:"thought,omitempty"`
	Language surfaces.Language `json:"language"`
	Code     string            `json:"code"`
	Stdin    string            `json:"stdin,omitempty"`
	// Timeout is the remaining time; Whole is the caller's timeout_s, if it differs.
	Timeout    time.Duration   `json:"timeout_ns"`
	Whole      time.Duration   `json:"whole_timeout_ns,omitempty"`
	Files      []surfaces.File `json:"files,omitempty"`
	Primitives bool            `json:"primitives,omitempty"`
}

// claim is the first message on methodCall. Need is true if the machine does not have the
// program yet.
type claim struct {
	CallID string `json:"call_id"`
	Home   string `json:"home"`
	Need   bool   `json:"need,omitempty"`
}

// relayHeader is the first message on methodRelay.
type relayHeader struct {
	Machine string `json:"machine"`
	Claim   claim  `json:"claim"`
}

// claimReply answers a claim. Next is the number of the first item that the home has not
// received.
type claimReply struct {
	Next    uint64   `json:"next"`
	Program *program `json:"program,omitempty"`
}

// control is a message of a call's home to the machine.
type control struct {
	Answer *answer `json:"answer,omitempty"`
	// Stop asks the machine to stop the program.
	Stop bool `json:"stop,omitempty"`
	// Done acknowledges the result: the machine may forget the call.
	Done bool `json:"done,omitempty"`
}

// answer answers the use in the item with number Use.
type answer struct {
	Use    uint64          `json:"use"`
	Answer json.RawMessage `json:"answer"`
}

// offerRequest and offerReply are the messages of methodOffer.
type offerRequest struct {
	Machine string `json:"machine"`
	Offer   offer  `json:"offer"`
}

type offerReply struct {
	// Sent is true if the machine may have the offer. Busy is true if too many offers wait
	// for it.
	Sent bool `json:"sent"`
	Busy bool `json:"busy,omitempty"`
}

// renewRequest and renewReply are the messages of methodRenew.
type renewRequest struct {
	SPKI []byte `json:"spki"`
}

type renewReply struct {
	Chain [][]byte        `json:"chain"`
	Trust certs.Trust     `json:"trust"`
	Nodes []mesh.NodeAddr `json:"nodes"`
}

type empty struct{}

// heartbeatEvery is a machine's heartbeat interval. After heartbeatTimeout without one it
// counts as disconnected.
const (
	heartbeatEvery   = 2 * time.Second
	heartbeatTimeout = 5 * time.Second
)

const (
	// maxMessage bounds a message with a program or a result, in bytes. Files of
	// surfaces.MaxFilesBytes are a third larger in JSON.
	maxMessage = 48 << 20
	// maxSmall bounds all other messages, and maxFirst a machine's first message on a
	// stream.
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

// firstWithin bounds the wait for the first message of a stream.
const firstWithin = 10 * time.Second

// receiveFirst receives the first message of a stream. It cancels the stream if that takes
// longer than firstWithin.
func receiveFirst(s *mesh.Stream, most int, v any) error {
	late := time.AfterFunc(firstWithin, s.Cancel)
	defer late.Stop()
	return receiveJSON(s, most, v)
}

func isCode(err error, code string) bool {
	var e *mesh.Error
	return errors.As(err, &e) && e.Code == code
}
