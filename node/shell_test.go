package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// inEachShell runs a test in every POSIX-like shell that the node serves.
func inEachShell(t *testing.T, test func(t *testing.T, w *world, shell string)) {
	for _, shell := range []string{"bash", "sh", "zsh"} {
		t.Run(shell, func(t *testing.T) {
			w := fresh(t)
			w.needs(t, shell)
			test(t, w, shell)
		})
	}
}

func status(t *testing.T, res surfaces.Result, want int) {
	t.Helper()
	ok(t, res)
	if res.Exit == nil || res.Exit.Code == nil || *res.Exit.Code != want {
		t.Fatalf("want status %d: %s", want, show(res))
	}
}

func TestShellsKeepTheirState(t *testing.T) {
	inEachShell(t, func(t *testing.T, w *world, sh string) {
		keep := func(code string) surfaces.Result { return w.keepShell(sh, "s", code) }
		res := keep("cd /; A=1; export B='a b'; f() { echo \"f $1\"; }; umask 027; exit 3")
		status(t, res, 3)
		if got := strings.Join(res.StateDiff.Added, " "); !strings.Contains(got, "A") || !strings.Contains(got, "B") {
			t.Fatalf("added %q", got)
		}
		stdout(t, keep("pwd; echo $A; sh -c 'echo $B'; f x; umask"), "/\n1\na b\nf x\n"+map[bool]string{true: "027\n", false: "0027\n"}[sh == "zsh"])
		status(t, keep("set -e; false; echo not here"), 1)
		stdout(t, keep("set +e; echo $A"), "1\n")
		status(t, keep("return 4 2>/dev/null || exit 4"), 4)
		if res := keep("echo 'unterminated"); res.Exit == nil || *res.Exit.Code == 0 {
			t.Fatalf("got %s, want Exit.Code other than 0", show(res))
		}
		stdout(t, keep("cat <<'EOF' > out.txt\nline one\nEOF\ncat out.txt 2>/dev/null || true; cat <<-EOF\n\tindented\nEOF"), "line one\nindented\n")
		stdout(t, keep("echo $A"), "1\n")
	})
}

func TestShellsAreStateless(t *testing.T) {
	inEachShell(t, func(t *testing.T, w *world, sh string) {
		ok(t, w.shell(sh, "cd /; X=1; export X"))
		stdout(t, w.shell(sh, `echo "[$X]"`), "[]\n")
		status(t, w.shell(sh, "exit 42 || true"), 42)
		status(t, w.shell(sh, "true"), 0)
		stdout(t, w.shell(sh, "cat"), "")
		stdout(t, w.exec(args{"language": sh, "code": "read a; read b; echo $b $a", "stdin": "one\ntwo\n"}), "two one\n")
		if res := w.shell(sh, "read x </dev/tty; echo $?"); strings.HasPrefix(res.Stdout, "0") {
			t.Fatal("the code found a terminal: " + show(res))
		}
		stdout(t, w.shell(sh, "printf 'a\\0b'"), "a\x00b")
		for range 50 {
			stdout(t, w.shell(sh, "echo x"), "x\n")
		}
	})
}

func TestShellReadOnly(t *testing.T) {
	inEachShell(t, func(t *testing.T, w *world, sh string) {
		ok(t, w.keepShell(sh, "s", "A=1; f() { echo fun; }; echo keep > file"))
		read := func(code string) surfaces.Result {
			return w.exec(args{"code": code, "language": sh, "state_mode": "read_only", "session_name": "s"})
		}
		stdout(t, read("A=2; f; echo $A; unset -f f; cd /"), "fun\n2\n")
		for _, spoil := range []string{"exit 5", "kill -9 $$", "A=9; f() { :; }", "kill -9 $PPID", "exec true"} {
			res := read(spoil)
			if res.StateLost.Loss != nil {
				t.Fatalf("%s: %s, want no loss", spoil, show(res))
			}
			stdout(t, w.keepShell(sh, "s", "echo $A; f"), "1\nfun\n")
		}
	})
}

