package shell

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/locusrun/locus/node/kernel"
)

// step is one call of a session and what it must give.
type step struct {
	code, out string
	status    int
}

// anywhere are dialogues that every shell must hold in the same words.
var anywhere = map[string][]step{
	"variables and functions stay": {
		{"x=1; f() { echo \"f $x $1\"; }", "", 0},
		{"x=2; f a", "f 2 a\n", 0},
	},
	"the directory, the mask and the environment stay": {
		{"mkdir d; cd d; umask 027; export A=1", "", 0},
		{"basename \"$PWD\"; umask | tail -c 4; sh -c 'echo $A'", "d\n027\n1\n", 0},
	},
	"aliases stay": {
		{"alias hi='echo hello'", "", 0},
		{"hi you", "hello you\n", 0},
		{"unalias hi", "", 0},
		{"hi 2>/dev/null", "", 127},
	},
	"exit ends the call and keeps the state": {
		{"cd /; A=1; export A; exit 3; echo no", "", 3},
		{"pwd; echo $A", "/\n1\n", 0},
		{"exit 42 || true; echo no", "", 42},
		{"g() { exit 6; echo no; }; g; echo no", "", 6},
		{"A=2; g || echo no; echo no", "", 6},
		{"echo $A; (exit 5)", "2\n", 5},
		{"true; exit", "", 0},
	},
	"errexit ends the call and keeps the state": {
		{"x=1; set -e; false; echo no", "", 1},
		{"echo $x; x=2; (exit 4); echo no", "1\n", 4},
		{"echo $x; set +e; false; echo on", "2\non\n", 0},
	},
	"an unset variable under nounset": {
		{"x=1; set -u", "", 0},
		{"x=2; echo $nope; echo no", "", -1},
		{"echo $x; set +u; echo \"[$nope]\"", "2\n[]\n", 0},
	},
	"a broken program is one error": {
		{"x=1", "", 0},
		{"echo \"abc", "", -1},
		{"echo 'abc", "", -1},
		{"echo $(", "", -1},
		{"if true; then", "", -1},
		{"fi", "", -1},
		{"echo \"it's \\`", "", -1},
		{"echo $x", "1\n", 0},
	},
	"here-documents": {
		{"cat <<'EOF' > out.txt\n a $b\nEOF\n", "", 0},
		{"cat out.txt", " a $b\n", 0},
		{"cat <<-X\n\tone\n\tX\ncat <<A; cat <<B\na\nA\nb\nB", "one\na\nb\n", 0},
		{"cat <<E\nlast\nE", "last\n", 0},
	},
	"leaving loops that are not there": {
		{"x=5", "", 0},
		{"break 2>/dev/null; :", "", -2},
		{"continue 2>/dev/null; :", "", -2},
		{"break 99 2>/dev/null; :", "", -2},
		{"echo $x", "5\n", 0},
	},
	"return at the top": {
		{"x=5; return 3 2>/dev/null", "", -2},
		{"echo $x", "5\n", 0},
	},
	"an output that was redirected for good is back in the next call": {
		{"exec >kept 2>&1; echo one", "", 0},
		{"echo two; cat kept", "two\none\n", 0},
	},
	"descriptors closed": {
		{"for i in 0 1 2 3 4 5 6 7 8 9; do eval \"exec $i>&-\"; done", "", -2},
		{"echo back", "back\n", 0},
		{"exec 0<&- 1>&- 2>&-; exit 3", "", -2},
		{"echo back; cat", "back\n", 0},
	},
	"IFS and PATH": {
		{"unset IFS; set -- a:b c; echo $1", "a:b\n", 0},
		{"IFS=0123456789", "", 0},
		{"echo still", "still\n", 0},
		{"unset IFS; PATH=; echo here", "here\n", 0},
		{"echo here", "here\n", 0},
	},
	"standard input is empty": {
		{"cat > f; read x; echo $?; wc -c <f", "1\n0\n", 0},
	},
	"no terminal": {
		{"(read x </dev/tty) 2>/dev/null || echo none", "none\n", 0},
	},
	"bytes": {
		{"printf 'a\\0b'; printf '\\377\\376'", "a\x00b\xff\xfe", 0},
		{"printf é; echo ' é 世界'", "é é 世界\n", 0},
		{"x='é\t世'; echo \"$x\" | wc -c", "7\n", 0},
		{"echo '\x01\x7f'", "\x01\x7f\n", 0},
	},
	"nothing to do": {
		{"", "", 0},
		{"# only a comment", "", 0},
		{"\n\n", "", 0},
	},
	"positional parameters": {
		{"set -- a 'b c'", "", 0},
		{"echo $# \"$2\"", "2 b c\n", 0},
	},
	"execution turned off": {
		{"x=7", "", 0},
		{"set -n; echo no", "", 0},
		{"echo $x", "7\n", 0},
	},
	"a signal to itself that is caught": {
		{"trap 'echo caught' USR1", "", 0},
		{"kill -USR1 $$; sleep 0.3; echo after", "caught\nafter\n", 0},
		{"exit 1", "", 1},
		{"kill -USR1 $$; sleep 0.3; echo after", "caught\nafter\n", 0},
	},
	"SIGINT to itself": {
		{"x=3; kill -INT $$; sleep 2; echo no", "", 130},
		{"echo $x", "3\n", 0},
	},
	"names of builtins overridden": {
		{"printf() { echo mine; }; cd() { echo cd; }; read() { :; }", "", 0},
		{"printf; cd", "mine\ncd\n", 0},
		{"exit 2", "", 2},
		{"printf; cd", "mine\ncd\n", 0},
	},
	"an EXIT trap of a subshell is its own": {
		{"x=$(trap 'echo bye' EXIT; echo hi); echo \"$x\"; (trap 'echo out' EXIT; exit 3)", "hi\nbye\nout\n", 3},
		{"exit 4", "", 4},
		{"(trap 'echo out' EXIT; trap - EXIT; exit 3); (trap 'echo out' 0; exit 5)", "out\n", 5},
	},
	"an EXIT trap does not run at each call": {
		{"trap 'echo bye >>farewell' EXIT; x=1", "", 0},
		{"exit 3", "", 3},
		{"test -e farewell; echo $? $x", "1 1\n", 0},
	},
	"the status of the last call": {
		{"(exit 7)", "", 7},
		{"echo $?", "7\n", 0},
		{"exit 3", "", 3},
		{"echo $?; set -e; (exit 4); echo no", "3\n", 4},
		{"echo $?; set +e", "4\n", 0},
	},
	"a dead command": {
		{"sh -c 'kill -9 $$'", "", 137},
		{"nosuchcommand 2>/dev/null", "", 127},
	},
}

