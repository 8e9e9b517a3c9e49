package command

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Name is that of the command.
const Name = "primitives"

// The variables of a program's environment by which the command finds its door, and
// tells whom it acts for.
const (
	DoorVariable   = "__locus_door"
	CallerVariable = "__locus_caller"
)

// socketName is the door's socket in its directory.
const socketName = "door"

const (
	// maxConversations is how many commands are heard at once; more wait their turn.
	maxConversations = 256
	// nameLimit is how long a conversation may take to say for whom it is.
	nameLimit = 30 * time.Second
	// partingLimit is how long a command may take to hear that its call has ended.
	partingLimit = 5 * time.Second
)

// Config says where a door shall be.
type Config struct {
	// Workspace is a directory that the code cannot put another in the place of.
	Workspace string
	// Dir is the door's directory, a path relative to the workspace. What is there is
	// removed.
	Dir string
	// Program is a compiled command, which is copied; empty makes this program stand
	// in for it, see RunIfAsked.
	Program string
	// Log takes what people should know.
	Log *slog.Logger
}

// Door lets the commands of a family's programs in. Its methods may be called at
// the same time.
type Door struct {
	path     string
	log      *slog.Logger
	listener *net.UnixListener
	places   chan struct{} // one token a conversation
	large    chan struct{} // one token a large message

	ctx    context.Context
	shut   context.CancelFunc
	work   sync.WaitGroup
	closed func() error // the work of Close, done once

	mu      sync.Mutex
	callers map[string]*Caller
}

// Open makes the directory, with the command and the socket in it, and listens.
func Open(cfg Config) (_ *Door, err error) {
	root, err := os.OpenRoot(cfg.Workspace)
	if err != nil {
		return nil, fmt.Errorf("open a door: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open a door: %w", err), root.RemoveAll(cfg.Dir), root.Close())
		}
	}()
	if err := root.RemoveAll(cfg.Dir); err != nil {
		return nil, err
	}
	if err := root.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := install(root, filepath.Join(cfg.Dir, Name), cfg.Program); err != nil {
		return nil, err
	}
	listener, err := listen(root, cfg.Dir)
	if err != nil {
		return nil, err
	}
	d := &Door{
		path: filepath.Join(cfg.Workspace, cfg.Dir), log: cfg.Log, listener: listener,
		places: make(chan struct{}, maxConversations), large: make(chan struct{}, maxLarge),
		callers: make(map[string]*Caller),
	}
	d.ctx, d.shut = context.WithCancel(context.Background())
	d.closed = sync.OnceValue(func() error {
		d.shut()
		d.work.Wait()
		return errors.Join(root.RemoveAll(cfg.Dir), root.Close())
	})
	context.AfterFunc(d.ctx, func() { listener.Close() })
	d.work.Go(d.accept)
	return d, nil
}

// install puts the command in its place.
func install(root *os.Root, name, program string) error {
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		// The link leads out of the root, which matters to code only: nothing in the
		// node follows it.
		return root.Symlink(self, name)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	return root.WriteFile(name, content, 0o700)
}

// Path is the door's directory. It holds the command, so it belongs in PATH.
func (d *Door) Path() string { return d.path }

// Close shuts the door, ends all conversations and removes the directory. It is
// idempotent.
func (d *Door) Close() error { return d.closed() }

// Admit lets a program ask. Its questions are given to asks, never two at once and
// none after the caller's End; with nil asks nobody answers them.
func (d *Door) Admit(asks func(Question)) *Caller {
	var raw [NameSize / 2]byte
	_, _ = rand.Read(raw[:]) // it never fails
	c := &Caller{door: d, name: hex.EncodeToString(raw[:]), asks: asks, waiting: make(map[string]chan []byte)}
	c.ctx, c.end = context.WithCancel(d.ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.callers[c.name] = c
	return c
}

func (d *Door) caller(name string) *Caller {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.callers[name]
}

func (d *Door) forget(c *Caller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.callers, c.name)
}

// accept hears one conversation after the other until the door is closed.
func (d *Door) accept() {
	for {
		select {
		case d.places <- struct{}{}:
		case <-d.ctx.Done():
			return
		}
		conn, err := d.listener.AcceptUnix()
		if err != nil {
			<-d.places
			if d.ctx.Err() != nil {
				return
			}
			d.log.Warn("a command was not let in", "error", err)
			// What is lacking, such as descriptors, is not there at once again.
			select {
			case <-time.After(100 * time.Millisecond):
			case <-d.ctx.Done():
			}
			continue
		}
		d.work.Go(func() {
			defer func() { <-d.places }()
			d.hear(conn)
		})
	}
}

// hear holds one conversation.
func (d *Door) hear(conn *net.UnixConn) {
	defer conn.Close()
	stop := context.AfterFunc(d.ctx, func() { conn.Close() })
	defer stop()
	if conn.SetReadDeadline(time.Now().Add(nameLimit)) != nil {
		return
	}
	name, err := readPart(conn, NameSize)
	if err != nil || conn.SetReadDeadline(time.Time{}) != nil {
		return // it is gone, or no command of ours
	}
	c := d.caller(string(name))
	if c == nil {
		d.answer(conn, failure(errEnded))
		return
	}
	// The end of the call ends the reading, and leaves a moment to tell of it.
	stopListening := context.AfterFunc(c.ctx, func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		_ = conn.SetWriteDeadline(time.Now().Add(partingLimit))
	})
	defer stopListening()
	a, err := c.attend(conn)
	switch {
	case err == nil:
		d.answer(conn, a)
	case c.ctx.Err() != nil:
		d.answer(conn, failure(errEnded))
	}
}

// answer sends what the command is to give out. A command that is gone by then has
// nobody to miss it.
func (d *Door) answer(conn *net.UnixConn, a answer) {
	if err := a.send(conn); err != nil {
		d.log.Debug("a command did not take its answer", "error", err)
	}
}
