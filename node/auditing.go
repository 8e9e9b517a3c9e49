package node

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// AuditConfig says how much of the audit log is kept. Zero fields take the defaults of
// package audit.
type AuditConfig struct {
	// MaxBytes bounds the files, MaxAge the age of entries.
	MaxBytes int64
	MaxAge   time.Duration
	// Witness is how often the head of the log is sent to other nodes if entries were
	// added; 0 is one minute.
	Witness time.Duration
}

// auditDir is the directory of the audit log in the data directory.
const auditDir = "audit"

func (n *Node) openAudit() error {
	log, err := audit.Open(audit.Config{
		Dir: n.cfg.path(auditDir), Node: string(n.id), MaxBytes: n.cfg.Audit.MaxBytes, MaxAge: n.cfg.Audit.MaxAge, Log: n.cfg.Log,
	})
	if err != nil {
		return err
	}
	n.audit = log
	n.note(audit.Entry{Kind: audit.NodeStarted, Detail: map[string]string{"version": n.cfg.Version}})
	return nil
}

// closeAudit closes the audit log and logs its head.
func (n *Node) closeAudit() {
	if n.audit == nil {
		return
	}
	n.note(audit.Entry{Kind: audit.NodeStopped})
	head, err := n.audit.Close()
	if err != nil {
		n.cfg.Log.Error("the audit log could not be written to its end", "head", head.String(), "error", err)
		return
	}
	n.cfg.Log.Info("audit log", "head", head.String())
}

// note adds an entry to the audit log. Before openAudit it does nothing.
func (n *Node) note(e audit.Entry) {
	if n.audit != nil {
		n.audit.Add(e)
		n.entries.Add(1)
	}
}

// digestOf identifies code in the audit log, which never contains code.
func digestOf(code string) string {
	sum := sha256.Sum256([]byte(code))
	return hex.EncodeToString(sum[:])
}

// callEntry returns an entry with the fields that identify a call.
func callEntry(what audit.Kind, r *calls.Record) audit.Entry {
	return audit.Entry{Kind: what, Actor: r.Actor, CallID: r.ID, Parent: r.Call.Parent, Function: r.Call.Function}
}

// noteStart audits a call that is about to be placed.
func (n *Node) noteStart(r *calls.Record) {
	e := callEntry(audit.CallStarted, r)
	e.FunctionDigest, e.CodeSHA256, e.Thought = r.Call.FunctionDigest, digestOf(r.Call.Code), r.Call.Thought
	setCoordinates(&e, r.Call.Coordinates())
	n.note(e)
}

// noteQuestion audits a program that is about to run in a copy of a busy session.
func (n *Node) noteQuestion(question, of *calls.Record) {
	e := callEntry(audit.CallStarted, question)
	e.Parent, e.CodeSHA256 = of.ID, digestOf(question.Call.Code)
	setCoordinates(&e, question.Call.Coordinates())
	n.note(e)
}

// setCoordinates sets the coordinates of an entry.
func setCoordinates(e *audit.Entry, at surfaces.Coordinates) {
	e.Language, e.StateMode, e.Surface, e.Machine = deref(at.Language), deref(at.StateMode), deref(at.Surface), deref(at.Machine)
	e.SessionID, e.SessionName, e.VenvID = at.SessionID, at.SessionName, at.VenvID
}

// noteOutcome audits the outcome of a call.
func (n *Node) noteOutcome(what audit.Kind, r *calls.Record, res surfaces.Result) {
	n.note(outcomeOf(callEntry(what, r), res))
}

// outcomeOf sets the outcome of a call in an entry.
func outcomeOf(e audit.Entry, res surfaces.Result) audit.Entry {
	setCoordinates(&e, surfaces.Coordinates{
		Language: res.Language, StateMode: res.StateMode, SessionID: res.SessionID, SessionName: res.SessionName,
		VenvID: res.VenvID, Surface: res.Surface, Machine: res.Machine,
	})
	e.Status, e.ErrorCode, e.Attempts, e.DurationMS, e.RanOn, e.StateDiff = res.Status, deref(res.Code), res.Attempts, res.DurationMS, res.Node, res.StateDiff
	if l := res.StateLost.Loss; l != nil {
		e.StateLost = l.Reason
	}
	if u := res.Usage; u != nil {
		e.Primitives = u.Primitives
	}
	if res.SessionCreated {
		e.Detail = map[string]string{"session_created": "true"}
	}
	return e
}

// noteRefused audits a call that was refused before it ran. body is the request; nil for
// none.
func (n *Node) noteRefused(r *calls.Record, body []byte) {
	e := outcomeOf(callEntry(audit.CallRefused, r), r.Result())
	var given struct {
		Code    string `json:"code"`
		Thought string `json:"thought"`
	}
	// Errors do not matter: a body that cannot be decoded is the reason for the refusal.
	_ = json.Unmarshal(body, &given)
	if given.Code != "" {
		e.CodeSHA256 = digestOf(given.Code)
	}
	if len(given.Thought) <= surfaces.MaxThought {
		e.Thought = given.Thought
	}
	n.note(e)
}

// noteRepeated audits that an idempotency key led to an earlier call.
func (n *Node) noteRepeated(who gateway.Caller, callID string) {
	n.note(audit.Entry{Kind: audit.CallRepeated, Actor: who.Actor, CallID: callID})
}

// noteSteered audits a steering action on a call whose record is here. Forwarded actions
// are audited on the node with the record.
func (n *Node) noteSteered(r *calls.Record, action string, err error) {
	if n.calls.Get(r.Actor, r.ID) == r {
		e := actionEntry(audit.CallSteered, r.Actor, "", err, "action", action)
		e.CallID, e.Parent, e.Function = r.ID, r.Call.Parent, r.Call.Function
		n.note(e)
	}
}

// recordUse audits a use of a primitive by the code of the call.
func (c *functionProvider) recordUse(u surfaces.UseRecord) {
	e := callEntry(audit.PrimitiveUse, c.caller)
	e.Primitive = &audit.Primitive{Seq: u.Seq, Name: u.Name, Digest: u.Digest, Outcome: u.Outcome, MS: u.MS}
	c.node.note(e)
}

// actionEntry makes the entry of an action by an actor. details are pairs of name and value; empty
// values are left out.
func actionEntry(what audit.Kind, actor, target string, err error, details ...string) audit.Entry {
	e := audit.Entry{Kind: what, Actor: actor, Target: target, Status: surfaces.StatusDone}
	if err != nil {
		e.Status, e.ErrorCode = surfaces.StatusFailed, surfaces.CodeInternal
		var refusal *surfaces.Refusal
		if errors.As(err, &refusal) {
			res := refusal.Result(surfaces.Partial{})
			e.Status, e.ErrorCode = res.Status, refusal.Code
		}
	}
	for i := 0; i+1 < len(details); i += 2 {
		if details[i+1] == "" {
			continue
		}
		if e.Detail == nil {
			e.Detail = make(map[string]string)
		}
		e.Detail[details[i]] = details[i+1]
	}
	return e
}

// number formats a number as a detail; 0 is empty.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
