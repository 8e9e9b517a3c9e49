//go:build unix

package oneshot

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locusrun/locus/node/kernel/shell/command"
	"github.com/locusrun/locus/surfaces"
)

// desk is where the programs of shells ask for primitives, by the command of that name:
// this executable under another one. It is opened for the first of them.
type desk struct {
	mu     sync.Mutex
	door   *command.Door
	failed bool
	closed bool
}

// at gives the door; nil where there can be none, which is said once.
func (d *desk) at(dir string, log *slog.Logger) *command.Door {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.door != nil || d.failed || d.closed {
		return d.door
	}
	var err error
	d.door, err = command.Open(command.Config{Workspace: dir, Dir: doorDir, Log: log})
	if d.failed = err != nil; d.failed {
		log.Warn("shells have no command primitives here", "error", err)
	}
	return d.door
}

func (d *desk) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	door := d.door
	if d.door = nil; door == nil {
		return nil
	}
	return door.Close()
}

// visitor is one program of a shell that may ask.
type visitor struct {
	caller *command.Caller
	path   string                  // of the door
	of     atomic.Pointer[attempt] // whose program it is; nil until there is one
	ctx    context.Context
	cancel context.CancelFunc // ends what waits for its answer
	tasks  sync.WaitGroup
}

// visit lets a program ask, until leave: the host of whom it is served for.
func (r *Runner) visit() *visitor {
	door := r.desk.at(r.dir, r.log)
	if door == nil {
		return nil
	}
	v := &visitor{path: door.Path()}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	v.caller = door.Admit(v.ask)
	return v
}

// serve says whose program it is.
func (v *visitor) serve(a *attempt) {
	if v != nil {
		v.of.Store(a)
	}
}

var nobodyAnswers = []byte(`{"error":{"type":"unavailable","message":"nobody answers primitives here"}}`)

func (v *visitor) ask(q command.Question) {
	a := v.of.Load()
	if a == nil || a.host == nil || !a.req.Primitives {
		q.Caller.Tell(q.ID, nobodyAnswers)
		return
	}
	wait := a.host.Ask(surfaces.Use{
		CallID: a.req.CallID, Attempt: 1, Seq: q.ID, Name: q.Name, Data: q.Data, Left: a.req.Timeout - time.Since(a.began),
	})
	v.tasks.Go(func() {
		if answer := wait(v.ctx); answer != nil {
			q.Caller.Tell(q.ID, answer)
		}
	})
}

// equip puts the command into a program's PATH, behind all that is there, and tells it
// whom it acts for.
func (v *visitor) equip(env []string) []string {
	if v == nil {
		return env
	}
	for i, e := range env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			env[i] = "PATH=" + path + ":" + v.path
		}
	}
	return append(env, command.DoorVariable+"="+v.path, command.CallerVariable+"="+v.caller.Name())
}

// leave ends the asking.
func (v *visitor) leave() {
	if v == nil {
		return
	}
	v.cancel()
	v.caller.End()
	v.tasks.Wait()
}
