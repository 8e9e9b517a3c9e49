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

// commandServer serves the command primitives, which is this executable under another name,
// to shell programs. It is opened for the first shell.
type commandServer struct {
	mu     sync.Mutex
	door   *command.Door // nil until the first shell needs it
	failed bool          // it could not be opened, and is not tried again
	closed bool
}

// open returns the server; nil if it could not be opened, which is logged once.
func (d *commandServer) open(dir string, log *slog.Logger) *command.Door {
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

func (d *commandServer) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	door := d.door
	if d.door = nil; door == nil {
		return nil
	}
	return door.Close()
}

// commandClient lets one shell program use primitives.
type commandClient struct {
	caller *command.Caller
	path   string                  // of the directory with the command
	of     atomic.Pointer[attempt] // whose program uses it; nil until there is one
	ctx    context.Context
	cancel context.CancelFunc // ends the wait for answers
	tasks  sync.WaitGroup
}

// newCommandClient lets a program use the command until close. Its uses are served by the
// host of the attempt given to bind.
func (r *Runner) newCommandClient() *commandClient {
	door := r.commands.open(r.dir, r.log)
	if door == nil {
		return nil
	}
	v := &commandClient{path: door.Path()}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	v.caller = door.Admit(v.ask)
	return v
}

// bind sets the attempt whose program uses the command.
func (v *commandClient) bind(a *attempt) {
	if v != nil {
		v.of.Store(a)
	}
}

var nobodyAnswers = []byte(`{"error":{"type":"unavailable","message":"nobody answers primitives here"}}`)

func (v *commandClient) ask(q command.Question) {
	a := v.of.Load()
	if a == nil || a.host == nil || !a.req.Primitives {
		q.Caller.Tell(q.ID, nobodyAnswers)
		return
	}
	wait := a.host.Ask(surfaces.Use{
		CallID: a.req.CallID, Attempt: 1, Seq: q.ID, Name: q.Name, Data: q.Data, Remaining: a.req.Timeout - time.Since(a.began),
	})
	v.tasks.Go(func() {
		if answer := wait(v.ctx); answer != nil {
			q.Caller.Tell(q.ID, answer)
		}
	})
}

// addTo adds the command to a program's environment: at the end of its PATH, with the
// variables by which it identifies its program.
func (v *commandClient) addTo(env []string) []string {
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

// close ends the program's use of the command.
func (v *commandClient) close() {
	if v == nil {
		return
	}
	v.cancel()
	v.caller.End()
	v.tasks.Wait()
}