func TestDialogues(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) { hold(t, b, anywhere) })
}

// hold plays each dialogue in a session of its own. Status -1 is any but 0, and -2
// is any.
func hold(t *testing.T, b *bench, dialogues map[string][]step) {
	for name, steps := range dialogues {
		t.Run(name, func(t *testing.T) {
			b := b.in(t)
			s := b.session()
			for i, step := range steps {
				o := s.run(step.code)
				right := o.failure == nil && o.out == step.out
				switch step.status {
				case -2:
				case -1:
					right = right && o.code != 0 && o.err != ""
				default:
					right = right && o.code == step.status
				}
				if !right {
					t.Errorf("step %d %q:\n gave %q, status %d, error %v, stderr %q\n want %q, status %d",
						i+1, step.code, o.out, o.code, o.failure, o.err, step.out, step.status)
				}
			}
		})
	}
}

func TestInputIsGiven(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		code := "read a; read b; echo \"$b-$a\"; cat"
		for _, s := range []*seat{b.session(), {b: b, k: b.start(kernel.OneShot)}} {
			o := s.program(kernel.Program{Code: code, Stdin: "one\ntwo\nrest"})
			if o.failure != nil || o.out != "two-one\nrest" {
				t.Errorf("gave %q, %v, %q", o.out, o.failure, o.err)
			}
		}
	})
}

func TestLargeProgramsAndOutputs(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		literal := strings.Repeat("0123456789abcdef", 64<<10)
		s.want("x='"+literal+"'; echo ${#x}", fmt.Sprintf("%d\n", len(literal)), 0)
		var code strings.Builder
		for i := range 20000 {
			fmt.Fprintf(&code, "v%d=%d\n", i%100, i)
		}
		s.want(code.String()+"echo $v7", "19907\n", 0)
		o := s.run("seq 1 300000; seq 1 300000 >&2")
		for stream, text := range map[string]string{"stdout": o.out, "stderr": o.err} {
			if !strings.HasSuffix(text, "\n300000\n") || strings.Count(text, "\n") != 300000 {
				t.Errorf("%s has %d lines and ends %q", stream, strings.Count(text, "\n"), text[max(0, len(text)-20):])
			}
		}
		s.want("echo next", "next\n", 0)
	})
}

func TestDeath(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		for code, signal := range map[string]syscall.Signal{
			"kill -9 $$; sleep 5": syscall.SIGKILL,
			"kill -9 $$":          syscall.SIGKILL,
			"exec true":           0,
			"exec sh -c 'exit 3'": 0,
		} {
			s := b.session()
			s.want("x=1; echo $x", "1\n", 0)
			o := s.run(code)
			var died *kernel.Died
			if !errors.As(o.failure, &died) || !died.Started || died.Exit.Signal != signal || !died.Exit.Known {
				t.Errorf("%q: %v, %+v", code, o.failure, died)
			}
			if o := s.run("echo no"); !errors.As(o.failure, &died) || died.Started {
				t.Errorf("after %q: %q, %v", code, o.out, o.failure)
			}
		}
		if o := b.once("kill -9 $$"); o.failure == nil {
			t.Error("a one-shot that killed itself gave", o.code)
		}
		if o := b.once("exec sh -c 'exit 3'"); o.failure != nil || o.code != 3 {
			t.Error("a one-shot that replaced itself gave", o.code, o.failure)
		}
		if o := b.once("trap 'echo bye' EXIT; exit 4"); o.out != "bye\n" || o.code != 4 {
			t.Errorf("a one-shot's trap: %q, %d", o.out, o.code)
		}
	})
}
