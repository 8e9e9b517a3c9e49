package oneshot

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// What is prepared for a program is its own process, in which nothing has run.
func TestProgramsLeaveNothingForTheNext(t *testing.T) {
	for language, texts := range map[surfaces.Language]struct{ spoils, tells string }{
		surfaces.Python: {
			`
import asyncio, atexit, builtins, json, os, random, signal, sys, threading
leak = builtins.leak = sys.leak = json.leak = 1
os.environ["LEAK"] = "1"
sys.path.insert(0, "/leak")
open("left", "w").close()
os.chdir("/")
os.umask(0)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
sys.setrecursionlimit(100)
atexit.register(print, "leak")
random.seed(1)
os.dup(0)
asyncio.set_event_loop(asyncio.new_event_loop())
threading.Thread(target=threading.Event().wait, daemon=True).start()
builtins.len = json.dumps = None
None`,
			`
import builtins, json, os, signal, sys, threading
print([hasattr(o, "leak") for o in (builtins, sys, json)], "leak" in globals(), len([1]), json.dumps(1))
print("LEAK" in os.environ, "/leak" in sys.path, os.listdir(), os.path.basename(os.getcwd()), oct(os.umask(0o22)))
print(signal.getsignal(signal.SIGUSR1), signal.pthread_sigmask(signal.SIG_BLOCK, ()), sys.getrecursionlimit(), threading.active_count())
print(sorted(os.readlink("/proc/self/fd/" + n).split(":")[0] for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)))
print(os.getpgrp() == os.getsid(0) == os.getpid())
None`,
		},
		surfaces.Bash: {
			"leak=1; export LEAK=1; cd /; umask 0; trap '' USR1; f() { :; }; alias a=b; set -u; exec 7</dev/null; touch left",
			`echo "${leak-none} ${LEAK-none} ${PWD##*/} $(umask) $(trap) $(type f 2>&1) $(alias) $- $(ls) $(ls -l /proc/self/fd | wc -l) ${BASH_ENV-none}"`,
		},
	} {
		t.Run(string(language), func(t *testing.T) {
			r := needs(t, language)
			ahead(t, r, language)
			_, first := run(t, r, language, texts.tells)
			for range 3 {
				if res, _ := run(t, r, language, texts.spoils); res.Status != surfaces.StatusDone || res.Exception != nil {
					t.Fatalf("got %+v %+v, want Status %v, no Exception", res, res.Exception, surfaces.StatusDone)
				}
				r.tasks.Wait()
				res, out := run(t, r, language, texts.tells)
				if out.stdout() != first.stdout() || out.stderr() != "" || out.stdout() == "" {
					t.Errorf("it finds\n%s, before\n%s %s %+v", out.stdout(), first.stdout(), out.stderr(), res.Exception)
				}
			}
		})
	}
}

// parentOf returns the parent of a process.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	f := stat(pid)
	if len(f) < 2 {
		t.Fatalf("process %d is gone", pid)
	}
	parent, err := strconv.Atoi(string(f[1]))
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

