//go:build unix

package command

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	RunIfAsked()
	goleak.VerifyTestMain(m)
}

// patience bounds what a test waits for; running into it means that something hangs.
const patience = 60 * time.Second

func openDoor(t *testing.T, workspace string) *Door {
	t.Helper()
	d, err := Open(Config{Workspace: workspace, Dir: ".locus/sh", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// knock begins a conversation in somebody's name.
func knock(t *testing.T, d *Door, name string) *os.File {
	t.Helper()
	conn, err := reach(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := send(conn, []byte(name)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// hears reads all that is answered. What the node has not read by then makes the end
// of the conversation a reset.
func hears(t *testing.T, conn *os.File) string {
	t.Helper()
	// The descriptor blocks, so no deadline of Go's ends its reading.
	if err := unix.SetsockoptTimeval(int(conn.Fd()), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience.Seconds())}); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	return string(said)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (c *Caller) waits() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

func TestOneCallerCannotActForAnother(t *testing.T) {
	d := openDoor(t, t.TempDir())
	heard := make(chan Question, 1)
	first := d.Admit(func(e Question) { heard <- e })
	second := d.Admit(func(e Question) { t.Error("asked in the name of the second:", e) })
	defer second.End()
	if first.Name() == second.Name() || len(first.Name()) != NameSize {
		t.Fatalf("the names are %q and %q", first.Name(), second.Name())
	}
	ask := func(name string) *os.File {
		conn := knock(t, d, name)
		if send(conn, []byte("a.b\x00")) == nil {
			_ = send(conn, nil) // who is sent away at once is still told why
		}
		return conn
	}
	conn := ask(first.Name())
	e := <-heard
	first.Tell("2", json.RawMessage(`{"result": "of another"}`))
	second.Tell(e.ID, json.RawMessage(`{"result": "of another"}`))
	first.Tell(e.ID, json.RawMessage(`{"result": "its own"}`))
	first.Tell(e.ID, json.RawMessage(`{"result": "again"}`))
	if said := hears(t, conn); !strings.Contains(said, "its own") {
		t.Errorf("it heard %q", said)
	}
	first.End()
	first.End()
	if said := hears(t, ask(first.Name())); !strings.Contains(said, "the call has ended") || len(heard) > 0 {
		t.Errorf("after the end it heard %q", said)
	}
}

func TestACommandThatGoesIsForgotten(t *testing.T) {
	d := openDoor(t, t.TempDir())
	heard := make(chan Question, 1)
	c := d.Admit(func(e Question) { heard <- e })
	defer c.End()
	conn := knock(t, d, c.Name())
	if send(conn, []byte("a.b\x00")) != nil || send(conn, nil) != nil {
		t.Fatal("the door was shut")
	}
	e := <-heard
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nobody waits", func() bool { return c.waits() == 0 })
	c.Tell(e.ID, json.RawMessage(`{"result": 1}`))
}

func TestLargeMessagesAreFewAtOnce(t *testing.T) {
	d := openDoor(t, t.TempDir())
	heard := make(chan Question, maxLarge+1)
	c := d.Admit(func(e Question) { heard <- e })
	defer c.End()
	large := []byte(`a.b` + "\x00" + `{"x": "` + strings.Repeat("x", 1<<20) + `"}` + "\x00")
	for range maxLarge + 1 {
		conn := knock(t, d, c.Name())
		go func() {
			if send(conn, large) == nil {
				_ = send(conn, nil)
			}
		}()
	}
	var last Question
	for range maxLarge {
		last = <-heard
	}
	// A small one passes by.
	conn := knock(t, d, c.Name())
	if send(conn, []byte("a.small\x00")) != nil || send(conn, nil) != nil {
		t.Fatal("the door was shut")
	}
	if e := <-heard; e.Name != "a.small" {
		t.Errorf("more than %d large messages are held", maxLarge)
	}
	c.Tell(last.ID, json.RawMessage(`{"result": 1}`))
	if e := <-heard; e.Name != "a.b" {
		t.Errorf("the next was %q", e.Name)
	}
}

func TestCloseEndsConversations(t *testing.T) {
	workspace := t.TempDir()
	d := openDoor(t, workspace)
	heard := make(chan Question, 1)
	c := d.Admit(func(e Question) { heard <- e })
	asking, silent := knock(t, d, c.Name()), knock(t, d, c.Name())
	if send(asking, []byte("a.b\x00")) != nil || send(asking, nil) != nil {
		t.Fatal("the door was shut")
	}
	<-heard
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for _, conn := range []*os.File{asking, silent} {
		hears(t, conn)
	}
	c.End()
	if left, err := os.ReadDir(filepath.Join(workspace, ".locus")); err != nil || len(left) > 0 {
		t.Errorf("the door left %v, %v", left, err)
	}
}

// Code owns the workspace: a link that it has put in the way must not lead the node
// out of it.
func TestALinkLeadsNowhere(t *testing.T) {
	workspace, elsewhere := t.TempDir(), t.TempDir()
	precious := filepath.Join(elsewhere, "sh", "precious")
	if err := os.Mkdir(filepath.Dir(precious), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(workspace, ".locus")); err != nil {
		t.Fatal(err)
	}
	d, err := Open(Config{Workspace: workspace, Dir: ".locus/sh", Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		d.Close()
		t.Error("a door was opened outside of the workspace")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

// Paths longer than a socket's address are no obstacle.
func TestAWorkspaceFarDown(t *testing.T) {
	workspace := filepath.Join(t.TempDir(), strings.Repeat("long/", 60))
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	d := openDoor(t, workspace)
	c := d.Admit(nil)
	defer c.End()
	conn := knock(t, d, c.Name())
	if send(conn, []byte("a.b\x00")) != nil || send(conn, nil) != nil {
		t.Fatal("the door was shut")
	}
	if said := hears(t, conn); !strings.Contains(said, "nobody answers") {
		t.Errorf("it heard %q", said)
	}
}

// FuzzConversation says anything at all to the door.
func FuzzConversation(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x04a.b\x00\x00\x00\x00\x00"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, said []byte) {
		d := openDoor(t, t.TempDir())
		var c *Caller
		c = d.Admit(func(e Question) {
			if !json.Valid(e.Data) {
				t.Errorf("asked with %q", e.Data)
			}
			c.Tell(e.ID, json.RawMessage(`{"result": 1}`))
		})
		conn, err := reach(d.Path())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if send(conn, []byte(c.Name())) == nil {
			_, _ = conn.Write(said) // the door may have shut
		}
		c.End()
		hears(t, conn)
	})
}
