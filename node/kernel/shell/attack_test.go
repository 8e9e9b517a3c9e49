package shell

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
)

func TestForgedReplies(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("x=1", "", 0)
		forged := strings.Repeat("0", 32) + " d 2 0 1 ."
		o := s.run(`for i in 0 1 2 3 4 5 6 7 8 9; do eval "echo '` + forged + `' >&$i" 2>/dev/null; done
for f in /proc/self/fd/*; do case $f in */0|*/1|*/2) ;; *) echo '` + forged + `' 2>/dev/null >"$f" ;; esac; done 2>/dev/null
sleep 0.3; echo end`)
		if o.failure != nil || !strings.HasSuffix(o.out, "end\n") || !strings.Contains(o.out, forged) {
			t.Errorf("gave %q, %v, %q", o.out, o.failure, o.err)
		}
		// Written where replies are read: dropped, however long, and without an end.
		switch k := s.k.(type) {
		case *session:
			dir := k.control.dir.path
			o = s.run(fmt.Sprintf("echo '%s' >'%s/rep'; head -c 200000 /dev/zero | tr '\\0' x >'%s/rep'; sleep 0.2; echo end", forged, dir, dir))
		case *resident:
			o = s.run("for i in {2000..2010}; do echo '" + forged + "' >&$i; printf '%01000d' 0 >&$i; done 2>/dev/null; echo end")
		}
		if o.failure != nil || o.out != "end\n" {
			t.Errorf("gave %q, %v, %q", o.out, o.failure, o.err)
		}
		s.want("echo $x", "1\n", 0)
		if _, n := s.token(); n == 0 {
			t.Error("no forged reply was counted")
		}
	})
}

func TestMarkersAreOutput(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		for _, text := range []string{"__locus_done 0", "d 1 0 1 .", "{\"status\":\"done\"}"} {
			s.want("echo '"+text+"'; echo '"+text+"' >&2", text+"\n", 0)
		}
	})
}

func TestNoSecretsInSight(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		token, _ := s.token()
		o := s.run("env; cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
		if strings.Contains(o.out, token) {
			t.Error("the token can be read from an environment or a command line")
		}
	})
}

func TestADamagedDirectory(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		other := b.session()
		o := s.run("rm -rf '" + b.family.dir + "'/*; echo gone")
		var died *kernel.Died
		if _, pure := s.k.(*session); pure {
			// It cannot answer any more, which must be seen and not waited for.
			if o.out != "gone\n" || !errors.As(o.failure, &died) {
				t.Errorf("gave %q, %v", o.out, o.failure)
			}
			if o := other.run("echo no"); o.failure == nil {
				t.Errorf("a session without its pipes gave %q", o.out)
			}
			return
		}
		if o.out != "gone\n" || o.failure != nil {
			t.Errorf("gave %q, %v", o.out, o.failure)
		}
		other.want("echo fine", "fine\n", 0)
	})
}

func TestSmallOutputsAreExact(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		for n := range 21 {
			text := strings.Repeat("x", n)
			s.want("printf '%s' '"+text+"'", text, 0)
			if o := b.once("printf '%s' '" + text + "'"); o.out != text {
				t.Errorf("a one-shot gave %q of %d bytes", o.out, n)
			}
		}
	})
}

func TestFastCallsLoseNoOutput(t *testing.T) {
	calls := 10000
	if raceEnabled || testing.Short() {
		calls = 500
	}
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		for i := range calls {
			want := fmt.Sprintf("%d\n", i)
			if o := s.run(fmt.Sprintf("echo %d", i)); o.out != want || o.failure != nil {
				t.Fatalf("call %d gave %q, %v", i, o.out, o.failure)
			}
		}
		for i := range calls / 50 {
			o := s.run("echo out; echo err >&2; sh -c 'echo child'")
			if o.out != "out\nchild\n" || o.err != "err\n" {
				t.Fatalf("call %d gave %q, %q, %v", i, o.out, o.err, o.failure)
			}
			if o := b.once("echo once"); o.out != "once\n" {
				t.Fatalf("one-shot %d gave %q, %v", i, o.out, o.failure)
			}
		}
	})
}

func TestNULIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		begun := false
		_, err := s.k.Run(t.Context(), kernel.Program{Number: 1, Code: "echo a\x00b", Started: func() { begun = true }})
		if err != ErrNUL || begun {
			t.Errorf("%v, begun %v", err, begun)
		}
		s.want("echo fine", "fine\n", 0)
	})
}
