package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// ExecutionQuery selects calls of a list; a zero field does not.
type ExecutionQuery struct {
	Status surfaces.Status
	Before string // a call_id
	Limit  int
}

// ExecutionList answers GET /v1/executions.
type ExecutionList struct {
	Executions []CallSummary `json:"executions"`
}

// Delivered answers requests that are accepted without a result.
type Delivered struct {
	Delivered bool `json:"delivered"`
}

// PrimitiveAnswer is the body that answers a primitive: exactly one of the two fields. The
// result may be null.
type PrimitiveAnswer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// actions lists the actions of POST /v1/executions/{id}/{action}.
var actions = []struct{ name, doc string }{
	{"pause", "Suspend a running call and the calls that it started: their processes and their deadlines."},
	{"resume", "Resume a paused call."},
	{"stop", "Stop a running call and the calls that it started."},
	{"ask", "Run a read-only program, code, against a snapshot of the call's busy session, for at most timeout_s (10 s). The answer also has the stack of the running code. Not while the call is paused."},
	{"interject", "Send the running code a message."},
	{"answer", "Answer the running code's question id, which may be left out if only one is open."},
}

// execution finds the call in the path.
func (x *exchange) execution() (Execution, error) {
	id := x.params["call_id"]
	e, err := x.g.svc.Execution(x.ctx, x.caller, id)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, notFound(fmt.Sprintf("there is no call %q of this actor, or it is no longer remembered", clip(id, 100)),
			"Use a call_id from an answer of execute_code, or one that locus calls or GET /v1/executions lists.")
	}
	x.names(e)
	return e, nil
}

// limitQuery bounds a list to its newest entries.
var limitQuery = parameter{name: "limit", in: "query", doc: "At most this many, the newest ones."}

// beforeQuery continues a list.
var beforeQuery = parameter{name: "before", in: "query", doc: "Only calls that began before the one with this call_id, which need not be kept any more: the last one of the previous page.", text: true}

// callPrefix begins every call_id. Their order is that of their creation.
const callPrefix = "call_"

// statusQuery selects calls by status.
var statusQuery = parameter{name: "status", in: "query", doc: "Only calls with this status: running, done, failed or refused.", text: true}

func (x *exchange) listExecutions() error {
	limit, query := -1, x.r.URL.Query()
	status := surfaces.Status(query.Get(statusQuery.name))
	if query.Has(statusQuery.name) && !slices.Contains(surfaces.Statuses(), status) {
		return invalid(http.StatusUnprocessableEntity, fmt.Sprintf("no call has the status %q", clip(string(status), 50)),
			"Set status to running, done, failed or refused, or drop it to have all.")
	}
	if query.Has(limitQuery.name) {
		n, err := strconv.Atoi(query.Get(limitQuery.name))
		if err != nil || n < 0 {
			return invalid(http.StatusUnprocessableEntity, fmt.Sprintf("limit must be a number of calls, 0 or more, but %q was given", clip(query.Get(limitQuery.name), 50)),
				"Set limit to 20, or drop it to have all.")
		}
		limit = n
	}
	before := query.Get(beforeQuery.name)
	if query.Has(beforeQuery.name) && !strings.HasPrefix(before, callPrefix) {
		return invalid(http.StatusUnprocessableEntity, fmt.Sprintf("before must be a call_id, but %q was given", clip(before, 50)),
			"Set before to the last call_id of the previous page, or drop it to have the newest calls.")
	}
	list := slices.DeleteFunc(notNil(x.g.svc.Executions(x.ctx, x.caller)), func(s CallSummary) bool {
		return status != "" && s.Status != status || before != "" && s.CallID >= before
	})
	if limit >= 0 {
		list = list[:min(limit, len(list))]
	}
	return x.json(ExecutionList{Executions: list})
}

// showExecution answers with the call's present Result, or with its events.
func (x *exchange) showExecution() error {
	from, given, err := resumeFrom(x.r)
	if err != nil {
		return err
	}
	e, err := x.execution()
	if err != nil {
		return err
	}
	if !given && !wantsStream(x.r) {
		return x.json(e.Result()) // 200 even if the call failed: it was found
	}
	// Only a stream needs a slot of the calls' pool.
	if !x.g.calls.take() {
		return x.noRoom(cap(x.g.calls))
	}
	defer x.g.calls.free()
	return x.follow(e, from)
}

// PrimitiveList answers GET /v1/executions/{call_id}/primitives.
type PrimitiveList struct {
	Primitives []surfaces.UseRecord `json:"primitives"`
}

func (x *exchange) listPrimitives() error {
	e, err := x.execution()
	if err != nil {
		return err
	}
	list, err := e.Primitives(x.ctx)
	if err != nil {
		return err
	}
	return x.json(PrimitiveList{Primitives: notNil(list)})
}

func (x *exchange) steer(action string) error {
	e, err := x.execution()
	if err != nil {
		return err
	}
	body, release, err := x.read()
	if err != nil {
		return err
	}
	defer release()
	said, err := e.Steer(x.ctx, action, body)
	if err != nil {
		return err
	}
	return x.json(said)
}

func (x *exchange) answerPrimitive() error {
	e, err := x.execution()
	if err != nil {
		return err
	}
	body, release, err := x.read()
	if err != nil {
		return err
	}
	defer release()
	var given map[string]json.RawMessage
	err = json.Unmarshal(body, &given)
	_, result := given["result"]
	_, failed := given["error"]
	if err != nil || len(given) != 1 || !(result || failed) {
		return invalid(http.StatusUnprocessableEntity, "the body must be an object with either result or error",
			`Send {"result": ...}, or {"error": ...} when the primitive failed.`)
	}
	if err := e.AnswerPrimitive(x.ctx, x.params["seq"], body); err != nil {
		return absent(err) // the body is valid, so the sequence number must be wrong
	}
	return x.json(Delivered{Delivered: true})
}

// notNil replaces nil by an empty list, which does not encode as null.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
