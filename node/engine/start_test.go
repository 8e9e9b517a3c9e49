package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// noKernels fails every start with the same error.
type noKernels struct{ why error }

func (n noKernels) Start(context.Context, engine.Want) (kernel.Kernel, error) { return nil, n.why }

// A failed start of a process is reported as what it is, and that nothing ran. Only
// unexpected errors are internal.
func TestKernelThatCannotBeStarted(t *testing.T) {
	killed := &kernel.Died{Exit: sandbox.Exit{Known: true, Signal: syscall.SIGKILL}}
	for name, c := range map[string]struct {
		why    error
		code   surfaces.Code
		manage surfaces.Code
	}{
		"it was killed":    {fmt.Errorf("start a kernel: %w", killed), surfaces.CodeKilled, surfaces.CodeKilled},
		"it took too long": {fmt.Errorf("start a kernel: %w", context.DeadlineExceeded), surfaces.CodeNoCapacity, surfaces.CodeOwnerUnreachable},
		"nobody knows":     {errors.New("start a kernel: the moon is full"), surfaces.CodeInternal, ""},
	} {
		e := engine.New(engine.Config{Node: "n", Kernels: noKernels{c.why}, Log: slog.New(slog.DiscardHandler)})
		key := surfaces.SessionKey{Actor: "a", Language: surfaces.Python, ID: 1}
		for _, mode := range []surfaces.StateMode{surfaces.Stateful, surfaces.ReadOnly, surfaces.Stateless} {
			call := surfaces.Call{Actor: "a", Request: surfaces.Request{
				Code: "1", Language: surfaces.Python, StateMode: mode, Surface: surfaces.Local, Timeout: time.Minute,
			}}
			if mode != surfaces.Stateless {
				call.Session = &surfaces.SessionRef{Key: key, Epoch: 1, Exists: true}
			}
			out := e.Execute(t.Context(), surfaces.Attempt{Call: call, CallID: "c", Actor: "a", Number: 1})
			if out.Result.Code == nil || *out.Result.Code != c.code || out.Loss != nil {
				t.Errorf("%s, %s: %+v, %+v, want Result.Code %v, no Loss", name, mode, out.Result, out.Loss, c.code)
			}
		}
		_, err := e.Inspect(t.Context(), key, 1, kernel.DetailNames)
		var refusal *surfaces.Refusal
		if told := errors.As(err, &refusal); told != (c.manage != "") || told && refusal.Code != c.manage {
			t.Errorf("%s, inspected: %v", name, err)
		}
		e.Close()
	}
}
