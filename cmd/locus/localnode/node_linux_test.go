package localnode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds every wait that must come to an end.
const patience = time.Minute

// parentVariable makes this program one that starts a program as a node, tells its
// process id, and waits to be killed.
const parentVariable = "LOCALNODE_TEST_PARENT"

func TestMain(m *testing.M) {
	if program := os.Getenv(parentVariable); program != "" {
		n, err := Start(context.Background(), Config{Program: program, Data: os.TempDir(), Log: os.DevNull})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(n.cmd.Process.Pid)
		select {}
	}
	goleak.VerifyTestMain(m)
}

// program gives a shell script in the place of locus.
func program(t *testing.T, script string) Config {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "program")
	// A process that is being started must not hold the file open for writing: it could
	// not be executed then.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return Config{Program: path, Data: dir, Log: filepath.Join(dir, "log"), Flags: []string{"--fast"}}
}

const serves = `echo '{"http":"h:1","listen":"l:2","node":"node-1"}'
`

func begun(t *testing.T, script string) *Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := Start(ctx, program(t, script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Kill(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestANodeSaysWhereItServes(t *testing.T) {
	t.Setenv("LOCUS_DATA", "elsewhere")
	n := begun(t, `echo "$@ data=$LOCUS_DATA" >&2
`+serves+"exec sleep 1000\n")
	if n.HTTP != "h:1" || n.Listen != "l:2" || n.ID != "node-1" {
		t.Errorf("got %+v, want n.HTTP \"h:1\", n.Listen \"l:2\", n.ID \"node-1\"", n)
	}
	log, err := os.ReadFile(n.cfg.Log)
	if want := "up --json --data " + n.cfg.Data + " --fast data=\n"; err != nil || string(log) != want {
		t.Errorf("it was started with %q, %v; want %q", log, err, want)
	}
	if group, err := syscall.Getpgid(n.cmd.Process.Pid); err != nil || group == syscall.Getpgrp() {
		t.Errorf("it gets the terminal's signals: %d, %v", group, err)
	}
}

func TestStop(t *testing.T) {
	n := begun(t, "trap 'exit 3' TERM\n"+serves+"while :; do sleep 0.01; done\n")
	// One whose process is stopped is let go on first.
	if err := n.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if status, err := n.Stop(patience); err != nil || status != 3 {
		t.Errorf("got %d, %v", status, err)
	}
	<-n.Done()
	for range 2 { // what has ended stays so
		if status, err := n.Stop(patience); err != nil || status != 3 {
			t.Errorf("got %d, %v", status, err)
		}
		if err := n.Kill(); err != nil {
			t.Error(err)
		}
	}
	deaf := begun(t, "trap '' TERM\n"+serves+"while :; do sleep 0.01; done\n")
	if _, err := deaf.Stop(time.Millisecond); !errors.Is(err, ErrStopTimeout) {
		t.Errorf("got %v, want %v", err, ErrStopTimeout)
	}
	<-deaf.Done()
}

func TestStartOfANodeThatDoesNotServe(t *testing.T) {
	cause := errors.New("long enough")
	short, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
	defer cancel()
	for name, row := range map[string]struct {
		script string
		want   EndedError
	}{
		"it ends":            {"echo the disk is full >&2; exit 2\n", EndedError{Status: 2, Log: "the disk is full"}},
		"it says other than": {"echo ready\n", EndedError{Status: 0}},
	} {
		var ended *EndedError
		if _, err := Start(t.Context(), program(t, row.script)); !errors.As(err, &ended) || *ended != row.want {
			t.Errorf("%s: got %v, want %+v", name, err, row.want)
		}
	}
	if _, err := Start(short, program(t, "exec sleep 1000\n")); !errors.Is(err, cause) {
		t.Errorf("it says nothing: got %v, want the cause of the context, %v", err, cause)
	}
	if _, err := Start(t.Context(), Config{Program: "/nowhere", Log: filepath.Join(t.TempDir(), "log")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// A node ends with the process that started it, even where that is killed.
func TestANodeDoesNotOutliveItsParent(t *testing.T) {
	cfg := program(t, serves+"exec sleep 1000\n")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), parentVariable+"="+cfg.Program)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, atoi := strconv.Atoi(strings.TrimSpace(line))
	if err := errors.Join(err, atoi); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // that it was killed
	for deadline := time.Now().Add(patience); running(t, pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the node lives on")
		}
	}
}

// running says whether a process is there and has not ended; where nobody waits for the
// ended ones, one stays as a zombie.
func running(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(after, "Z")
}