func TestProgramsOfPythonAreForked(t *testing.T) {
	r := needs(t, surfaces.Python)
	forked := func() {
		t.Helper()
		ahead(t, r, surfaces.Python)
		waits := onlyOne(r.interpreters.ready)
		supervisor := waits.process.Pid
		if r.interpreters.zygote == nil || parentOf(t, supervisor) != r.interpreters.zygote.cmd.Process.Pid {
			t.Fatal("what waits was not forked")
		}
		res, _ := run(t, r, surfaces.Python, "import os\n[os.getpid(), os.getppid()]")
		if want := fmt.Sprintf("[%d,%d]", waits.program, supervisor); string(res.Result) != want {
			t.Errorf("the program is %s, and %s waited", res.Result, want)
		}
		r.tasks.Wait()
	}
	forked()
	if res, _ := run(t, r, surfaces.Python, "import os, signal\nos.kill(os.getppid(), signal.SIGTERM)\nos.kill(os.getppid(), signal.SIGINT)\n7"); string(res.Result) != "7" {
		t.Errorf("signals to its parent: %s %+v", res.Result, res.Exit)
	}
	r.tasks.Wait()
	for name, kill := range map[string]func() int{
		"the zygote":     func() int { return r.interpreters.zygote.cmd.Process.Pid },
		"what waits":     func() int { return onlyOne(r.interpreters.ready).program },
		"its supervisor": func() int { return onlyOne(r.interpreters.ready).process.Pid },
	} {
		waits := onlyOne(r.interpreters.ready)
		if err := syscall.Kill(kill(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if name != "the zygote" {
			<-waits.ended
		}
		for range 2 {
			if res, _ := run(t, r, surfaces.Python, "1 + 1"); string(res.Result) != "2" {
				t.Errorf("after the end of %s: %s %s", name, code(res), res.Result)
			}
		}
		r.tasks.Wait()
		forked()
	}
	// Nothing of it stays where nothing runs.
	last, z := onlyOne(r.interpreters.ready), r.interpreters.zygote
	r.interpreters.expire(onlyKey(r.interpreters.ready), last)
	if r.interpreters.zygote != nil || len(r.interpreters.ready) > 0 || z.cmd.ProcessState == nil {
		t.Error("a zygote is left")
	}
	forked()
}

func onlyKey[T any](m map[string]T) (key string) {
	for key = range m {
	}
	return key
}

// Programs that start at the same time each have their own process.
func TestManyForksAtOnce(t *testing.T) {
	r := needs(t, surfaces.Python)
	ahead(t, r, surfaces.Python)
	results := make(chan string)
	for range 8 {
		go func() {
			res := r.Run(context.Background(), Request{CallID: "c", Language: "python", Code: "import os\nopen('mine', 'w').write('x')\n[os.getpid(), os.listdir()]", Timeout: limit}, nil, nil)
			results <- string(res.Result)
		}()
	}
	seen := map[string]bool{}
	for range 8 {
		res := <-results
		pid, folder, _ := strings.Cut(res, ",")
		if seen[pid] || !strings.Contains(folder, "mine") {
			t.Errorf("got %s", res)
		}
		seen[pid] = true
	}
}

// A shell program finds its script as a file, whether the shell was prestarted or not.
func TestAScriptIsAFile(t *testing.T) {
	long := strings.Repeat("x=y # what is more than a pipe holds at a time\n", 4000)
	for _, language := range []surfaces.Language{surfaces.Bash, surfaces.Sh, surfaces.Zsh} {
		eachWay(t, string(language), language, func(t *testing.T, r *Runner) {
			text := long + "wc -c <\"$0\"; tail -n 1 \"$0\"; ls -l ../program | grep -c ^p; exit 0\n# the last line\n"
			if _, out := run(t, r, language, text); strings.TrimSpace(out.stdout()) != fmt.Sprint(len(text))+"\n# the last line\n0" {
				t.Errorf("got %q %q", out.stdout(), out.stderr())
			}
			// What is not read any more holds nothing up.
			if res, out := run(t, r, language, "echo on; exit 4\n"+long+long); out.stdout() != "on\n" || *res.Exit.Code != 4 {
				t.Errorf("got %q, %+v", out.stdout(), res.Exit)
			}
			if res, _ := run(t, r, language, ""); res.Exit == nil || *res.Exit.Code != 0 {
				t.Errorf("got %+v, want Exit.Code 0", res.Exit)
			}
		})
	}
}

// A machine whose Python cannot be forked runs programs like others.
func TestAPythonThatCannotBeForked(t *testing.T) {
	r := needs(t, surfaces.Python)
	path, _ := r.program(t.Context(), surfaces.Python)
	fake := t.TempDir() + "/python"
	// It has no module ctypes, without which nothing can be forked here.
	script := "#!/bin/sh\nexec " + path + ` -c "import sys; sys.modules['ctypes'] = None; exec(sys.argv.pop(1))" "$2" "$3" "$4"` + "\n"
	if err := os.WriteFile(fake, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	r.languages[surfaces.Python] = fake
	for range 3 {
		if res, _ := run(t, r, surfaces.Python, "1 + 1"); string(res.Result) != "2" {
			t.Fatalf("got %s %s, want Result \"2\"", code(res), res.Result)
		}
		r.tasks.Wait()
		if r.interpreters.zygote != nil || r.interpreters.noZygote != fake || len(r.interpreters.ready) != 1 {
			t.Fatalf("it is taken for one that can be forked: %+v", r.interpreters.zygote)
		}
	}
}
