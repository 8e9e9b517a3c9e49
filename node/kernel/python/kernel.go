package python

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// Kernel is one Python process. It implements kernel.Kernel.
type Kernel struct {
	family  *Family
	number  uint64
	name    string
	kind    kernel.Kind
	control *link
	// mainThread sends requests to the worker's main thread, which answers them while no
	// program runs; steward to the thread that answers at any time.
	mainThread *requester
	steward    *requester
	process    *sandbox.Process
	group      sandbox.Group
	holder     *holder

	// turn is a lock: its holder may read the control socket.
	turn   chan struct{}
	output outputs
	// requests are the running program's.
	requests requests

	killing sync.Once
	killed  chan struct{}
}

// Group holds the kernel's process and everything that it started.
func (k *Kernel) Group() sandbox.Group { return k.group }

// Process is the kernel's own process.
func (k *Kernel) Process() *sandbox.Process { return k.process }

// Forged returns the number of packets on the kernel's control sockets that did not
// come from its worker.
func (k *Kernel) Forged() int64 {
	return k.control.forged.Load() + k.steward.link.forged.Load()
}

// watch ends all reads of the kernel's sockets when its process ends.
func (k *Kernel) watch() {
	k.killed = make(chan struct{})
	k.family.work.Go(func() {
		<-k.process.Done()
		k.control.end()
		k.steward.link.end()
	})
}

// groupKillDelay is how long Kill waits for the killed process before it kills the
// processes that it has started.
const groupKillDelay = 20 * time.Millisecond

// killLimit bounds the wait for a killed process: one that is blocked inside the
// operating system may never end.
const killLimit = 10 * time.Second

// Kill ends the kernel's process and everything in its group, and waits until they
// have ended. Sockets, pipes and the group are cleaned up in the background.
func (k *Kernel) Kill() {
	k.killing.Do(func() {
		defer close(k.killed)
		_ = k.process.Signal(unix.SIGKILL) // it may have ended already
		if k.holder != nil {
			k.holder.kill()
		}
		// Most kernels are alone in their groups. The end of a process is an event, but
		// a group has to be polled until it is empty; after this wait it mostly is.
		k.ends(groupKillDelay)
		if err := k.group.Kill(); err != nil {
			k.family.log.Warn("a kernel's processes did not all end", "kernel", k.name, "error", err)
		}
		if !k.ends(killLimit) {
			k.family.log.Error("a killed kernel does not end", "kernel", k.name, "pid", k.process.Pid())
		}
		k.output.drain()
		if !k.family.begin(k.clear) {
			k.clear()
		}
	})
	<-k.killed
}

// ends waits for the end of the kernel's process.
func (k *Kernel) ends(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-k.process.Done():
		return true
	case <-timer.C:
		return false
	}
}

// clear releases the resources of a killed kernel.
func (k *Kernel) clear() {
	if err := k.group.Close(); err != nil {
		k.family.log.Warn("a kernel's group cannot be removed", "kernel", k.name, "error", err)
	}
	if n := k.Forged(); n > 0 {
		k.family.log.Warn("a kernel's code wrote to its control sockets", "kernel", k.name, "packets", n)
	}
	k.control.close()
	k.steward.link.close()
	k.output.close()
	k.family.leave(k)
}

// died waits for the end of the process and returns the error that describes it.
func (k *Kernel) died(started bool) *kernel.Died {
	if !k.ends(killLimit) {
		// Its control socket is closed, so it cannot serve requests any more.
		_ = k.process.Signal(unix.SIGKILL)
		<-k.process.Done()
	}
	return &kernel.Died{Started: started, Exit: k.process.Exit()}
}

// Interrupt raises KeyboardInterrupt in the program and sends SIGINT to the child
// processes that it waits for.
func (k *Kernel) Interrupt(program int) error {
	// Only a signal that the main thread takes ends a system call in which it waits.
	if err := k.process.SignalMainThread(unix.SIGINT); err != nil {
		return fmt.Errorf("interrupt a kernel: %w", err)
	}
	if err := k.steward.link.sendRequest(request{Op: "interrupt", Program: program}); err != nil {
		return fmt.Errorf("interrupt a kernel: %w", err)
	}
	return nil
}

// Tell delivers a message to the running program.
func (k *Kernel) Tell(m kernel.Message) error {
	var err error
	if m.Kind == kernel.MessagePrimitive {
		err = k.answer(m)
	} else {
		err = k.steward.link.sendRequest(request{Op: "tell", Message: m})
	}
	return waitError(context.Background(), err)
}

// Stack returns the main thread's traceback; it is empty if no program runs.
func (k *Kernel) Stack(ctx context.Context) (string, error) {
	answer, _, err := k.steward.call(ctx, request{Op: "stack"})
	return answer.Stack, err
}

// Inspect describes the state. It runs the code of the session's objects, so call it
// on a Copy.
func (k *Kernel) Inspect(ctx context.Context, detail kernel.Detail) (kernel.State, error) {
	if err := k.acquire(ctx); err != nil {
		return kernel.State{}, err
	}
	defer k.release()
	answer, _, err := k.mainThread.call(ctx, request{Op: "inspect", Detail: string(detail)})
	if errors.Is(err, kernel.ErrGone) {
		return kernel.State{}, &surfaces.Refusal{
			Code:       surfaces.CodeKilled,
			Message:    "code of the session's own objects, such as a __repr__, ended the process that was to describe them; the session is as it was",
			Suggestion: "Set detail to names, which runs no code of theirs, or read what is wanted with a read_only call.",
		}
	}
	if err != nil {
		return kernel.State{}, err
	}
	var state kernel.PythonState
	if err := json.Unmarshal(answer.State, &state); err != nil {
		return kernel.State{}, fmt.Errorf("read a session's state: %w", err)
	}
	return kernel.State{Python: &state}, nil
}

func (k *Kernel) acquire(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *Kernel) release() {
	k.control.releaseBuffer()
	<-k.turn
}
