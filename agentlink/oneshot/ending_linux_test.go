package oneshot

import (
	"context"
	"encoding/json"
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

	"github.com/locusrun/locus/surfaces"
)

// gone waits until no process has a word in its command line.
func gone(t *testing.T, word string) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		left := having(word)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes are left: %v", left)
		}
	}
}

func having(word string) (pids []int) {
	for _, pid := range processes() {
		line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err == nil && strings.Contains(string(line), word) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// number returns a number that is in no other command line, as an argument of sleep.
// Processes that still have it at the end of the test, which means that it has failed, are
// killed.
func number(t *testing.T) string {
	n := fmt.Sprintf("86%09d", time.Now().UnixNano()%1e9)
	t.Cleanup(func() {
		for _, pid := range having(n) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return n
}

func TestDeadlines(t *testing.T) {
	python, bash := surfaces.Python, surfaces.Bash
	n := number(t)
	for name, c := range map[string]struct {
		language surfaces.Language
		code     string
		signal   string
	}{
		"python computes":       {python, "while True: pass", "SIGINT"},
		"python sleeps":         {python, "import time\ntime.sleep(600)", "SIGINT"},
		"python awaits":         {python, "import asyncio\nawait asyncio.sleep(600)", "SIGINT"},
		"python will not":       {python, "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(600)", "SIGKILL"},
		"python in C":           {python, "sum(range(10**12))", "SIGKILL"},
		"python waits for one":  {python, "import subprocess\nsubprocess.run(['sleep', '" + n + "'])", "SIGINT"},
		"python waits for host": {python, "primitives.a.b.sync()", "SIGINT"},
		"bash waits":            {bash, "sleep " + n + " | cat; echo hello", "SIGINT"},
		"bash will not":         {bash, "trap '' INT; while :; do sleep 0.1; done", "SIGKILL"},
	} {
		eachWay(t, name, c.language, func(t *testing.T, r *Runner) {
			t.Parallel()
			out := newRecord()
			req := Request{CallID: "c1", Language: string(c.language), Code: "print('on', flush=True)\n" + c.code, Timeout: 3 * time.Second, CallTimeout: 4 * time.Second, Primitives: true}
			if c.language == bash {
				req.Code = c.code
			}
			res := r.Run(context.Background(), req, out, silent{})
			if code(res) != "timeout" || res.Exit == nil || res.Exit.Reason != surfaces.ReasonTimeout || res.Exit.Code != nil || res.Exception != nil || res.Result != nil {
				t.Fatalf("got code %s, exit %+v, exception %+v, result %s; want timeout with that reason, and nothing else", code(res), res.Exit, res.Exception, res.Result)
			}
			if res.Exit.Signal != c.signal {
				t.Errorf("ended by %s: %s", res.Exit.Signal, *res.Error)
			}
			// It is told of what it has asked for, not of what was left of that.
			if !strings.Contains(*res.Error, "timeout_s = 4:") {
				t.Error(*res.Error)
			}
			if c.language == python && out.stdout() != "on\n" {
				t.Errorf("output before the deadline: %q", out.stdout())
			}
		})
	}
	t.Cleanup(func() { gone(t, n) })
}

// silent is a host that never answers.
type silent struct{}

func (silent) Ask(surfaces.Use) func(context.Context) json.RawMessage {
	return func(ctx context.Context) json.RawMessage { <-ctx.Done(); return nil }
}

func TestStop(t *testing.T) {
	for language, text := range map[surfaces.Language]string{
		surfaces.Python: "import time\nprint('on', flush=True)\ntime.sleep(600)",
		surfaces.Bash:   "echo on; sleep 600",
	} {
		eachWay(t, string(language), language, func(t *testing.T, r *Runner) {
			ctx, cancel := context.WithCancel(context.Background())
			out := newRecord()
			got := make(chan surfaces.Result, 1)
			go func() {
				got <- r.Run(ctx, Request{CallID: "c1", Language: string(language), Code: text, Timeout: limit}, out, nil)
			}()
			out.await(t, func(s string) bool { return s == "on\n" })
			cancel()
			if res := <-got; code(res) != "stopped" || res.Exit.Reason != surfaces.ReasonStopped {
				t.Errorf("got code %s, exit %+v; want stopped with that reason", code(res), res.Exit)
			}
			if res := r.Run(ctx, Request{CallID: "c1", Language: string(language), Code: text, Timeout: limit}, nil, nil); code(res) != "stopped" {
				t.Errorf("stopped before it began: %s", code(res))
			}
		})
	}
}

// A program that must be killed without grace does not get time to handle the interrupt.
func TestNoGraceKillsAtOnce(t *testing.T) {
	for language, text := range map[surfaces.Language]string{
		surfaces.Python: "import signal, time\ndef heed(*_):\n    time.sleep(0.8)\n    print('heeded', flush=True)\nsignal.signal(signal.SIGINT, heed)\nprint('on', flush=True)\nwhile True: time.sleep(600)",
		surfaces.Bash:   "trap 'sleep 0.8; echo heeded' INT; echo on; while :; do sleep 0.1; done",
	} {
		eachWay(t, string(language), language, func(t *testing.T, r *Runner) {
			ctx, cancel := context.WithCancelCause(context.Background())
			out := newRecord()
			got := make(chan surfaces.Result, 1)
			go func() {
				got <- r.Run(ctx, Request{CallID: "c1", Language: string(language), Code: text, Timeout: limit}, out, nil)
			}()
			out.await(t, func(s string) bool { return s == "on\n" })
			cancel(surfaces.ErrNoGrace)
			if res := <-got; code(res) != "stopped" || out.stdout() != "on\n" {
				t.Errorf("%s, and it has printed %q", code(res), out.stdout())
			}
		})
	}
}

func TestWhatAProgramLeavesBehindIsKilled(t *testing.T) {
	n := number(t)
	for name, c := range map[string]struct {
		language surfaces.Language
		code     string
	}{
		"background":    {surfaces.Bash, "sleep " + n + " & echo started"},
		"session":       {surfaces.Bash, "setsid sleep " + n + " >/dev/null 2>&1 & sleep 0.2; echo started"},
		"daemon":        {surfaces.Bash, "(setsid env -i sleep " + n + " </dev/null >/dev/null 2>&1 &) ; sleep 0.2; echo started"},
		"daemon, twice": {surfaces.Bash, "setsid sh -c 'setsid sh -c \"env -i sleep " + n + " & exit\" & exit' & sleep 0.3; echo started"},
		"python's":      {surfaces.Python, "import subprocess\nsubprocess.Popen(['sleep', '" + n + "'], start_new_session=True, env={})\nprint('started')"},
		"python's fork": {surfaces.Python, "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.execv('/bin/sleep', ['sleep', '" + n + "'])\n    os._exit(0)\nos.wait()\nprint('started')"},
		"died":          {surfaces.Python, "import subprocess, os\nsubprocess.Popen(['sleep', '" + n + "'], start_new_session=True, env={})\nprint('started', flush=True)\nos.kill(os.getpid(), 9)"},
	} {
		eachWay(t, name, c.language, func(t *testing.T, r *Runner) {
			res, out := run(t, r, c.language, c.code)
			if left := having(n); len(left) > 0 {
				t.Errorf("left with the result: %v", left)
			}
			if out.stdout() != "started\n" || len(res.Notice) > 0 {
				t.Errorf("got code %s, output %q, notices %+v; want the output \"started\", no notices", code(res), out.stdout(), res.Notice)
			}
		})
	}
}

func TestForkBombIsKilled(t *testing.T) {
	r := needs(t, surfaces.Bash)
	n := number(t)
	res, _ := run(t, r, surfaces.Bash, `f() { for i in 1 2 3 4 5 6; do (setsid sleep `+n+` & sleep `+n+` & [ "$1" = 0 ] || f 0) & done; wait; }; f 1`, within(3*time.Second))
	if code(res) != "timeout" || len(res.Notice) > 0 {
		t.Errorf("got code %s, notices %+v; want timeout, no notices", code(res), res.Notice)
	}
	if left := having(n); len(left) > 0 {
		t.Errorf("%d are left", len(left))
	}
}

// If a program kills its supervisor it is killed, with all its processes except those with
// another environment and session.
func TestASupervisorThatIsKilled(t *testing.T) {
	n := number(t)
	for language, text := range map[surfaces.Language]string{
		surfaces.Bash: "setsid sleep " + n + " & sleep " + n + " & sleep 0.2; kill -9 $PPID; sleep " + n,
		surfaces.Python: "import os, subprocess, time\nprint(os.environ['LOCUS_ONESHOT'], flush=True)\n" +
			"for own in (True, False):\n    subprocess.Popen(['sleep', '" + n + "'], start_new_session=own)\n    if os.fork() == 0:\n        own and os.setsid()\n        time.sleep(600)\n" +
			"os.kill(os.getppid(), 9)\ntime.sleep(600)",
	} {
		eachWay(t, string(language), language, func(t *testing.T, r *Runner) {
			res, out := run(t, r, language, text)
			if code(res) != "killed" || res.Exit.Signal != "" {
				t.Errorf("got code %s, exit %+v; want killed by an unknown signal", code(res), res.Exit)
			}
			gone(t, n)
			if mark := strings.TrimSpace(out.stdout()); language == surfaces.Python {
				for deadline := time.Now().Add(limit); len(marked(mark)) > 0; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("processes are left: %v", marked(mark))
					}
				}
			}
		})
	}
}

// marked returns the processes with a text in their environment.
func marked(text string) (pids []int) {
	for _, pid := range processes() {
		if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil && strings.Contains(string(env), text) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// waiting runs a shell program, and returns the shell that was prepared for the next one.
func waiting(t *testing.T, r *Runner) *shell {
	t.Helper()
	if res, _ := run(t, r, surfaces.Sh, "true"); res.Status != surfaces.StatusDone {
		t.Fatalf("got %+v, want Status %v", res, surfaces.StatusDone)
	}
	r.tasks.Wait()
	s := onlyOne(r.shells.ready)
	if s == nil || !supervises(s.process.Pid) {
		t.Fatal("no shell waits")
	}
	return s
}

// onlyOne returns what a pool has ready.
func onlyOne[T comparable](ready map[string]T) (it T) {
	if len(ready) == 1 {
		for _, it = range ready {
		}
	}
	return it
}

// supervises reports whether a process is a live supervisor.
func supervises(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && string(line) == supervisorName+"\x00"
}

func TestPreparedShellRunsTheProgram(t *testing.T) {
	r := needs(t, surfaces.Sh)
	first := waiting(t, r)
	if _, out := run(t, r, surfaces.Sh, "echo $$ $PPID"); out.stdout() != fmt.Sprintln(first.program, first.process.Pid) {
		t.Errorf("the program is %q, and %d waited below %d", out.stdout(), first.program, first.process.Pid)
	}
	// Somebody kills it while it waits, or what has started it.
	for _, pid := range []func(*shell) int{func(s *shell) int { return s.program }, func(s *shell) int { return s.process.Pid }} {
		s := waiting(t, r)
		if err := syscall.Kill(pid(s), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-s.ended
		if _, out := run(t, r, surfaces.Sh, "echo on"); out.stdout() != "on\n" {
			t.Errorf("got %q", out.stdout())
		}
	}
	// It has waited for too long.
	last := waiting(t, r)
	kind := last.kind.String()
	r.shells.expire(kind, last)
	if supervises(last.process.Pid) || len(r.shells.ready) > 0 {
		t.Error("it still waits")
	}
	kept := waiting(t, r)
	r.shells.expire(kind, last) // nothing new
	if onlyOne(r.shells.ready) != kept {
		t.Error("another one was ended in its place")
	}
	if err := r.Close(); err != nil || supervises(kept.process.Pid) {
		t.Errorf("it outlives the runner: %v", err)
	}
}

// TestAnAgentThatIsKilled runs this test binary as an agent, and kills it during calls.
func TestAnAgentThatIsKilled(t *testing.T) {
	const variable = "ONESHOT_TEST_AGENT"
	if dir := os.Getenv(variable); dir != "" {
		r, err := New(Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		n := os.Getenv(variable + "_N")
		fmt.Printf("waits %d\n", waiting(t, r).process.Pid)
		go r.Run(context.Background(), Request{Language: "bash", Code: "(setsid env -i sleep " + n + " &); sleep " + n, Timeout: limit}, nil, nil)
		r.Run(context.Background(), Request{Language: "python", Code: "import time\nwhile True:\n    time.sleep(1)  # " + n, Timeout: limit}, nil, nil)
		return
	}
	needs(t, surfaces.Bash)
	n, dir := number(t), t.TempDir()
	t.Cleanup(func() {
		for _, pid := range processes() {
			if at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil && strings.HasPrefix(at, dir) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	agent := exec.Command(os.Args[0], "-test.run=^TestAnAgentThatIsKilled$")
	agent.Env = append(os.Environ(), variable+"="+dir, variable+"_N="+n)
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	var idle int
	if _, err := fmt.Fscanf(out, "waits %d\n", &idle); err != nil || !supervises(idle) {
		t.Fatalf("no supervisor waits in the agent: %d, %v", idle, err)
	}
	for deadline := time.Now().Add(limit); len(having("sleep\x00"+n)) < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the agent runs nothing")
		}
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := agent.Wait(); !errors.As(err, &ended) {
		t.Fatal(err)
	}
	gone(t, n)
	gone(t, dir)
	for deadline := time.Now().Add(limit); supervises(idle); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the supervisor that waited is left")
		}
	}
	r, err := New(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left in the folder (%v), want nothing", left, err)
	}
}

func TestDeaths(t *testing.T) {
	eachWay(t, "python", surfaces.Python, func(t *testing.T, r *Runner) {
		for text, want := range map[string]struct{ code, signal, reason string }{
			"import ctypes\nctypes.string_at(0)": {"segfault", "SIGSEGV", surfaces.ReasonSegfault},
			"import os\nos.abort()":              {"killed", "SIGABRT", surfaces.ReasonKilled},
			"import os\nos.kill(os.getpid(), 9)": {"killed", "SIGKILL", surfaces.ReasonKilled},
			"import sys\nsys.setrecursionlimit(10**7)\nclass A:\n    def __getattr__(self, n): return getattr(self, n)\nA().x": {},
			"import os\nos.closerange(0, 4096)": {},
		} {
			res, _ := run(t, r, surfaces.Python, "print('x', flush=True)\n"+text)
			if want.code == "" { // how it ends is Python's affair
				if res.Error == nil && res.Exit == nil {
					t.Errorf("%s: got %+v, want an error or an exit", text, res)
				}
				continue
			}
			if code(res) != want.code || res.Exit == nil || res.Exit.Signal != want.signal || res.Exit.Reason != want.reason {
				t.Errorf("%s: got code %s, exit %+v; want code %s, signal %q, reason %q", text, code(res), res.Exit, want.code, want.signal, want.reason)
			}
		}
		if res, _ := run(t, r, surfaces.Python, "1 + 1"); string(res.Result) != "2" {
			t.Errorf("the next program: %s %s", code(res), res.Result)
		}
	})
}

// The code does not have the agent's terminal.
func TestProgramsHaveNoTerminal(t *testing.T) {
	r := needs(t, surfaces.Bash)
	if _, out := run(t, r, surfaces.Bash, "(echo x >/dev/tty) 2>/dev/null || echo none"); out.stdout() != "none\n" {
		t.Errorf("got %q, want \"none\": the code has a terminal", out.stdout())
	}
	if _, out := run(t, r, surfaces.Bash, "ps -o sid= -p $$ | tr -d ' '; echo $$"); len(strings.Fields(out.stdout())) != 2 || strings.Fields(out.stdout())[0] != strings.Fields(out.stdout())[1] {
		t.Errorf("no session of its own: %q", out.stdout())
	}

}
