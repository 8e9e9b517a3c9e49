package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
)

// resident is a bash session, or a copy of one, with the loadable builtin. Code runs in
// the process that the node started, so $$ is that process, and what would end the shell
// ends only the program.
type resident struct {
	common
	channel *channel
	// The turn protects both.
	output *pipes
	forks  uint64 // the shell's number of forks in its last reply

	kill sync.Once
}

var _ kernel.Kernel = (*resident)(nil)

// residentScript loads the builtin from descriptor 3. The builtin then serves descriptor 4.
const residentScript = `shopt -s expand_aliases; enable -f /proc/self/fd/3 locus_session && locus_session`

// makeResident starts a session with the builtin of the given file.
func (f *Family) makeResident(ctx context.Context, builtin string) (_ *resident, err error) {
	r, peer, err := f.newResident(kernel.Session)
	if err != nil {
		return nil, err
	}
	defer peer.Close()
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("shell: start a session: %w", err), r.discard())
		}
	}()
	object, err := os.Open(builtin)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	proc, err := f.cfg.Container.Spawn(ctx, sandbox.Command{
		Path: f.cfg.Path, Args: []string{"bash", "--noprofile", "--norc", "-c", residentScript, "bash"},
		Env: f.cfg.Env, Dir: f.cfg.Workspace, Group: r.group,
		Files: []*os.File{nil, nil, nil, object, peer},
	})
	if err != nil {
		return nil, err
	}
	r.watch(proc)
	begin := request{op: opBegin, code: string(r.channel.token)}
	if err := r.channel.send(ctx, &begin, r.state.file); err != nil {
		return nil, err
	}
	said, _, err := r.channel.next(ctx)
	if err != nil {
		return nil, err
	}
	if said.kind != replyHello {
		return nil, fmt.Errorf("the shell said %q before its hello", said.kind)
	}
	// The state at the start must not appear in the first program's diff.
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	if err := f.keep(r); err != nil {
		return nil, err
	}
	return r, nil
}

// newResident makes the node's side of a resident, without a process, and returns it with
// the shell's end of its channel.
func (f *Family) newResident(kind kernel.Kind) (*resident, *os.File, error) {
	_, name := f.place()
	group, err := f.cfg.Container.NewGroup(name, f.cfg.Limits)
	if err != nil {
		return nil, nil, fmt.Errorf("shell: make a group: %w", err)
	}
	c, peer, err := newChannel()
	if err != nil {
		return nil, nil, errors.Join(err, group.Close())
	}
	state, err := stateInMemory()
	if err != nil {
		peer.Close()
		return nil, nil, errors.Join(err, c.close(), group.Close())
	}
	r := &resident{
		common: common{
			family: f, kind: kind, log: f.log, group: group, state: state,
			line: c, turn: make(chan struct{}, 1), gone: make(chan struct{}), stale: true,
		},
		channel: c,
	}
	r.turn <- struct{}{}
	return r, peer, nil
}

// discard undoes newResident for a kernel that nobody uses yet.
func (r *resident) discard() error {
	r.state.close()
	return errors.Join(r.channel.close(), r.group.Close())
}

// watch makes a process the kernel's own, and ends the channel when the process ends.
func (r *resident) watch(proc *sandbox.Process) {
	r.setProcess(proc)
	go func() {
		<-proc.Done()
		r.channel.ended()
	}()
}

// Run implements kernel.Kernel.
func (r *resident) Run(ctx context.Context, p kernel.Program) (kernel.Report, error) {
	if err := r.enter(ctx, p); err != nil {
		return kernel.Report{}, err
	}
	defer r.giveTurn()
	out, err := r.openOutput(p.Tap)
	if err != nil {
		return kernel.Report{}, err
	}
	alone := false
	defer func() { r.settleOutput(alone) }()
	r.seq++
	r.exitTrap = r.exitTrap || setsExitTrap(p.Code)
	caller := r.family.admit(p.Events)
	defer caller.End()
	req := request{op: opRun, seq: r.seq, code: p.Code, diff: p.Diff, caller: caller.Name()}
	files := []*os.File{out.stdout, out.stderr}
	if p.Stdin != "" {
		input, err := kernel.MemoryFile("stdin", []byte(p.Stdin))
		if err != nil {
			return kernel.Report{}, err
		}
		defer input.Close()
		req.stdin = true
		files = append(files, input)
	}
	r.mark(p.Number, caller)
	defer r.unmark()
	said, err := r.exchange(p, &req, files...)
	if err != nil {
		return kernel.Report{}, err
	}
	if said.cost != nil {
		alone = said.cost.forks == r.forks
		r.forks = said.cost.forks
	}
	return r.report(p, said), nil
}

// Kill implements kernel.Kernel. An idle session first runs the caller's EXIT trap, for at
// most exitTrapLimit.
func (r *resident) Kill() {
	r.kill.Do(func() {
		defer close(r.gone)
		r.shutdown()
		if r.output != nil {
			r.output.release()
		}
		if err := r.channel.close(); err != nil {
			r.log.Warn("a control socket was not closed", "error", err)
		}
		r.family.forget(r)
	})
	<-r.gone
}
