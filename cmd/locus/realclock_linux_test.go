package main

import (
	"bytes"
	"debug/elf"
	endian "encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/locusrun/locus/agentlink"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// clockOff gives the command with a clock that is wrong by a whole number of seconds. No
// system call helps there: a Go program reads the time out of memory that it shares with
// the kernel, and a time namespace changes only clocks that count from the start of the
// machine. So it is a copy of the program with another number in the place of the one by
// which time.Now turns the kernel's seconds into its own.
func clockOff(t *testing.T, by time.Duration) string {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the number in time.Now is found in programs for amd64 only")
	}
	image, err := os.ReadFile(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	// The seconds from 1885, where the short form of a time begins, to 1970.
	const epoch = 2682288000
	right := endian.LittleEndian.AppendUint32(nil, epoch)
	now := function(t, image, "time.Now")
	if n := bytes.Count(now, right); n != 1 {
		t.Fatalf("time.Now is not as it was: it has the number %d times", n)
	}
	endian.LittleEndian.PutUint32(now[bytes.Index(now, right):], uint32(epoch+int64(by/time.Second)))
	path := filepath.Join(t.TempDir(), "locus")
	// A process that is being started must not hold the file open for writing: it could
	// not be executed then.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, image, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// function gives the part of a program that is one function's code.
func function(t *testing.T, image []byte, name string) []byte {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == name {
			section := file.Sections[s.Section]
			from := s.Value - section.Addr + section.Offset
			return image[from : from+s.Size]
		}
	}
	t.Fatalf("the program has no %s", name)
	return nil
}

// A node and a machine whose clocks are an hour wrong work like the others, also when their
// clocks are corrected.
func TestClocksAreAnHourWrong(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong := clockOff(t, by)
			a := &realNode{t: t, path: binary(t), data: t.TempDir()}
			a.up("--fast")
			b, join := a.another()
			b.path = wrong
			b.up(append(join, "--fast")...)

			made, status := a.result("-m", "stateful", "-s", "work", "x = 41")
			if status != 0 {
				t.Fatalf("got %d %s, want status 0", status, say(made))
			}
			res, _ := b.result("-m", "stateful", "-s", "work", "x + 1")
			if string(res.Result) != "42" {
				t.Fatalf("got %s, want Result \"42\"", say(res))
			}
			for _, call := range decoded[gateway.ExecutionList](b, "calls").Executions {
				if call.CallID == res.CallID {
					shows(t, "the node", call.StartedAt, by)
				}
			}

			// Machines whose clocks differ from their nodes', and are then corrected.
			for _, c := range []struct {
				name       string
				n          *realNode
				path, then string
			}{{"late", a, wrong, a.path}, {"punctual", b, a.path, wrong}} {
				l := &realLink{t: t, n: c.n, path: c.path, data: t.TempDir()}
				token := decoded[gateway.TokenInfo](c.n, "token", "create", "--role", "link").Token
				l.up("--join", c.n.listen, "--token", token, "--name", c.name)
				l.serves(c.name, a, b)
				if c.path == wrong {
					shows(t, "the machine", l.loggedAt(), by)
				}
				l.kill(syscall.SIGKILL)
				l.path = c.then
				l.up()
				l.serves(c.name, a, b)
			}
			if code := b.kill(syscall.SIGTERM); code != 0 {
				t.Fatalf("SIGTERM ended it with status %d", code)
			}
			b.path = a.path
			b.up("--fast")
			if res, status := b.result("-m", "stateful", "-s", "work", "1"); status != 0 {
				t.Fatalf("got %d %s, want status 0", status, say(res))
			}
		})
	}
}

// serves waits until a machine runs what it is asked to through each of the nodes.
func (l *realLink) serves(name string, nodes ...*realNode) {
	l.t.Helper()
	for _, n := range nodes {
		l.awaits(name+" runs what it is asked to", func() bool {
			res, _ := n.result("--surface", "user_machine", "--machine", name, "-t", "20", "6 * 7")
			if res.Code != nil && *res.Code != surfaces.CodeMachineUnreachable && *res.Code != surfaces.CodeMachineNotLinked {
				l.t.Fatalf("got %s", say(res))
			}
			return string(res.Result) == "42"
		})
	}
}

// loggedAt is when the machine was asked for something first, by its own clock.
func (l *realLink) loggedAt() time.Time {
	l.t.Helper()
	log, _, _ := (&realNode{t: l.t, path: l.path, data: l.data}).locus("--json", "link", "log")
	var first agentlink.Entry
	if err := json.NewDecoder(strings.NewReader(log)).Decode(&first); err != nil {
		l.t.Fatal(err)
	}
	return first.At
}

// shows checks that a clock was as wrong as it should be.
func shows(t *testing.T, whose string, clock time.Time, by time.Duration) {
	t.Helper()
	if off := time.Until(clock) - by; off.Abs() > patience {
		t.Fatalf("%s shows %s, which is not wrong by %s", whose, clock, by)
	}
}
