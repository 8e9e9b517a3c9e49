package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/locusrun/locus/node/kernel"
)

func TestCopyReadsAndCannotChange(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("x=1; f() { echo f $x; }; alias hi='echo hello'; cd /; umask 027", "", 0)
		for _, code := range []string{
			"x=2; f() { :; }; unalias hi; cd /tmp; umask 0; echo done",
			"x=2; exit 3",
			"set -e; false",
			"kill -9 $$; sleep 2",
			"kill -TERM $$; sleep 2",
			"kill -9 $PPID 2>/dev/null; sleep 0.2",
			"exec true",
			"trap 'echo no' EXIT",
		} {
			c, _ := s.fork(kernel.Copy)
			o := c.run("f; hi; " + "eval '" + "pwd'")
			if o.failure != nil || o.out != "f 1\nhello\n/\n" || !o.report.Replaced {
				t.Errorf("a copy gave %q, %v, %q", o.out, o.failure, o.err)
			}
			c.run(code)
			c.k.Kill()
			s.want("echo $x; f; hi; pwd; umask | tail -c 4", "1\nf 1\nhello\n/\n027\n", 0)
		}
	})
}

func TestCopyRunsBesideTheSession(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("x=before", "", 0)
		c, _ := s.fork(kernel.Copy)
		begun, wait := c.begin("sleep 1; echo $x")
		<-begun
		at := time.Now()
		s.want("x=after; echo $x", "after\n", 0)
		if took := time.Since(at); took > 900*time.Millisecond {
			t.Errorf("the session waited %v for its copy", took)
		}
		if o := wait(); o.out != "before\n" || o.failure != nil {
			t.Errorf("the copy gave %q, %v", o.out, o.failure)
		}
	})
}

// A reader whose time is up at any moment of the making of its copy does no harm to the
// session.
func TestCopiesThatAreGivenUpLeaveTheSessionAlone(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("x=kept", "", 0)
		for n := range 40 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*200*time.Microsecond)
			c, _, err := s.k.Fork(ctx, kernel.Copy, "copy")
			cancel()
			if err == nil {
				c.Kill()
			}
			s.want("echo $x", "kept\n", 0)
		}
		if strings.Contains(b.log.String(), "a shell is killed") {
			t.Error("a shell is killed")
		}
	})
}

func TestCopyKilledByItselfWhileTheSessionWorks(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("x=kept", "", 0)
		c, _ := s.fork(kernel.Copy)
		begun, wait := s.begin("sleep 1; echo $x")
		<-begun
		c.run("kill -9 $$; sleep 0.1")
		if o := wait(); o.out != "kept\n" || o.failure != nil {
			t.Errorf("the session gave %q, %v, %q", o.out, o.failure, o.err)
		}
		s.want("echo $x; exit 2", "kept\n", 2)
	})
}

func TestForkedSessionsPart(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("x=1; trap 'echo usr' USR1", "", 0)
		f, _ := s.fork(kernel.Session)
		f.want("x=2; echo $x", "2\n", 0)
		s.want("echo $x; x=3", "1\n", 0)
		f.want("echo $x; exit 4", "2\n", 4)
		f.want("echo $x", "2\n", 0)
		s.k.Kill()
		f.want("echo $x; exit 5", "2\n", 5)
		g, _ := f.fork(kernel.Session)
		f.k.Kill()
		g.want("echo $x", "2\n", 0)
		g.want("kill -USR1 $$; sleep 0.3; echo on", "usr\non\n", 0)
	})
}

func TestForkOfABusySession(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		begun, wait := s.begin("x=5; sleep 0.7; echo end")
		<-begun
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if _, _, err := s.k.Fork(ctx, kernel.Copy, "busy"); !errors.Is(err, ErrBusy) {
			t.Errorf("a fork of a busy shell: %v", err)
		}
		c, _ := s.fork(kernel.Copy) // waits for the end of the call
		c.want("echo $x", "5\n", 0)
		if o := wait(); o.out != "end\n" {
			t.Errorf("the call gave %q, %v", o.out, o.failure)
		}
	})
}

// Where an exit goes on in a fresh process, whoever waits for the turn waits for that one.
func TestForkOfABusySessionThatExits(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		for range 3 {
			begun, wait := s.begin("x=5; sleep 0.5; exit 3")
			<-begun
			c, _ := s.fork(kernel.Copy)
			c.want("echo $x", "5\n", 0)
			c.k.Kill()
			if o := wait(); o.failure != nil || *o.report.ExitCode != 3 {
				t.Errorf("the call gave %q, %v", o.out, o.failure)
			}
		}
	})
}

func TestForkThatMakesNoProgress(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("x=1", "", 0)
		if err := s.k.Process().Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		_, _, err := s.k.Fork(ctx, kernel.Copy, "stuck")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a fork of a stopped shell: %v", err)
		}
		if err := s.k.Process().Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		s.want("echo $x", "1\n", 0)
	})
}

func TestManyCopiesAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("x=1", "", 0)
		var waits []func() outcome
		for i := range 8 {
			c, _ := s.fork(kernel.Copy)
			_, wait := c.begin(fmt.Sprintf("x=$((x+%d)); sleep 0.2; echo $x", i))
			waits = append(waits, wait)
		}
		for i, wait := range waits {
			if o := wait(); o.out != fmt.Sprintf("%d\n", i+1) {
				t.Errorf("copy %d gave %q, %v", i, o.out, o.failure)
			}
		}
		s.want("echo $x", "1\n", 0)
	})
}
