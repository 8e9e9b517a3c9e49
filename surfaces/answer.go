package surfaces

import "cmp"

// Partial is what is known about a call that gets an answer without having run
// to an end: the rest of the Result stays empty.
type Partial struct {
	CallID string
	Node   string
	// At holds the coordinates to echo. When it is empty, a refusal's own are
	// taken.
	At         Coordinates
	DurationMS float64
	Attempts   int
}

// usualMends is what to do about a refusal that has nothing better to say.
var usualMends = map[Code]string{
	CodeOwnerUnreachable: "Send the same call again in a moment: the node is back then, or its sessions are known to be lost.",
	CodeNoQuorum:         "Send the same call again when more nodes of the mesh are up; locus nodes lists them.",
}

// Result gives the refusal as the one object that answers every call. Its status
// is refused where nothing was started (validation, auth, unavailable) and failed
// for all other codes.
func (r *Refusal) Result(p Partial) Result {
	if p.At == (Coordinates{}) {
		p.At = r.At
	}
	code, kind, message := r.Code, r.Code.Type(), r.Message
	res := Result{
		CallID: p.CallID, Node: p.Node, Status: statusOf(kind),
		Error: &message, ErrorType: &kind, Code: &code, Fix: r.Fix,
		Display: []Display{}, Notice: []Notice{},
		DurationMS: p.DurationMS, Attempts: p.Attempts, http: r.HTTP,
	}
	if suggestion := cmp.Or(r.Suggestion, usualMends[code]); suggestion != "" {
		res.Suggestion = &suggestion
	}
	if r.RetryAfterS > 0 {
		after := r.RetryAfterS
		res.RetryAfterS = &after
	}
	p.At.Into(&res)
	return res
}

// Into writes the coordinates into a result.
func (at Coordinates) Into(res *Result) {
	res.Language, res.StateMode, res.Surface = at.Language, at.StateMode, at.Surface
	res.SessionID, res.SessionName, res.VenvID = at.SessionID, at.SessionName, at.VenvID
	res.Machine = at.Machine
}

func statusOf(t ErrorType) Status {
	switch t {
	case TypeValidation, TypeAuth, TypeUnavailable:
		return StatusRefused
	default:
		return StatusFailed
	}
}

// Failed gives the result of a call that ended with a code and one sentence. The
// caller adds what else is known, such as output, exit and what was lost.
func Failed(p Partial, code Code, message string) Result {
	return (&Refusal{Code: code, Message: message}).Result(p)
}

// Fail turns a result into a failed one and keeps all else that it holds.
func (res *Result) Fail(code Code, message string) {
	kind := code.Type()
	res.Status, res.Error, res.ErrorType, res.Code = statusOf(kind), &message, &kind, &code
}

// Internal gives the refusal for a fault of ours. The id is also in the log.
func Internal(id string) *Refusal {
	return &Refusal{Code: CodeInternal, Message: "a fault of Locus itself ended the call; its log has it under " + id}
}

// KeyReused refuses an idempotency key that came before with other arguments.
func KeyReused(key string) *Refusal {
	return &Refusal{
		Code:       CodeInvalidArgument,
		Message:    "idempotency_key " + quote(key) + " was used with other arguments",
		Suggestion: "Set idempotency_key to a value that was not used within 24 hours, or drop it.",
		HTTP:       httpConflict,
	}
}

// UnknownExecution refuses a call id that leads to nothing.
func UnknownExecution(callID string) *Refusal {
	return &Refusal{
		Code:    CodeInvalidArgument,
		Message: "there is no execution " + quote(callID),
		HTTP:    httpNotFound,
	}
}
