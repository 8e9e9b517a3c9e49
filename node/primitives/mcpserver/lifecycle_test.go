package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/locusrun/locus/node/primitives"
)

// daemons leave a process behind: one leaves the process group, the other clears the
// environment.
var daemons = []string{`{"text": "setsid"}`, `{"text": "env -i"}`}

// number calls a function that returns a pid.
func number(t *testing.T, s *Server, function, arguments string) int {
	t.Helper()
	var text string
	if err := json.Unmarshal(call(t, s, function, arguments).Result, &text); err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func TestAServerThatIsKilledIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	pid := number(t, s, "pid", "")
	file := filepath.Join(t.TempDir(), "file")
	failed := make(chan error, 1)
	go func() {
		_, err := s.Call(within(t), "box.hang", json.RawMessage(fmt.Sprintf(`{"text": %q}`, file)))
		failed <- err
	}()
	eventually(t, "the call is under way", func() bool { _, err := os.Stat(file); return err == nil })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := <-failed
	var e *primitives.Error
	if !errors.As(err, &e) || e.Type != primitives.ErrorProvider ||
		!strings.Contains(e.Message, "signal: killed") || !strings.Contains(e.Message, "may or may not have been performed") {
		t.Errorf("the call under way: %v", err)
	}
	eventually(t, "the death is known without a call", func() bool { return s.State().Status == Failed })
	if st := s.State(); !strings.Contains(st.Error, "signal: killed") || len(st.Functions) == 0 {
		t.Errorf("while it is down: %+v", st)
	}
	if list, err := s.Functions(within(t)); err != nil || len(list) == 0 || s.State().Status != Failed {
		t.Errorf("while it is down, %d functions are told, and %v", len(list), err)
	}
	if again := number(t, s, "pid", ""); again == pid {
		t.Error("the dead process answers")
	}
}

func TestACallThatEndsTheServer(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	if e := failure(t, s, "box.die", `{}`); e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "exit status 3") {
		t.Errorf("got %+v, want Type %v, Message with \"exit status 3\"", e, primitives.ErrorProvider)
	}
	call(t, s, "echo", `{"text": "back"}`)
}

// Failures with answered calls between them are not a crash loop.
func TestAServerThatWorksIsNotPutOff(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	for range 4 {
		failure(t, s, "box.die", `{}`)
		call(t, s, "echo", `{"text": "back"}`)
	}
}

func TestACrashLoopDoesNotSpin(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "crash"))
	for i := range 2 {
		if e := failure(t, s, "box.echo", `{}`); e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "exit status 7") {
			t.Fatalf("start %d: %+v, want Type %v, Message with \"exit status 7\"", i, e, primitives.ErrorProvider)
		}
	}
	var e *primitives.Error
	eventually(t, "a start is put off", func() bool {
		e = failure(t, s, "box.echo", `{}`)
		return strings.Contains(e.Message, "tried again in")
	})
	if e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "exit status 7") {
		t.Errorf("while it is put off: %+v", e)
	}
	if _, err := s.Functions(within(t)); err == nil {
		t.Error("a server that never ran has functions")
	}
	s.mu.Lock()
	failures := s.failures
	s.failures, s.notUntil = 40, time.Time{} // as after a long time
	s.mu.Unlock()
	if failures < 2 {
		t.Errorf("%d failures were counted", failures)
	}
	failure(t, s, "box.echo", `{}`)
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait := time.Until(s.notUntil); wait > longWait || wait < longWait/2 {
		t.Errorf("after very many failures the next start is %v away", wait)
	}
}

func TestACommandThatDoesNotExist(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Name: "box", Command: []string{"/no/such/program"}})
	if e := failure(t, s, "box.echo", `{}`); e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "no such file") {
		t.Errorf("got %+v, want Type %v, Message with \"no such file\"", e, primitives.ErrorProvider)
	}
	if st := s.State(); st.Status != Failed || !strings.Contains(st.Error, "/no/such/program") {
		t.Errorf("got %+v, want st.Status %v, st.Error with \"/no/such/program\"", st, Failed)
	}
}

func TestAStartIsSharedAndOutlivesWhoAskedForIt(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Functions(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that is gone: %v", err)
	}
	var pids sync.Map
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() { pids.Store(number(t, s, "pid", ""), true) })
	}
	calls.Wait()
	n := 0
	pids.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d processes were started", n)
	}
}

func TestAServerThatSaysNothing(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "silent"))
	s.startTime = 200 * time.Millisecond
	if e := failure(t, s, "box.echo", `{}`); e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "was not ready") {
		t.Errorf("got %+v, want Type %v, Message with \"was not ready\"", e, primitives.ErrorProvider)
	}
}

// The test server dies of the newer handshake, so it is reached only with the older one.
func TestAnOldServerThatStopsReading(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "old"))
	if list, err := s.Functions(within(t)); err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	// More than any pipe holds, so that sending cannot end.
	big := json.RawMessage(`{"text": "` + strings.Repeat("x", 4<<20) + `"}`)
	ctx, cancel := context.WithTimeout(within(t), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Call(ctx, "box.listen", big); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestAMessageThatIsTooLarge(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	if e := failure(t, s, "box.huge", `{}`); e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "more than 16 MiB") {
		t.Errorf("got %+v, want Type %v, Message with \"more than 16 MiB\"", e, primitives.ErrorProvider)
	}
	call(t, s, "echo", `{"text": "back"}`)
	s = open(t, stdio(t, "flood"))
	if e := failure(t, s, "box.echo", `{}`); e.Type != primitives.ErrorProvider {
		t.Errorf("got %+v, want Type %v", e, primitives.ErrorProvider)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	pids := []int{number(t, s, "pid", "")}
	for _, by := range daemons {
		pids = append(pids, number(t, s, "daemon", by))
	}
	for _, pid := range pids {
		if !alive(pid) {
			t.Fatalf("%d does not run", pid)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	failed := make(chan error, 1)
	go func() {
		_, err := s.Call(within(t), "box.hang", json.RawMessage(fmt.Sprintf(`{"text": %q}`, file)))
		failed <- err
	}()
	eventually(t, "the call is under way", func() bool { _, err := os.Stat(file); return err == nil })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var e *primitives.Error
	if err := <-failed; !errors.As(err, &e) || e.Type != primitives.ErrorProvider || !strings.Contains(e.Message, "removed") {
		t.Errorf("the call under way: %v", err)
	}
	for i, pid := range pids {
		if alive(pid) {
			t.Errorf("after Close %d of %v lives", i, pids)
		}
	}
	if e := failure(t, s, "box.echo", `{}`); e.Type != primitives.ErrorProvider || s.State().Status != Stopped {
		t.Errorf("a call after Close: %+v, %+v", e, s.State())
	}
}

func TestDaemonsEndWithTheirServer(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "tools"))
	var pids []int
	for _, by := range daemons {
		pids = append(pids, number(t, s, "daemon", by))
	}
	failure(t, s, "box.die", `{}`)
	for _, pid := range pids {
		eventually(t, "a daemon is gone", func() bool { return !alive(pid) })
	}
}

func TestAServerThatWillNotEndIsKilled(t *testing.T) {
	t.Parallel()
	s := open(t, stdio(t, "stubborn"))
	pid := number(t, s, "pid", "")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("it lives")
	}
}
