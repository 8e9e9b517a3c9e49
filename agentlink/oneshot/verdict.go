package oneshot

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// ending says why a program was ended before its code ended by itself.
type ending uint8

const (
	byItself ending = iota
	byDeadline
	byStop
)

// outcome is what is known of a program that has ended.
type outcome struct {
	exit exit
	// report is Python's report; nil for shells, and if Python could not send it.
	report *pythonReport
	why    ending
	forced bool // it was killed after the interrupt had no effect
}

// pythonReport is Python's report on a program that has ended.
type pythonReport struct {
	Result      json.RawMessage     `json:"result"`
	Type        string              `json:"type"`
	Exception   *surfaces.Exception `json:"exception"`
	Exit        *int                `json:"exit"`
	Interrupted bool                `json:"interrupted"`
	Notices     []surfaces.Notice   `json:"notices"`
}

// setVerdict sets the result of a program that has ended.
func (a *attempt) setVerdict(res *surfaces.Result, o outcome) {
	e := o.exit
	if e.Known && !e.Told {
		// The program ended by itself before the order reached it, for instance because the
		// machine was suspended.
		o.why = byItself
	}
	res.Usage = &surfaces.Usage{CPUMS: surfaces.Milliseconds(e.CPU), MaxRSSBytes: e.MaxRSS}
	switch r := o.report; {
	case o.why != byItself && o.forced:
		a.endedBy(res, o.why, "SIGKILL", "it did not heed the interrupt, so it was killed")
	case o.why != byItself:
		a.endedBy(res, o.why, "SIGINT", "it was interrupted")
	case r != nil:
		if len(r.Result) > 0 && string(r.Result) != "null" {
			res.Result = r.Result
		}
		if r.Type != "" {
			res.ResultType = &r.Type
		}
		if r.Exit != nil {
			res.Exit = &surfaces.Exit{Code: r.Exit}
		}
		if res.Exception = r.Exception; r.Exception != nil {
			res.Fail(surfaces.CodeException, oneLine(r.Exception.Type+": "+r.Exception.Message))
		}
	case e.Known && e.Signal == "":
		// A process that is not kept may end as it likes, for instance by os._exit(0).
		res.Exit = &surfaces.Exit{Code: &e.Code}
	default:
		code, reason := surfaces.CodeKilled, surfaces.ReasonKilled
		if e.Signal == "SIGSEGV" || e.Signal == "SIGBUS" {
			code, reason = surfaces.CodeSegfault, surfaces.ReasonSegfault
		}
		res.Exit = &surfaces.Exit{Signal: e.Signal, Reason: reason}
		res.Fail(code, "the process under the call "+e.String())
	}
}

// endedBy sets the result of a program that was ended by its deadline or by a stop.
func (a *attempt) endedBy(res *surfaces.Result, why ending, signal, how string) {
	if why == byStop {
		res.Exit = &surfaces.Exit{Signal: signal, Reason: surfaces.ReasonStopped}
		res.Fail(surfaces.CodeStopped, "the call was stopped: "+how)
		return
	}
	res.Exit = &surfaces.Exit{Signal: signal, Reason: surfaces.ReasonTimeout}
	res.Fail(surfaces.CodeTimeout, fmt.Sprintf("the code did not end within timeout_s = %g: %s", cmp.Or(a.req.CallTimeout, a.req.Timeout).Seconds(), how))
}

// partial is what is known of a call before it has run.
func (a *attempt) partial() surfaces.Partial {
	language, mode := surfaces.Language(a.req.Language), surfaces.Stateless
	return surfaces.Partial{CallID: a.req.CallID, Attempts: 1, At: surfaces.Coordinates{Language: &language, StateMode: &mode}}
}

// base returns a result without an outcome.
func (a *attempt) base() surfaces.Result {
	p := a.partial()
	res := surfaces.Result{CallID: p.CallID, Status: surfaces.StatusDone, Attempts: p.Attempts}
	p.At.Into(&res)
	return res
}

func (a *attempt) refused(code surfaces.Code, why string) surfaces.Result {
	return a.finished(surfaces.Failed(a.partial(), code, why))
}

// finished sets the duration of a result.
func (a *attempt) finished(res surfaces.Result) surfaces.Result {
	res.DurationMS = surfaces.Milliseconds(time.Since(a.began))
	return res
}

// maxSentence bounds the exception's message in the error message, in bytes. The exception
// itself has all of it.
const maxSentence = 500

func oneLine(s string) string {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		s = s[:i]
	}
	if len(s) > maxSentence {
		s = strings.ToValidUTF8(s[:maxSentence], "") + "..."
	}
	return s
}
