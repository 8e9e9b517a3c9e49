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

// Reasons for the loss of a session's state.
const (
	reasonDied    = "process_died"
	reasonOOM     = "out_of_memory"
	reasonTimeout = "timeout"
	reasonStopped = "stopped"
	// reasonNodeStopped is used by the registry for the sessions of a node that shuts down.
	reasonNodeStopped = "node_stopped"
)

func (e ending) reason() string {
	if e == byStop {
		return reasonStopped
	}
	return reasonTimeout
}

// base returns a result that says where the call ran. Output is added by the holder of the
// call's record.
func (r *Run) base() surfaces.Result {
	res := surfaces.Result{
		CallID: r.attempt.CallID, Status: surfaces.StatusDone, Node: r.engine.cfg.Node,
		Attempts: r.attempt.Number, Notice: r.notices,
	}
	r.attempt.Call.Coordinates().Into(&res)
	return res
}

// completed returns the outcome of code that ended by itself or by an interrupt.
func (r *Run) completed(report kernel.Report) surfaces.Outcome {
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
		r.endedBy(&res, why, "SIGINT", r.kept())
	case report.Exception != nil:
		res.Fail(surfaces.CodeException, oneLine(strings.TrimSuffix(report.Exception.Type+": "+report.Exception.Message, ": ")))
	}
	return surfaces.Outcome{Result: res}
}

// kept describes the state of the session after an interrupt, for the message.
func (r *Run) kept() string {
	if r.attempt.Call.StateMode == surfaces.Stateful {
		return "it was interrupted and the session keeps its state"
	}
	return "it was interrupted"
}

// endedBy sets the result of a call that was ended by its deadline or by a stop.
func (r *Run) endedBy(res *surfaces.Result, why ending, signal, how string) {
	// An exception raised by the interrupt would look like one of the code itself.
	res.Exception, res.Result, res.ResultType = nil, nil, nil
	if why == byStop {
		res.Exit = &surfaces.Exit{Signal: signal, Reason: surfaces.ReasonStopped}
		res.Fail(surfaces.CodeStopped, "the call was stopped: "+how)
		return
	}
	res.Exit = &surfaces.Exit{Signal: signal, Reason: surfaces.ReasonTimeout}
	res.Fail(surfaces.CodeTimeout, fmt.Sprintf("the code did not end within timeout_s = %g: %s", r.attempt.Call.Timeout.Seconds(), how))
}

// died returns the outcome of code whose process ended. s is the session that ended with
// it, or nil.
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
		loss.Reason = s.loss().loss.Reason // the first reason counts
		r.lost(res, loss)
	}
	switch {
	case loss.Reason == reasonClosed && !forced:
		r.closedUnder(res)
	case forced:
		r.endedBy(res, why, "SIGKILL", "it did not heed the interrupt, so its process was killed"+r.gone(s))
	case d.Exit.OOM:
		res.Exit = &surfaces.Exit{Signal: "SIGKILL", Reason: surfaces.ReasonOOM}
		res.Fail(surfaces.CodeOutOfMemory, "the code used more memory than its limit and was killed"+r.gone(s))
	case why != byItself:
		// The call was ended on purpose, however its process ended: it is not retried.
		r.endedBy(res, why, "SIGINT", "the interrupt ended its process"+r.gone(s))
	case d.Exit.Known && d.Exit.Signal == 0 && r.attempt.Call.StateMode != surfaces.Stateful:
		// A process that is not kept may end as it likes, for instance by os._exit(0).
		code := d.Exit.Code
		res.Exit = &surfaces.Exit{Code: &code}
	default:
		fault(res, d.Exit, r.gone(s))
		out.Loss = &loss
	}
	return out
}

// closedUnder sets the result of a call whose session was closed while it ran. That was on
// purpose, so the call is not retried.
func (r *Run) closedUnder(res *surfaces.Result) {
	res.Exit = &surfaces.Exit{Signal: "SIGKILL", Reason: surfaces.ReasonStopped}
	res.Fail(surfaces.CodeStopped, "the session was closed under the call, which was ended with it")
}

// fault sets the result of a call whose process died of a fault or was killed from outside.
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

// gone returns the end of the message about a process that belonged to session s.
func (r *Run) gone(s *session) string {
	if s == nil {
		return ""
	}
	return "; the session's state is gone and its next call starts anew"
}

// lost records in a result that the session's state is gone.
func (r *Run) lost(res *surfaces.Result, loss surfaces.LostAttempt) {
	res.StateLost = surfaces.StateLost{Loss: &surfaces.Loss{
		Reason: loss.Reason, At: loss.At.UTC().Format(time.RFC3339Nano), Epoch: loss.Epoch,
	}}
}

// maxSentence bounds the exception's message in the error message, in bytes. The exception
// itself has all of it.
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
