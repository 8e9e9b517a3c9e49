//go:build unix

package oneshot

import (
	"context"
	"log/slog"
	"strings"
	"sync"
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
	path   string             // of the door
	cancel context.CancelFunc // ends what waits for its answer
	tasks  sync.WaitGroup
}

// visit lets the program ask its host, until leave.
func (a *attempt) visit() *visitor {
	door := a.runner.desk.at(a.runner.dir, a.runner.log)
	if door == nil {
		return nil
	}
	v := &visitor{path: door.Path()}
	ctx, cancel := context.WithCancel(context.Background())
	v.cancel = cancel
	if a.host == nil || !a.req.Primitives {
		v.caller = door.Admit(nil)
		return v
	}
	v.caller = door.Admit(func(q command.Question) {
		wait := a.host.Ask(surfaces.Use{
			CallID: a.req.CallID, Attempt: 1, Seq: q.ID, Name: q.Name, Data: q.Data, Left: a.req.Timeout - time.Since(a.began),
		})
		v.tasks.Go(func() {
			if answer := wait(ctx); answer != nil {
				q.Caller.Tell(q.ID, answer)
			}
		})
	})
	return v
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
