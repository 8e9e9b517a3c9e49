package registry

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// The messages that Forward carries. A request is: version (1 byte), operation (1), hops
// (1), body. A reply is: version (1), status (1), body. Bodies are JSON, except those of a
// command and its answer:
//
//	command: the index that the sender had applied when it first sent it (8 bytes,
//	         big-endian), 1 if it may be in the log already (1), the envelope
//	answer:  log index (8), verdict (1), the outcome as JSON
//
// A newer release may add fields to these JSON bodies, and an older one ignores them.
// Commands in the log are different: see level.go.
const (
	wireVersion = 1
	// maxHops is how often a request is forwarded by nodes that do not lead.
	maxHops    = 2
	maxRequest = MaxLongCommand + 64
	maxReply   = 4 << 20
)

type operation uint8

// The operations. Numbers are never reused.
const (
	opCommand operation = iota + 1
	opReadIndex
	opMember
	opProbe
	opRenew
)

type status uint8

// The statuses. Numbers are never reused.
const (
	// statusDone: the body is the operation's answer.
	statusDone status = iota + 1
	// statusNotLeader: this node does not lead; nothing was performed. The body is the id
	// of the leader, if it is known.
	statusNotLeader
	// statusRetry: surely not performed, and worth another try. The body is the reason.
	statusRetry
	// statusUnknown: perhaps performed. The body is the reason.
	statusUnknown
	// statusRefused: not performed, and no retry will help. The body is a refusal.
	statusRefused
)

type call struct {
	op   operation
	hops uint8 // how often it was passed on to another node so far
	body []byte
}

var errWire = errors.New("registry: a message between nodes is malformed")

func (c call) encode() []byte {
	return append([]byte{wireVersion, byte(c.op), c.hops}, c.body...)
}

func decodeCall(b []byte) (call, error) {
	if len(b) < 3 || len(b) > maxRequest {
		return call{}, fmt.Errorf("%w: a request has %d bytes", errWire, len(b))
	}
	if b[0] != wireVersion {
		return call{}, fmt.Errorf("%w: a request of version %d", errWire, b[0])
	}
	return call{op: operation(b[1]), hops: b[2], body: b[3:]}, nil
}

type answer struct {
	status status
	body   []byte
	// cause is the error behind the status. It is not encoded itself, only its text.
	cause error
}

func (a answer) encode() []byte {
	body := a.body
	if body == nil && a.cause != nil {
		body = []byte(a.cause.Error())
	}
	return append([]byte{wireVersion, byte(a.status)}, body...)
}

func decodeAnswer(b []byte) (answer, error) {
	if len(b) < 2 || len(b) > maxReply || b[0] != wireVersion || b[1] == 0 || status(b[1]) > statusRefused {
		return answer{}, fmt.Errorf("%w: a reply of %d bytes", errWire, len(b))
	}
	a := answer{status: status(b[1]), body: b[2:]}
	switch a.status {
	case statusRetry, statusUnknown:
		a.cause = fmt.Errorf("the leader says: %.500s", a.body)
	case statusRefused:
		if a.cause = refusals[refusal(a.body)]; a.cause == nil {
			a.cause = fmt.Errorf("%w: the refusal %.100q", ErrUnsupported, a.body)
		}
	}
	return a, nil
}

// done is the answer of an operation that succeeded, with v as its body.
func done(v any) answer {
	body, err := json.Marshal(v)
	if err != nil {
		return outcomeUnknown(fmt.Errorf("registry: encode a reply: %w", err))
	}
	return answer{status: statusDone, body: body}
}

func retryLater(cause error) answer     { return answer{status: statusRetry, cause: cause} }
func outcomeUnknown(cause error) answer { return answer{status: statusUnknown, cause: cause} }
func notLeader(leader NodeID) answer    { return answer{status: statusNotLeader, body: []byte(leader)} }
func refuse(why refusal) answer {
	return answer{status: statusRefused, body: []byte(why), cause: refusals[why]}
}

// refusal is the code of an error on the wire.
type refusal string

const (
	refusedMalformed   refusal = "malformed"
	refusedUnsupported refusal = "unsupported"
	refusedForbidden   refusal = "forbidden"
	refusedLastVoter   refusal = "last_voter"
)

var refusals = map[refusal]error{
	refusedMalformed:   ErrMalformed,
	refusedUnsupported: ErrUnsupported,
	refusedForbidden:   ErrForbidden,
	refusedLastVoter:   ErrLastVoter,
}

// commandRequest is the body of an opCommand.
type commandRequest struct {
	since   uint64 // the index that the sender had applied when it first sent it
	resent  bool   // it may be in the log already
	command []byte
}

func (s commandRequest) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 9+len(s.command)), s.since)
	resent := byte(0)
	if s.resent {
		resent = 1
	}
	return append(append(b, resent), s.command...)
}

func decodeCommandRequest(b []byte) (commandRequest, error) {
	if len(b) < 9 || b[8] > 1 {
		return commandRequest{}, fmt.Errorf("%w: a command of %d bytes", errWire, len(b))
	}
	return commandRequest{since: binary.BigEndian.Uint64(b), resent: b[8] == 1, command: b[9:]}, nil
}

// commandResult is the body of the answer to an opCommand.
type commandResult struct {
	index uint64
	reply reply
}

func (r commandResult) encode() ([]byte, error) {
	b := append(binary.BigEndian.AppendUint64(nil, r.index), byte(r.reply.verdict))
	if r.reply.verdict != accepted {
		return b, nil
	}
	outcome, err := json.Marshal(r.reply.outcome)
	if err != nil {
		return nil, fmt.Errorf("registry: encode an outcome: %w", err)
	}
	return append(b, outcome...), nil
}

func decodeCommandResult(b []byte, k kind) (commandResult, error) {
	if len(b) < 9 {
		return commandResult{}, fmt.Errorf("%w: a result of %d bytes", errWire, len(b))
	}
	r := commandResult{index: binary.BigEndian.Uint64(b), reply: reply{verdict: verdict(b[8])}}
	if r.reply.verdict != accepted {
		return r, nil
	}
	var err error
	if r.reply.outcome, err = specs[k].outcome(b[9:]); err != nil {
		return commandResult{}, fmt.Errorf("%w: %w", errWire, err)
	}
	return r, nil
}
