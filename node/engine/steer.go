package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// ErrNotRunning: the call cannot be steered, because it waits or has ended, or its language
// does not support it.
var ErrNotRunning = errors.New("the call's code is not running")

// Pause freezes the code with everything that it started, and stops the clock of its
// deadline. It is idempotent.
func (r *Run) Pause() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.kernel == nil || r.why != byItself {
		return ErrNotRunning
	}
	if r.paused {
		return nil
	}
	if err := r.kernel.Group().Freeze(); err != nil {
		return err
	}
	r.paused, r.resumed = true, make(chan struct{})
	r.clock.hold()
	return nil
}

// Resume undoes Pause. It is idempotent.
func (r *Run) Resume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.kernel == nil {
		return ErrNotRunning
	}
	if r.paused {
		r.thaw()
	}
	return nil
}

// thaw resumes paused code. r.mu is held.
func (r *Run) thaw() {
	close(r.resumed)
	r.paused, r.resumed = false, nil
	r.clock.release()
	if r.suspended {
		return
	}
	if err := r.kernel.Group().Thaw(); err != nil {
		r.engine.log.Error("a paused call could not be resumed", "call_id", r.attempt.CallID, "error", err)
	}
}

// Paused reports whether the call is paused.
func (r *Run) Paused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paused
}

// Tell delivers an interjection, or the answer to a question, to the running code.
func (r *Run) Tell(m kernel.Message) error {
	r.mu.Lock()
	k, paused := r.kernel, r.paused
	r.mu.Unlock()
	if k == nil || paused {
		return ErrNotRunning
	}
	if m.Kind == kernel.MessageAnswer {
		id, err := r.asked.answer(m.ID)
		if err != nil {
			return err
		}
		m.ID = id
	}
	return tell(k, m)
}

// tell gives a kernel a message. It returns ErrNotRunning if the kernel's process has
// ended.
func tell(k kernel.Kernel, m kernel.Message) error {
	err := k.Tell(m)
	if errors.Is(err, kernel.ErrGone) {
		return ErrNotRunning
	}
	return err
}

// Answer is the result of Ask.
type Answer struct {
	// Result is that of the given program; nil if none was given. A running shell refuses
	// programs.
	Result *surfaces.Result `json:"result"`
	// Stack is the stack of the running code.
	Stack string `json:"stack"`
}

// Traced returns ctx with the span that the run is a part of, if it is traced.
func (r *Run) Traced(ctx context.Context) context.Context { return tracing.WithSpanOf(ctx, r.ctx) }

// Ask returns the stack of the running code and, if a program is given, runs that against a
// copy of the busy session, with its own sink and host. A paused call cannot be asked,
// because its process does not answer.
func (r *Run) Ask(ctx context.Context, callID, code string, limit time.Duration, sink surfaces.Sink, host surfaces.Host) (Answer, error) {
	r.mu.Lock()
	k, paused, in := r.kernel, r.paused, r.session
	r.mu.Unlock()
	if k == nil || paused {
		return Answer{}, ErrNotRunning
	}
	stack, err := k.Stack(ctx)
	if err != nil {
		r.engine.log.Info("a running call could not tell where it stands", "call_id", r.attempt.CallID, "error", err)
	}
	answer := Answer{Stack: stack}
	if code == "" {
		return answer, nil
	}
	asked := r.attempt
	asked.CallID, asked.Sink, asked.Host, asked.Number, asked.Remaining = callID, sink, host, 1, 0
	asked.Call.Code, asked.Call.StateMode, asked.Call.Timeout = code, surfaces.ReadOnly, limit
	asked.Call.Stdin, asked.Call.Atomic = "", false
	began := time.Now()
	if language := asked.Call.Language; language.IsShell() {
		refused := noSnapshot(language).Result(r.engine.partial(&asked, began))
		answer.Result = &refused
		return answer, nil
	}
	q, refusal := r.engine.admit(ctx, asked, began)
	if refusal != nil {
		return answer, refusal
	}
	defer r.engine.dismiss(q)
	out, err := q.onCopyOf(k, in)
	if err != nil {
		return answer, err
	}
	out.Result.DurationMS = surfaces.Milliseconds(time.Since(began))
	answer.Result = &out.Result
	return answer, nil
}

// noSnapshot refuses a program for a running shell. The shell's kernel could fork only
// after the running command has ended, which may be too late.
func noSnapshot(language surfaces.Language) *surfaces.Refusal {
	return &surfaces.Refusal{
		Code:       surfaces.CodeInvalidArgument,
		Message:    fmt.Sprintf("a %s that runs a command cannot be copied, so there is no snapshot of it to run code against; its running commands and its output so far are known", language),
		Suggestion: "Drop code. A read_only call in the same session runs it when the running call has ended.",
		Fix:        &surfaces.Fix{Drop: []string{"code"}, Set: map[string]any{}},
	}
}

// onCopyOf runs the code in a copy of a running kernel, which belongs to session s unless s
// is nil. It returns ErrNotRunning if the process has ended meanwhile.
func (r *Run) onCopyOf(k kernel.Kernel, s *session) (surfaces.Outcome, error) {
	ctx, cancel := context.WithTimeout(r.ctx, forkLimit(r.attempt.Call.Language))
	var c kernel.Kernel
	var notices []surfaces.Notice
	var err error
	if name := r.engine.nextName("ask"); s != nil {
		c, notices, err = s.fork(ctx, k, name)
	} else {
		c, notices, err = k.Fork(ctx, kernel.Copy, name)
	}
	cancel()
	var died *kernel.Died
	if errors.As(err, &died) {
		return surfaces.Outcome{}, ErrNotRunning
	}
	if err != nil {
		return r.notStarted(r.engine.forkError(r.ctx, err)), nil
	}
	r.notice(notices...)
	report, err := r.in(c, r.program(1, true), func(ending) { c.Kill() })
	r.killOwn(c)
	if err != nil {
		out := r.died(err, nil)
		out.Loss = nil
		return out, nil
	}
	return r.completed(report), nil
}
