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

// line is the node's end of the connection to a shell: named pipes (control) or a socket
// (channel).
type line interface {
	// send sends a whole request, with descriptors if the line supports them. It fails
	// when the shell is gone or the context has ended.
	send(ctx context.Context, r *request, files ...*os.File) error
	// next waits for the next reply. The file is the descriptor that came with it, or
	// nil. The error is errGone when the shell has ended and no reply is left.
	next(ctx context.Context) (reply, *os.File, error)
	// ended makes all waiting calls return, because the process is gone.
	ended()
	// over reports whether ended was called.
	over() bool
	close() error
}

// end is the shared part of both kinds of line.
type end struct {
	token []byte
	// dropped counts what was read but was not a reply: code wrote it.
	dropped atomic.Int64
	gone    atomic.Bool
	goneC   chan struct{} // closed with gone
	once    sync.Once
}

func (e *end) over() bool { return e.gone.Load() }

func (e *end) markEnded() {
	e.once.Do(func() {
		e.gone.Store(true)
		close(e.goneC)
	})
}

// errGone means that the process at the other end has ended.
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

// takeTurn waits for the turn. The error is errGone if the shell has ended. That is
// checked only with the turn, because its owner may switch the kernel to another process.
func (c *common) takeTurn(ctx context.Context) error {
	select {
	case <-c.turn:
	case <-c.gone: // Kill keeps the turn
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

// enter takes the turn for a program. If the program requests a diff, enter makes sure
// that the state before it is known.
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

// exchange hands a program over and waits for the shell's reply at its end, whatever
// happens to the caller's context.
func (c *common) exchange(p kernel.Program, r *request, files ...*os.File) (reply, error) {
	if p.Started != nil {
		p.Started()
	}
	if err := c.line.send(context.Background(), r, files...); err != nil {
		return reply{}, c.fail(true, err)
	}
	said, err := c.await(context.Background(), replyDone)
	if err != nil {
		return reply{}, c.fail(true, err)
	}
	return said, nil
}

// await waits for the reply of the given kind to the last request.
func (c *common) await(ctx context.Context, kind byte) (reply, error) {
	for {
		said, file, err := c.line.next(ctx)
		if err != nil {
			return reply{}, err
		}
		if file != nil {
			file.Close()
		}
		if c.onReply != nil {
			if err := c.onReply(ctx, said); err != nil {
				return reply{}, err
			}
		}
		if said.kind == kind && said.seq == c.seq {
			return said, nil
		}
	}
}

// fail turns the error of a line into the error of a method. It kills a shell that does
// not follow the protocol, because the node can no longer control it.
func (c *common) fail(started bool, err error) error {
	var refusal *surfaces.Refusal
	switch {
	case errors.Is(err, errGone):
		// Code may have replaced the shell by exec; died waits until that program ends.
		return c.died(started)
	case errors.Is(err, ErrBusy), errors.As(err, &refusal):
		return err
	}
	c.log.Error("a shell is killed because it does not follow the protocol", "error", err)
	c.signal(syscall.SIGKILL)
	return fmt.Errorf("shell: %w", err)
}

// shutdown ends the kernel. An idle session first runs the caller's EXIT trap, for at most
// exitTrapLimit. When shutdown returns, nobody uses the line any more.
func (c *common) shutdown() {
	c.runExitTrap()
	if err := c.group.Close(); err != nil {
		c.log.Error("a shell's group was not killed", "error", err)
	}
	c.signal(syscall.SIGKILL)
	<-c.Process().Done()
	c.mu.Lock()
	l := c.line
	c.mu.Unlock()
	l.ended()
	// The owner of the turn returns it now. Keeping it makes later users fail.
	<-c.turn
	c.state.close()
}