func TestShellDeath(t *testing.T) {
	inEachShell(t, func(t *testing.T, w *world, sh string) {
		for name, die := range map[string]string{"kill": "kill -9 $$", "exec": "exec true"} {
			ok(t, w.keepShell(sh, name, "A=1"))
			res := w.exec(args{"code": "echo . >> starts-" + name + "; " + die, "language": sh, "state_mode": "stateful", "session_name": name})
			if res.Attempts != 2 || res.StateLost.Loss == nil {
				t.Fatalf("%s: %s, want Attempts 2, a loss", name, show(res))
			}
			stdout(t, w.shell(sh, "cat starts-"+name), ".\n.\n")
			stdout(t, w.keepShell(sh, name, `echo "[$A]"`), "[]\n")
		}
	})
}

func TestShellInterruptKeepsTheState(t *testing.T) {
	inEachShell(t, func(t *testing.T, w *world, sh string) {
		ok(t, w.keepShell(sh, "s", "X=1"))
		res := code(t, w.exec(args{"code": "sleep 100; echo not here", "language": sh, "state_mode": "stateful", "session_name": "s", "timeout_s": 1}), surfaces.CodeTimeout)
		if res.StateLost.Loss != nil || strings.Contains(res.Stdout, "not here") {
			t.Fatalf("got %s, want no loss, Stdout without \"not here\"", show(res))
		}
		stdout(t, w.keepShell(sh, "s", "echo $X"), "1\n")
	})
}

func TestShellBackgroundJobs(t *testing.T) {
	inEachShell(t, func(t *testing.T, w *world, sh string) {
		ok(t, w.keepShell(sh, "s", "( while :; do echo job; sleep 0.01; done ) & echo $! > pid"))
		for range 20 {
			stdout(t, w.keepShell(sh, "s", "echo mine"), "mine\n")
		}
		stdout(t, w.keepShell(sh, "s", "kill -0 $(cat pid) && echo alive"), "alive\n")
		ok(t, w.shell(sh, "nohup sh -c 'sleep 1000 &' >/dev/null 2>&1"))
		stdout(t, w.keepShell(sh, "s", "nohup sh -c 'sleep 1000 &' >/dev/null 2>&1; echo back"), "back\n")
		dir := workspace(t, w)
		var closed gateway.Closed
		w.post("/v1/tools/close_session", args{"session_name": "s"}, &closed)
		eventually(t, "closing ends the jobs", func() bool {
			for _, pid := range inWorkspace(dir) {
				if name := field(fmt.Sprintf("/proc/%d", pid), "Name"); name == "sleep" {
					return false
				}
			}
			return true
		})
	})
}

func TestShellOutputIsExact(t *testing.T) {
	inEachShell(t, func(t *testing.T, w *world, sh string) {
		res := ok(t, w.keepShell(sh, "s", "for i in 1 2 3; do seq 1 20000; seq 1 20000 >&2; done"))
		if !strings.HasSuffix(res.Stdout, "\n20000\n") || !strings.HasSuffix(res.Stderr, "\n20000\n") {
			t.Fatal("the last line is missing")
		}
		stdout(t, w.keepShell(sh, "s", "echo clean"), "clean\n")
	})
}

func TestShellInspect(t *testing.T) {
	inEachShell(t, func(t *testing.T, w *world, sh string) {
		ok(t, w.keepShell(sh, "s", "cd /tmp; A=1; f() { :; }; alias ll='ls -l'"))
		var out struct {
			State struct {
				Cwd       string            `json:"cwd"`
				Variables map[string]string `json:"variables"`
				Functions []string          `json:"functions"`
				Aliases   map[string]string `json:"aliases"`
			} `json:"state"`
		}
		if status := w.post("/v1/tools/inspect_state", args{"session_name": "s", "detail": "full"}, &out); status != 200 {
			t.Fatalf("status %d, want 200: %+v", status, out)
		}
		if out.State.Cwd != "/tmp" || out.State.Variables["A"] != "1" || out.State.Aliases["ll"] != "ls -l" {
			t.Fatalf("got %+v, want the directory /tmp, the variable A and the alias ll", out.State)
		}
		if sh != "sh" && strings.Join(out.State.Functions, " ") != "f" { // dash cannot list its functions
			t.Fatalf("got %+v, want the function f", out.State)
		}
	})
}

