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

// Name is the name of the command.
const Name = "primitives"

// The environment variables with which the command finds its door and names its caller.
const (
	DoorVariable   = "__locus_door"
	CallerVariable = "__locus_caller"
)

// socketName is the door's socket in its directory.
const socketName = "door"

const (
	// maxConversations is how many commands are served at the same time. More wait.
	maxConversations = 256
	// nameLimit is how long a command may take to send its caller's name.
	nameLimit = 30 * time.Second
	// partingLimit bounds sending the answer that the call has ended.
	partingLimit = 5 * time.Second
)

// Config configures a door.
type Config struct {
	// Workspace is a directory that the code cannot replace.
	Workspace string
	// Dir is the door's directory, relative to the workspace. Open replaces it.
	Dir string
	// Program is the path of the compiled command, which is copied. If it is empty, this
	// program serves as the command; see RunIfAsked.
	Program string
	Log     *slog.Logger
}

// Door serves the commands of a family's programs. It is safe for concurrent use.
type Door struct {
	path     string
	log      *slog.Logger
	listener *net.UnixListener
	places   chan struct{} // a semaphore of maxConversations
	large    chan struct{} // a semaphore of maxLarge

	ctx    context.Context
	shut   context.CancelFunc
	work   sync.WaitGroup
	closed func() error // Close, which runs once

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

// install makes the command: a copy of the compiled program, or a link to this one.
func install(root *os.Root, name, program string) error {
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		// The link leads out of the root. Only the code follows it, never the node.
		return root.Symlink(self, name)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	return root.WriteFile(name, content, 0o700)
}

// Path returns the door's directory. It contains the command, so it belongs in PATH.
func (d *Door) Path() string { return d.path }

// Close stops the server, ends all connections and removes the directory. It is
// idempotent.
func (d *Door) Close() error { return d.closed() }

// Admit registers a program. Its questions are passed to asks, one at a time and none after
// the caller's End. With nil asks every question fails.
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

// accept accepts connections until the door is closed.
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
			d.log.Warn("cannot accept a command's connection", "error", err)
			// The cause, such as a lack of descriptors, needs time to pass.
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

// hear serves one connection.
func (d *Door) hear(conn *net.UnixConn) {
	defer conn.Close()
	stop := context.AfterFunc(d.ctx, func() { conn.Close() })
	defer stop()
	if conn.SetReadDeadline(time.Now().Add(nameLimit)) != nil {
		return
	}
	name, err := readPart(conn, NameSize)
	if err != nil || conn.SetReadDeadline(time.Time{}) != nil {
		return // the client is gone, or is not the command
	}
	c := d.caller(string(name))
	if c == nil {
		d.answer(conn, failure(errEnded))
		return
	}
	// The end of the call ends the read, and leaves partingLimit to answer that.
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

// answer sends the answer, if the command is not gone.
func (d *Door) answer(conn *net.UnixConn, a answer) {
	if err := a.send(conn); err != nil {
		d.log.Debug("a command did not take its answer", "error", err)
	}
}
