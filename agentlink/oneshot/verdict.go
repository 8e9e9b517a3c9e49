package oneshot

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// ending says why a program was made to end before its code did.
type ending uint8

const (
	byItself ending = iota
	byDeadline
	byStop
)

// outcome is what is known of a program that has ended.
type outcome struct {
	exit exit
	// report is what Python said of its program; nil when it could not, and for shells.
	report *pythonReport
	why    ending
	forced bool // an interrupt was not enough
}

// pythonReport is what Python says of a program that it ran to its end.
type pythonReport struct {
	Result      json.RawMessage     `json:"result"`
	Type        string              `json:"type"`
	Exception   *surfaces.Exception `json:"exception"`
	Exit        *int                `json:"exit"`
	Interrupted bool                `json:"interrupted"`
	Notices     []surfaces.Notice   `json:"notices"`
}

// judge writes into a result what became of a program.
func (a *attempt) judge(res *surfaces.Result, o outcome) {
	e := o.exit
	if e.Known && !e.Told {
		// An agent that was stopped, as by sleep, gives its orders late: the program has
		// ended by itself before.
		o.why = byItself
	}
	res.Usage = &surfaces.Usage{CPUMS: surfaces.Milliseconds(e.CPU), MaxRSSBytes: e.MaxRSS}
	switch r := o.report; {
	case o.why != byItself && o.forced:
		a.madeToEnd(res, o.why, "SIGKILL", "it did not heed the interrupt, so it was killed")
	case o.why != byItself:
		a.madeToEnd(res, o.why, "SIGINT", "it was interrupted")
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
		// A process that is not kept may end as it likes, os._exit(0) included.
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

// madeToEnd writes the verdict of a program that a deadline or a stop has ended.
func (a *attempt) madeToEnd(res *surfaces.Result, why ending, signal, how string) {
	if why == byStop {
		res.Exit = &surfaces.Exit{Signal: signal, Reason: surfaces.ReasonStopped}
		res.Fail(surfaces.CodeStopped, "the call was stopped: "+how)
		return
	}
	res.Exit = &surfaces.Exit{Signal: signal, Reason: surfaces.ReasonTimeout}
	res.Fail(surfaces.CodeTimeout, fmt.Sprintf("the code did not end within timeout_s = %g: %s", cmp.Or(a.req.Whole, a.req.Timeout).Seconds(), how))
}

// partial is what is known of a call before anything came of it.
func (a *attempt) partial() surfaces.Partial {
	language, mode := surfaces.Language(a.req.Language), surfaces.Stateless
	return surfaces.Partial{CallID: a.req.CallID, Attempts: 1, At: surfaces.Coordinates{Language: &language, StateMode: &mode}}
}

// base is the result of a program of which nothing is known yet.
func (a *attempt) base() surfaces.Result {
	p := a.partial()
	res := surfaces.Result{CallID: p.CallID, Status: surfaces.StatusDone, Attempts: p.Attempts}
	p.At.Into(&res)
	return res
}

func (a *attempt) refused(code surfaces.Code, why string) surfaces.Result {
	return a.finished(surfaces.Failed(a.partial(), code, why))
}

// finished adds what every result says.
func (a *attempt) finished(res surfaces.Result) surfaces.Result {
	res.DurationMS = surfaces.Milliseconds(time.Since(a.began))
	return res
}

// maxSentence bounds the message of an exception in the error sentence; the whole is in
// the exception.
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
