package surfaces

import "cmp"

// Partial is what is known about a call that is answered without having run to its end. The
// other fields of its Result stay empty.
type Partial struct {
	CallID string
	Node   string
	// At holds the coordinates to echo; if it is empty, those of the refusal are used.
	At         Coordinates
	DurationMS float64
	Attempts   int
}

// defaultSuggestions are used for refusals without a suggestion of their own.
var defaultSuggestions = map[Code]string{
	CodeOwnerUnreachable: "Send the same call again in a moment: the node is back then, or its sessions are known to be lost.",
	CodeNoQuorum:         "Send the same call again when more nodes of the mesh are up; locus nodes lists them.",
}

// Result returns the refusal as a Result. The status is refused if nothing was started
// (validation, auth, unavailable) and failed for all other codes.
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
	if suggestion := cmp.Or(r.Suggestion, defaultSuggestions[code]); suggestion != "" {
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

// Failed returns the result of a call that failed with a code and a one-sentence message.
// The caller adds what else is known, such as output, exit and lost state.
func Failed(p Partial, code Code, message string) Result {
	return (&Refusal{Code: code, Message: message}).Result(p)
}

// Fail turns a result into a failed one and keeps its other fields.
func (res *Result) Fail(code Code, message string) {
	kind := code.Type()
	res.Status, res.Error, res.ErrorType, res.Code = statusOf(kind), &message, &kind, &code
}

// Internal is the refusal for a bug in Locus. The id is also in the log.
func Internal(id string) *Refusal {
	return &Refusal{Code: CodeInternal, Message: "a fault of Locus itself ended the call; its log has it under " + id}
}

// KeyReused refuses an idempotency key that was used before with other arguments.
func KeyReused(key string) *Refusal {
	return &Refusal{
		Code:       CodeInvalidArgument,
		Message:    "idempotency_key " + quote(key) + " was used with other arguments",
		Suggestion: "Set idempotency_key to a value that was not used within 24 hours, or drop it.",
		HTTP:       httpConflict,
	}
}

// UnknownExecution refuses a call id that does not exist.
func UnknownExecution(callID string) *Refusal {
	return &Refusal{
		Code:    CodeInvalidArgument,
		Message: "there is no execution " + quote(callID),
		HTTP:    httpNotFound,
	}
}