func TestBashAtomicAndFork(t *testing.T) {
	w := fresh(t)
	w.needs(t, "bash")
	ok(t, w.keepShell("bash", "one", "A=1"))
	res := w.exec(args{"code": "A=2; kill -9 $$", "language": "bash", "state_mode": "stateful", "session_name": "one", "atomic": true, "on_loss": "report"})
	if res.Error == nil || res.StateLost.Loss != nil {
		t.Fatalf("got %s, want an error, no loss", show(res))
	}
	stdout(t, w.keepShell("bash", "one", "echo $A"), "1\n")
	var info map[string]any
	if status := w.post("/v1/tools/fork_session", args{"session_name": "one", "new_name": "two"}, &info); status != 200 {
		t.Fatalf("status %d, want 200: %v", status, info)
	}
	ok(t, w.keepShell("bash", "two", "A=5"))
	stdout(t, w.keepShell("bash", "one", "echo $A"), "1\n")
	stdout(t, w.keepShell("bash", "two", "echo $A"), "5\n")
}

func TestAShellProgramOfAMegabyte(t *testing.T) {
	w := fresh(t)
	value(t, w.once("x = 0\n"+strings.Repeat("x += 1\n", 150_000)+"x"), "150000")
	w.needs(t, "bash")
	stdout(t, w.shell("bash", "x=0\n"+strings.Repeat(": a line that does nothing\n", 40_000)+"echo end"), "end\n")
}

// A reader that waits for a busy shell is answered when the call has ended, even if the shell
// continues in a new process.
func TestAReaderOfAShellThatExits(t *testing.T) {
	w := fresh(t)
	for _, language := range []string{"bash", "sh", "zsh"} {
		t.Run(language, func(t *testing.T) {
			w.needs(t, language)
			for range 3 {
				res := w.exec(args{
					"language": language, "code": "x=5; echo running; sleep 0.5; exit 3",
					"state_mode": "stateful", "session_name": "read " + language, "background": true,
				})
				eventually(t, "the code runs", func() bool { return w.result(res.CallID).Stdout == "running\n" })
				stdout(t, w.exec(args{"language": language, "code": "echo $x", "state_mode": "read_only", "session_name": "read " + language}), "5\n")
				if ended := ok(t, w.ended(t, res.CallID)); *ended.Exit.Code != 3 {
					t.Fatalf("got %s, want ended.Exit.Code 3", show(ended))
				}
			}
		})
	}
}

// If a shell exits without reporting the end of its program, only that program's changes are
// lost: the session continues from before the call, and a notice says so.
func TestAShellThatExitsUnexpectedly(t *testing.T) {
	w := fresh(t)
	for _, tt := range []struct{ language, code string }{
		{"zsh", "f() { set -e; false; }; x=6; f"},
		{"zsh", "x=6; echo ${nope:?is not set}"},
		{"zsh", "x=6; set -n; echo on"},
		{"sh", "x=6; set -n; echo on"},
	} {
		t.Run(tt.language, func(t *testing.T) {
			w.needs(t, tt.language)
			ok(t, w.keepShell(tt.language, "ends "+tt.language, "x=5"))
			for range 5 {
				res := ok(t, w.keepShell(tt.language, "ends "+tt.language, tt.code))
				if res.Attempts != 1 || len(res.Notice) == 0 {
					t.Fatalf("got %s, want Attempts 1, a notice", show(res))
				}
				res = w.keepShell(tt.language, "ends "+tt.language, "echo $x")
				if stdout(t, res, "5\n"); res.StateLost.Loss != nil {
					t.Fatalf("got %s, want no loss", show(res))
				}
			}
		})
	}
}
