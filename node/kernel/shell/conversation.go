package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// line is the node's end of the conversation with a shell: named pipes (control) or
// a socket (channel).
type line interface {
	// send hands a request over whole, with descriptors where the line can carry them.
	// It fails when the shell is gone or the context has ended.
	send(ctx context.Context, r *request, files ...*os.File) error
	// next waits for the next reply and the descriptor that came with it, or nil. It
	// fails with errGone when the shell has ended and nothing that it said is left.
	next(ctx context.Context) (reply, *os.File, error)
	// ended ends all waiting: the process is gone.
	ended()
	// over reports whether ended was called.
	over() bool
	close() error
}

// end is what both kinds of line have in common.
type end struct {
	token []byte
	// dropped counts what was no reply: what code wrote blindly.
	dropped atomic.Int64
	gone    atomic.Bool
	goneC   chan struct{} // closed with gone
	once    sync.Once
}

func (e *end) over() bool { return e.gone.Load() }

func (e *end) hangUp() {
	e.once.Do(func() {
		e.gone.Store(true)
		close(e.goneC)
	})
}

// errGone says that the process at the other end has ended.
var errGone = errors.New("the shell has ended")

func (e *end) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case e.gone.Load() || errors.Is(err, os.ErrClosed):
		return errGone
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("talk to the shell: %w", err)
}

// takeTurn waits for the turn; it fails with errGone when the shell has ended. Whether it
// has is seen only with the turn: who has it may be about to go on in another process.
func (c *common) takeTurn(ctx context.Context) error {
	select {
	case <-c.turn:
	case <-c.gone: // with the turn
		return errGone
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
	}
	if c.line.over() || hasEnded(c.Process()) {
		c.giveTurn()
		return errGone
	}
	if err := kernel.EnsureFiles(c.Process().Pid()); err != nil {
		c.giveTurn()
		return err
	}
	return nil
}

// enter takes the turn for a program, and sees to it that the state before it is known
// if a diff is asked for.
func (c *common) enter(ctx context.Context, p kernel.Program) error {
	if strings.IndexByte(p.Code, 0) >= 0 {
		return ErrNUL
	}
	if err := c.takeTurn(ctx); err != nil {
		return c.fail(false, err)
	}
	if p.Diff && c.stale {
		if err := c.refresh(ctx); err != nil {
			c.giveTurn()
			return c.fail(false, err)
		}
	}
	return nil
}

// exchange hands a program over and waits for the shell's word at its end. No context
// has a say in that.
func (c *common) exchange(p kernel.Program, r *request, files ...*os.File) (reply, error) {
	if p.Started != nil {
		p.Started()
	}
	if err := c.line.send(context.Background(), r, files...); err != nil {
		return reply{}, c.fail(true, err)
	}
	said, err := c.await(context.Background(), sayDone)
	if err != nil {
		return reply{}, c.fail(true, err)
	}
	return said, nil
}

// await waits for the reply of a kind to the last request.
func (c *common) await(ctx context.Context, kind byte) (reply, error) {
	for {
		said, file, err := c.line.next(ctx)
		if err != nil {
			return reply{}, err
		}
		if file != nil {
			file.Close()
		}
		if c.attend != nil {
			if err := c.attend(ctx, said); err != nil {
				return reply{}, err
			}
		}
		if said.kind == kind && said.seq == c.seq {
			return said, nil
		}
	}
}

// fail turns the error of a conversation into the error of a method. A shell that
// does not answer as it should is killed: it must not go on unwatched.
func (c *common) fail(started bool, err error) error {
	var refusal *surfaces.Refusal
	switch {
	case errors.Is(err, errGone):
		// What has taken the shell's place runs to its end, as its output does.
		return c.died(started)
	case errors.Is(err, ErrBusy), errors.As(err, &refusal):
		return err
	}
	c.log.Error("a shell was given up", "error", err)
	c.signal(syscall.SIGKILL)
	return fmt.Errorf("shell: %w", err)
}

// bury ends the kernel: a caller's EXIT trap is run first when the session is idle, for
// at most farewellTime, and all that uses the line is over when bury returns.
func (c *common) bury() {
	c.farewell()
	if err := c.group.Close(); err != nil {
		c.log.Error("a shell's group was not killed", "error", err)
	}
	c.signal(syscall.SIGKILL)
	<-c.Process().Done()
	c.mu.Lock()
	l := c.line
	c.mu.Unlock()
	l.ended()
	// Whoever still talks gives the turn back now; then nobody uses the line.
	<-c.turn
	c.state.close()
}
