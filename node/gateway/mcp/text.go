package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// text describes a Result to a model: output, result, error and what to do about it, and
// what else matters for the next call. Empty parts are left out.
func text(r surfaces.Result) string {
	var b strings.Builder
	block(&b, "stdout"+shown(r.Truncated, func(t *surfaces.Truncation) *surfaces.Shown { return t.Stdout }), r.Stdout)
	block(&b, "stderr"+shown(r.Truncated, func(t *surfaces.Truncation) *surfaces.Shown { return t.Stderr }), r.Stderr)
	if value, kind := value(r); value != "" {
		block(&b, "result"+kind, value)
	}
	fault(&b, r)
	if e := r.Exit; e != nil {
		switch {
		case e.Code != nil && *e.Code != 0:
			line(&b, "exit code", fmt.Sprint(*e.Code))
		case e.Signal != "" || e.Reason != "":
			line(&b, "ended by", strings.TrimSpace(e.Signal+" "+e.Reason))
		}
	}
	if lost := r.StateLost.Loss; lost != nil {
		line(&b, "state lost", fmt.Sprintf("%s at %s; what the session held before is gone", lost.Reason, lost.At))
	}
	for _, n := range r.Notice {
		if n.Kind != "state_lost" {
			line(&b, "notice", n.Kind+": "+n.Text)
		}
	}
	if r.SessionID != nil && r.Code == nil {
		line(&b, "session", sessionOf(r))
	}
	if r.Status == surfaces.StatusRunning {
		line(&b, "running", fmt.Sprintf("call %s goes on in the background. Its result: the resource %s%s, locus calls show %s, or, where the call has an idempotency_key, execute_code again with the same arguments but background, which waits for it", r.CallID, callsURI, r.CallID, r.CallID))
	}
	if b.Len() == 0 {
		return "done, without output or a result\n"
	}
	return b.String()
}

// fault writes an error and its suggestion.
func fault(b *strings.Builder, r surfaces.Result) {
	if r.Code == nil && r.Error == nil {
		return
	}
	code, message := "", ""
	if r.Code != nil {
		code = " (" + string(*r.Code) + ")"
	}
	if r.Error != nil {
		message = *r.Error
	}
	line(b, string(r.Status)+code, message)
	if x := r.Exception; x != nil && x.Traceback != "" {
		block(b, "traceback", x.Traceback)
	}
	if r.Suggestion != nil {
		line(b, "suggestion", *r.Suggestion)
	}
	if r.RetryAfterS != nil {
		line(b, "try again in", fmt.Sprintf("%g s", *r.RetryAfterS))
	}
}

// value returns a result as text, and its type. A repr is a JSON string whose type is not
// str.
func value(r surfaces.Result) (text, kind string) {
	if len(r.Result) == 0 || string(r.Result) == "null" {
		return "", ""
	}
	if r.ResultType != nil {
		kind = " (" + *r.ResultType + ")"
		var repr string
		if *r.ResultType != "str" && json.Unmarshal(r.Result, &repr) == nil {
			return repr, kind
		}
	}
	return string(r.Result), kind
}

// sessionOf names the session that a call ran in.
func sessionOf(r surfaces.Result) string {
	var parts []string
	if r.SessionName != nil {
		parts = append(parts, fmt.Sprintf("%q", *r.SessionName))
	}
	if r.Language != nil {
		parts = append(parts, string(*r.Language))
	}
	parts = append(parts, fmt.Sprint(*r.SessionID))
	if r.VenvID != nil {
		parts = append(parts, fmt.Sprintf("in venv %d", *r.VenvID))
	}
	if r.SessionCreated {
		parts = append(parts, "(new)")
	}
	return strings.Join(parts, " ")
}

// shown says that an output is truncated.
func shown(t *surfaces.Truncation, of func(*surfaces.Truncation) *surfaces.Shown) string {
	if t == nil || of(t) == nil {
		return ""
	}
	return fmt.Sprintf(" (%d of %d bytes; the middle is cut)", of(t).Shown, of(t).Total)
}

// block writes a text of one or several lines.
func block(b *strings.Builder, name, text string) {
	text = strings.TrimRight(text, "\n")
	switch {
	case text == "":
	case strings.Contains(text, "\n"):
		b.WriteString(name + ":\n" + text + "\n")
	default:
		line(b, name, text)
	}
}

func line(b *strings.Builder, name, text string) { b.WriteString(name + ": " + text + "\n") }
