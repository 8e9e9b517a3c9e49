package engine

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// Reasons for which a session's state is gone.
const (
	reasonDied    = "process_died"
	reasonOOM     = "out_of_memory"
	reasonTimeout = "timeout"
	reasonStopped = "stopped"
	// reasonNodeStopped is the registry's word for the sessions of a node that leaves.
	reasonNodeStopped = "node_stopped"
)

func (e ending) reason() string {
	if e == byStop {
		return reasonStopped
	}
	return reasonTimeout
}

// base is a result that says where the call ran, and nothing yet of what came of
// it. Output is filled in by whoever holds the call's record.
func (r *Run) base() surfaces.Result {
	res := surfaces.Result{
		CallID: r.attempt.CallID, Status: surfaces.StatusDone, Node: r.engine.cfg.Node,
		Attempts: r.attempt.Number, Notice: r.notices,
	}
	r.attempt.Call.Coordinates().Into(&res)
	return res
}

// reported is the outcome of code that ran to its end, or to an interrupt that
// was enough.
func (r *Run) reported(report kernel.Report) surfaces.Outcome {
	for _, n := range report.Notices {
		r.notice(n)
	}
	res := r.base()
	res.Result, res.Display, res.Exception = report.Result, report.Display, report.Exception
	if report.ResultType != "" {
		res.ResultType = &report.ResultType
	}
	if report.ExitCode != nil {
		res.Exit = &surfaces.Exit{Code: report.ExitCode}
	}
	if r.attempt.Call.StateMode == surfaces.Stateful {
		res.StateDiff = report.Diff
	}
	res.Usage = &surfaces.Usage{CPUMS: surfaces.Milliseconds(report.CPU), MaxRSSBytes: report.MaxRSS}
	why, _ := r.ends()
	switch {
	case why != byItself:
		r.madeToEnd(&res, why, "SIGINT", r.kept())
	case report.Exception != nil:
		res.Fail(surfaces.CodeException, oneLine(strings.TrimSuffix(report.Exception.Type+": "+report.Exception.Message, ": ")))
	}
	return surfaces.Outcome{Result: res}
}

// kept says what became of the state, for the message of an interrupted call.
func (r *Run) kept() string {
	if r.attempt.Call.StateMode == surfaces.Stateful {
		return "it was interrupted and the session keeps its state"
	}
	return "it was interrupted"
}

// madeToEnd writes the verdict of a call that a deadline or a stop has ended.
func (r *Run) madeToEnd(res *surfaces.Result, why ending, signal, how string) {
	// An exception that the interrupt raised would look like one of the code's own.
	res.Exception, res.Result, res.ResultType = nil, nil, nil
	if why == byStop {
		res.Exit = &surfaces.Exit{Signal: signal, Reason: surfaces.ReasonStopped}
		res.Fail(surfaces.CodeStopped, "the call was stopped: "+how)
		return
	}
	res.Exit = &surfaces.Exit{Signal: signal, Reason: surfaces.ReasonTimeout}
	res.Fail(surfaces.CodeTimeout, fmt.Sprintf("the code did not end within timeout_s = %g: %s", r.attempt.Call.Timeout.Seconds(), how))
}

// died is the outcome of code whose process ended under it. s is the session
// that died with it, nil when none did.
func (r *Run) died(err error, s *session) surfaces.Outcome {
	var d *kernel.Died
	if !errors.As(err, &d) {
		return r.notStarted(err)
	}
	out := surfaces.Outcome{Result: r.base()}
	res := &out.Result
	why, forced := r.ends()
	loss := surfaces.LostAttempt{MayHaveRun: d.Started, Reason: reasonDied, At: time.Now()}
	if s != nil {
		loss.Epoch = s.epoch
		s.end(s.reasonOf(d.Exit))
		loss.Reason = s.loss().loss.Reason // the first one stands
		r.lost(res, loss)
	}
	switch {
	case loss.Reason == reasonClosed && !forced:
		r.closedUnder(res)
	case forced:
		r.madeToEnd(res, why, "SIGKILL", "it did not heed the interrupt, so its process was killed"+r.gone(s))
	case d.Exit.OOM:
		res.Exit = &surfaces.Exit{Signal: "SIGKILL", Reason: surfaces.ReasonOOM}
		res.Fail(surfaces.CodeOutOfMemory, "the code used more memory than its limit and was killed"+r.gone(s))
	case why != byItself:
		// However it ended, it was made to: that is a verdict, and nothing is run again.
		r.madeToEnd(res, why, "SIGINT", "the interrupt ended its process"+r.gone(s))
	case d.Exit.Known && d.Exit.Signal == 0 && r.attempt.Call.StateMode != surfaces.Stateful:
		// A process that is not kept may end as it likes, os._exit(0) included.
		code := d.Exit.Code
		res.Exit = &surfaces.Exit{Code: &code}
	default:
		fault(res, d.Exit, r.gone(s))
		out.Loss = &loss
	}
	return out
}

// closedUnder writes the verdict of a call whose session was closed while it ran: that
// was somebody's will, and nothing is to be tried again.
func (r *Run) closedUnder(res *surfaces.Result) {
	res.Exit = &surfaces.Exit{Signal: "SIGKILL", Reason: surfaces.ReasonStopped}
	res.Fail(surfaces.CodeStopped, "the session was closed under the call, which was ended with it")
}

// fault writes the verdict of a process that ended by a fault or from outside.
func fault(res *surfaces.Result, exit sandbox.Exit, gone string) {
	code, reason := surfaces.CodeKilled, surfaces.ReasonKilled
	if exit.Signal == syscall.SIGSEGV || exit.Signal == syscall.SIGBUS {
		code, reason = surfaces.CodeSegfault, surfaces.ReasonSegfault
	}
	switch {
	case exit.Known && exit.Signal == 0:
		status := exit.Code
		res.Exit = &surfaces.Exit{Code: &status}
	case exit.Known:
		res.Exit = &surfaces.Exit{Signal: sandbox.SignalName(exit.Signal), Reason: reason}
	default:
		res.Exit = &surfaces.Exit{Reason: reason}
	}
	res.Fail(code, "the process under the call "+exit.String()+gone)
}

// gone ends a sentence about a process that was a session's.
func (r *Run) gone(s *session) string {
	if s == nil {
		return ""
	}
	return "; the session's state is gone and its next call starts anew"
}

// lost writes into a result that the session's state is gone.
func (r *Run) lost(res *surfaces.Result, loss surfaces.LostAttempt) {
	res.StateLost = surfaces.StateLost{Loss: &surfaces.Loss{
		Reason: loss.Reason, At: loss.At.UTC().Format(time.RFC3339Nano), Epoch: loss.Epoch,
	}}
}

// maxSentence bounds the message of an exception in the error sentence; the whole
// is in the exception.
const maxSentence = 500

func oneLine(s string) string {
	for i, c := range s {
		if c == '\n' || c == '\r' {
			s = s[:i]
			break
		}
		if i >= maxSentence {
			s = s[:i] + "..."
			break
		}
	}
	return s
}
