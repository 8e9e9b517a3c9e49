package shell

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/node/kernel"
)

func TestInterruptKeepsTheState(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("X=kept", "", 0)
		for _, code := range []string{
			"sleep 30; echo no",
			"sleep 30 | cat; echo no",
			"while :; do :; done; echo no",
			"f() { sleep 30; echo no; }; f; echo no",
			"sh -c 'sleep 30; echo no'; echo no",
			"(sleep 30; echo no); echo no",
			"y=$(sleep 30; echo no); echo no",
		} {
			begun, wait := s.begin(code)
			<-begun
			time.Sleep(200 * time.Millisecond) // let it be in the middle of it
			at := time.Now()
			if err := s.interrupt(); err != nil {
				t.Error(err)
			}
			o := wait()
			if o.failure != nil || o.out != "" || o.code != 130 || !o.report.Interrupted {
				t.Errorf("%q gave %q, status %d, interrupted %v, error %v, stderr %q", code, o.out, o.code, o.report.Interrupted, o.failure, o.err)
			}
			if took := time.Since(at); took > 15*time.Second {
				t.Errorf("%q ended after %v", code, took)
			}
			s.want("echo $X", "kept\n", 0)
		}
	})
}

// A program is interrupted however soon after its hand-over the interrupt comes.
func TestAnInterruptBeforeTheFirstCommand(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("kept=7", "", 0)
		for i := range 60 {
			number := int(s.n.Load()) + 1
			interrupt := func() {
				for end := time.Now().Add(time.Duration(i%20) * 50 * time.Microsecond); time.Now().Before(end); {
				}
				if err := s.k.Interrupt(number); err != nil {
					t.Error(err)
				}
			}
			var early sync.WaitGroup
			if i%10 == 9 {
				interrupt() // before Run
			}
			o := s.program(kernel.Program{Code: "while :; do :; done", Started: func() {
				if i%10 != 9 {
					early.Go(interrupt)
				}
			}})
			early.Wait()
			if o.failure != nil || o.code != 130 || !o.report.Interrupted {
				t.Fatalf("program %d was not interrupted: status %d, %+v, %v", number, o.code, o.report, o.failure)
			}
		}
		s.want("echo $kept", "7\n", 0)
	})
}

// A call can be interrupted in a session whose code has set a trap on SIGINT and has taken
// it back.
func TestInterruptAfterATrapWasTakenBack(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("x=1; trap 'echo no' INT; trap - INT", "", 0)
		begun, wait := s.begin("echo begun; sleep 30; echo no")
		<-begun
		eventually(t, "it runs its command", func() bool {
			stack, err := s.k.Stack(t.Context())
			return err == nil && strings.Contains(stack, "sleep")
		})
		if err := s.interrupt(); err != nil {
			t.Error(err)
		}
		if o := wait(); o.failure != nil || o.out != "begun\n" || o.code != 130 || !o.report.Interrupted {
			t.Errorf("gave %q, %d, %+v, %v", o.out, o.code, o.report, o.failure)
		}
		s.want("trap 'echo caught' INT; echo $x", "1\n", 0)
		s.want("kill -INT $$; sleep 0.3; echo on", "caught\non\n", 0)
	})
}

// A trap may leave the shell when its program has ended and the state is being dumped. The
// process that continues the session reports the end.
func TestATrapThatExitsDuringTheDump(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		if b.family.builtin != "" {
			t.Skip("the loadable dumps the state without running commands")
		}
		s := b.session()
		s.want("x=1; trap 'exit 9' USR1; big=$(head -c 4000000 /dev/zero | tr '\\0' a)", "", 0)
		o := s.program(kernel.Program{Diff: true, Code: `read -r pid rest </proc/self/stat
( until [ -s "$__locus_dir/state" ]; do :; done; kill -USR1 $pid ) &`})
		if o.failure != nil || o.report.Diff == nil || !slices.Contains(o.report.Diff.Added, "pid") {
			t.Errorf("status %d, %v, %q, diff %+v", o.code, o.failure, o.err, o.report.Diff)
		}
		s.want("echo $x", "1\n", 0)
	})
}

func TestInterruptOfAOneShot(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := &seat{b: b, k: b.start(kernel.OneShot)}
		begun, wait := s.begin("echo begun; sleep 30; echo no")
		<-begun
		time.Sleep(200 * time.Millisecond)
		if err := s.interrupt(); err != nil {
			t.Error(err)
		}
		if o := wait(); o.failure != nil || o.out != "begun\n" || o.code != 130 || !o.report.Interrupted {
			t.Errorf("gave %q, %d, %+v, %v", o.out, o.code, o.report, o.failure)
		}
	})
}

func TestInterruptOfAnIdleShellIsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("x=1", "", 0)
		if err := s.interrupt(); err != nil {
			t.Error(err)
		}
		s.want("echo $x", "1\n", 0)
	})
}

func TestInterruptSparesJobsOfEarlierCalls(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("sleep 300 & echo $! >pid", "", 0)
		begun, wait := s.begin("sleep 30")
		<-begun
		time.Sleep(200 * time.Millisecond)
		if err := s.interrupt(); err != nil {
			t.Error(err)
		}
		wait()
		s.want("kill -0 $(cat pid) && echo alive; kill $(cat pid)", "alive\n", 0)
	})
}

func TestBackgroundJobsKeepToTheirCall(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		at := time.Now()
		first := s.run("nohup sh -c 'sleep 1.5; echo late; echo late >&2' 2>&1 & echo now")
		s.want("echo ok; cat", "ok\n", 0)
		if took := time.Since(at); took > time.Second {
			t.Errorf("two calls beside a job took %v", took)
		}
		if first.out != "now\n" {
			t.Errorf("the first call gave %q", first.out)
		}
		eventually(t, "the job's output comes to its own call", func() bool {
			return strings.Contains(first.tape.text(kernel.Stdout), "late\nlate\n")
		})
	})
}

func TestAServerLeftRunningEndsWithTheSession(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("(setsid sh -c 'echo $$ >server; exec sleep 300' &) ; until [ -s server ]; do sleep 0.02; done", "", 0)
		raw, err := os.ReadFile(filepath.Join(b.workspace, "server"))
		if err != nil {
			t.Fatal(err)
		}
		inner, err := strconv.Atoi(strings.TrimSpace(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		pid, pidfd, err := findInner(s.k.Group(), inner)
		if err != nil {
			t.Fatal("the server is not in the session's group:", err)
		}
		pidfd.Close()
		s.k.Kill()
		eventually(t, "the server is gone", func() bool { return innerPid(pid) != inner })
	})
}

func TestTheFarewellTrap(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("x=5; trap 'echo bye $x >>farewell' EXIT", "", 0)
		s.want("exit 3", "", 3)
		s.want("x=6", "", 0)
		s.k.Kill()
		raw, err := os.ReadFile(filepath.Join(b.workspace, "farewell"))
		if err != nil || string(raw) != "bye 6\n" {
			t.Errorf("the trap wrote %q, %v", raw, err)
		}
	})
}

func TestStackTellsTheCommand(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		begun, wait := s.begin("sleep 31.5 | cat")
		<-begun
		eventually(t, "the stack shows what runs", func() bool {
			text, err := s.k.Stack(t.Context())
			return err == nil && strings.Contains(text, "sleep 31.5\n") && strings.Contains(text, "cat\n")
		})
		if err := s.interrupt(); err != nil {
			t.Error(err)
		}
		wait()
		if text, err := s.k.Stack(t.Context()); text != "" || err != nil {
			t.Errorf("an idle shell's stack is %q, %v", text, err)
		}
	})
}
