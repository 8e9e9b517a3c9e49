package shell

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
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

var inBash = map[string][]step{
	"functions and aliases named like what our own code calls": {
		{"x=1; for n in eval command trap printf read local declare set shift continue source mapfile shopt alias; do builtin eval \"$n() { echo mine-$n; }\"; done", "", 0},
		{"command a; trap", "mine-command\nmine-trap\n", 0},
		{"x=2; builtin exit 3", "", 3},
		{"echo $x; trap", "2\nmine-trap\n", 0},
		{"builtin alias eval=no trap=no until=no do=no if=no builtin=no", "", 0},
		{"echo $x; \\exit 4", "2\n", 4},
		{"echo $x", "2\n", 0},
	},
	"a locale that cannot be changed": {
		{"x=1; readonly LC_ALL", "", 0},
		{"echo é世 $x\n\n", "é世 1\n", 0},
		{"exit 3 # é", "", 3},
		{"echo é $x", "é 1\n", 0},
	},
	"aliases turned off": {
		{"alias hi='echo hello'; shopt -u expand_aliases", "", 0},
		{"exit 3", "", 3},
		{"hi 2>/dev/null || echo none; shopt -s expand_aliases", "none\n", 0},
		{"hi", "hello\n", 0},
	},
	"an exit inside of a function under another IFS": {
		{"x=0; f() { local x=1; exit 8; }; IFS=:", "", 0},
		{"f", "", 8},
		{"echo $x", "0\n", 0},
	},
	"declarations at the top are the session's": {
		{"declare -A h=([a]=1); declare -i n=3; declare -r c=9; arr=(1 '2 3')", "", 0},
		{"n+=4; echo ${h[a]} $n $c ${#arr[@]}", "1 7 9 2\n", 0},
		{"exit 1", "", 1},
		{"n+=1; declare -a more=(x); echo ${h[a]} $n $c ${arr[1]}", "1 8 9 2 3\n", 0},
		{"echo ${more[0]}", "x\n", 0},
	},
	"exit inside a function leaves no local variables": {
		{"x=0; e=(1 2); outer() { local x=1 e=9 h=3; inner; }; inner() { local x=2; exit 8; }", "", 0},
		{"outer; echo no", "", 8},
		{"echo $x ${e[1]} [$h]; declare y=5", "0 2 []\n", 0},
		{"echo $y; show() { echo $y; }; show", "5\n5\n", 0},
	},
	"options stay": {
		{"shopt -s extglob nullglob; set -f", "", 0},
		{"shopt -q extglob && shopt -q nullglob && echo $-  | grep -c f", "1\n", 0},
		{"exit 1", "", 1},
		{"shopt -q extglob && echo $- | grep -c f", "1\n", 0},
	},
	"strict mode": {
		{"set -euo pipefail; x=1", "", 0},
		{"false | true; echo no", "", 1},
		{"echo $x; echo $nope; echo no", "1\n", -1},
		{"echo $x", "1\n", 0},
	},
	"posix mode": {
		{"set -o posix; x=1; readonly r=1", "", 0},
		{"r=2; echo no", "", -1},
		{"echo $x; set +o posix", "1\n", 0},
		{"echo on", "on\n", 0},
	},
	"a failed expansion ends the call": {
		{"x=4; echo ${nope:?not there}; echo no", "", -1},
		{"f() { echo ${nope:?}; echo no; }; f; echo no", "", -1},
		{"echo $x", "4\n", 0},
	},
	"traps stay over an exit": {
		{"trap 'echo usr' USR1; trap '' HUP", "", 0},
		{"exit 1", "", 1},
		{"trap -p USR1; trap -p HUP; kill -HUP $BASHPID; kill -USR1 $BASHPID; echo on", "trap -- 'echo usr' SIGUSR1\ntrap -- '' SIGHUP\nusr\non\n", 0},
	},
	"debug and error traps": {
		{"n=0; trap 'n=$((n+1))' DEBUG; e=0; trap 'e=$((e+1))' ERR", "", 0},
		{"true; false; true", "", 0},
		{"trap - DEBUG ERR; ((n > 2 && e >= 1)) && echo counted", "counted\n", 0},
	},
	"functions of ours unset": {
		{"x=1; unset -f builtin; builtin() { :; }; unset -f builtin", "", 0},
		{"echo $x", "1\n", 0},
	},
	"coprocesses": {
		{"coproc cat; echo hi >&${COPROC[1]}; read l <&${COPROC[0]}; echo $l", "hi\n", 0},
		{"echo again >&${COPROC[1]}; read l <&${COPROC[0]}; echo $l; kill $COPROC_PID", "again\n", 0},
		{"echo on", "on\n", 0},
	},
	"descriptors of the code stay": {
		{"exec 7>kept 8<<<hello", "", 0},
		{"echo a >&7; read l <&8; echo $l; exec 7>&-; cat kept", "hello\na\n", 0},
	},
	"all descriptors closed": {
		{"for i in {0..1023}; do eval \"exec $i>&-\" 2>/dev/null; done; exit 4", "", 4},
		{"echo back", "back\n", 0},
	},
	"jobs of a call": {
		{"sleep 0.05 & wait $!; echo $?", "0\n", 0},
		{"(exit 3) & wait $!; echo $?", "3\n", 0},
		{"(seq 3; exit 1) & wait $!", "1\n2\n3\n", 1},
	},
	"noclobber and allexport": {
		{"set -C; set -a; y=2", "", 0},
		{"echo 1 >n; sh -c 'echo $y'; env | grep __locus | grep -vc '^__locus_[cd][ao]'", "2\n0\n", 1},
		{"exit 1", "", 1},
		{"env | grep __locus | grep -vc '^__locus_[cd][ao]'", "0\n", 1},
	},
	"line numbers are the caller's": {
		{"echo $LINENO\necho $LINENO", "1\n2\n", 0},
		{"exit 1", "", 1},
		{"echo $LINENO\n\necho $LINENO", "1\n3\n", 0},
	},
}

func TestBash(t *testing.T) {
	only(t, func(t *testing.T, b *bench) { hold(t, b, inBash) }, "bash")
}

// Options hold over a call that is copied, in the session and in the copy.
func TestOptionsHoldOverACopy(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("x=1; set -u; (exit 6)", "", 6)
		c, _ := s.fork(kernel.Copy)
		for _, s := range []*seat{c, s} {
			s.want("echo $? $x; case $- in *u*) echo kept ;; esac", "6 1\nkept\n", 0)
		}
	})
}

// A trace shows the caller's commands and nothing of ours.
func TestTraces(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("PS4='+ '; set -x", "", 0)
		for code, trace := range map[string]string{
			"echo a; (exit 3)": "echo a\nexit 3\n", "f() { false; }; f": "f\nfalse\n", "exit 3": "exit 3\n",
		} {
			s := s
			if b.way.language == surfaces.Sh {
				s = b.session() // exit is an alias after the first
				s.want("PS4='+ '; set -x", "", 0)
			}
			o := s.run(code)
			lines := strings.TrimLeft(strings.ReplaceAll(o.err, "\n+", "\n"), "+ ")
			lines = strings.NewReplacer("\n+", "\n", "\n ", "\n").Replace(strings.ReplaceAll(lines, "+", ""))
			if o.failure != nil || lines != trace {
				t.Errorf("%q: traced %q, %v", code, o.err, o.failure)
			}
		}
	})
}

// Two copies of one session draw numbers of their own.
func TestRandomNumbersOfCopies(t *testing.T) {
	only(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("RANDOM=42; : $RANDOM", "", 0)
		one, _ := s.fork(kernel.Copy)
		two, _ := s.fork(kernel.Copy)
		const draw = "echo $RANDOM $RANDOM $RANDOM"
		if a, b := one.run(draw), two.run(draw); a.failure != nil || a.out == b.out {
			t.Errorf("%q and %q, %v", a.out, b.out, a.failure)
		}
	}, "bash", "zsh")
}

var inSh = map[string][]step{
	"functions and aliases named like what our own code calls": {
		{"x=1; command() { echo mine; }; printf() { echo mine-printf; }; read() { :; }; alias() { :; }; command; printf", "mine\nmine-printf\n", 0},
		{"echo $x; command echo its own; printf", "1\nits own\nmine-printf\n", 0},
		{"unset -f alias; alias eval=no trap=no exit=no set=no command=no; x=2", "", 0},
		{"\\exit 4", "", 4},
		{"echo $x; \\exit 5", "2\n", 5},
		{"echo $x", "2\n", 0},
	},
	"an IFS that cannot be changed": {
		{"IFS=er; readonly IFS; x=1", "", 0},
		{"  echo \"$x  e\"  ", "1  e\n", 0},
		{"exit 3", "", 3},
		{"echo $x", "1\n", 0},
	},
}

func TestSh(t *testing.T) {
	only(t, func(t *testing.T, b *bench) { hold(t, b, inSh) }, "sh")
}

var inZsh = map[string][]step{
	"functions and aliases named like what our own code calls": {
		{"x=1; for n in eval emulate unsetopt exec trap printf print read sysread umask return shift continue true : set setopt cd; do functions[$n]=\"echo mine-$n\"; done", "", 0},
		{"eval a; set", "mine-eval\nmine-set\n", 0},
		{"x=2; builtin exit 3", "", 3},
		{"echo $x; trap", "2\nmine-trap\n", 0},
		{"alias eval=no trap=no until=no do=no if=no builtin=no; alias -g true=no", "", 0},
		{"echo $x; \\exit 4", "2\n", 4},
		{"echo $x", "2\n", 0},
	},
	"the name that no function keeps": {
		{"x=1; builtin() { echo mine; }; builtin", "mine\n", 0},
		{"echo $x; builtin echo its own", "1\nits own\n", 0},
	},
	"positional parameters over an exit": {
		{"set -- a 'b c' '' d; exit 3", "", 3},
		{"echo $# \"$2\" \"[$3]\" $4", "4 b c [] d\n", 0},
	},
	"options that change how our own code would be read": {
		{"setopt ksharrays shwordsplit noglob nounset posixbuiltins cshjunkiequotes cshjunkieloops ignorebraces noaliases posixidentifiers posixtraps globsubst warncreateglobal warnnestedvar kshtypeset rcquotes; x=1", "", 0},
		{"exit 3", "", 3},
		{"echo $x; [[ -o ksharrays && ! -o aliases ]] && echo kept", "1\nkept\n", 0},
	},
	"another emulation": {
		{"emulate sh; x='1 2'", "", 0},
		{"exit 3", "", 3},
		{"set -- $x; echo $#; emulate csh", "2\n", 0},
		{"exit 4", "", 4},
		{"echo $x", "1 2\n", 0},
	},
	"a trap on each command stays out of the account of the state": {
		{"trap 'echo at >>debugged' DEBUG; x=1", "", 0},
		{"y=2", "", 0},
		{"trap - DEBUG; echo $x $y", "1 2\n", 0},
	},
	"a failed expansion ends the call": {
		{"x=4; echo ${nope:?not there}; echo no", "", -1},
		{"f() { echo ${nope:?}; echo no; }; x=5; echo on", "on\n", 0},
		{"f; echo no", "", -1},
		{"echo $x", "5\n", 0},
	},
	"errexit inside of a function": {
		{"x=4; f() { false; echo no; }; set -e", "", 0},
		{"f; echo no", "", 1},
		{"echo $x; set +e; f", "4\nno\n", 0},
	},
	"declarations at the top are the session's": {
		{"typeset -A h=(a 1); integer n=3; typeset -r c=9; arr=(1 '2 3'); alias -g G='| grep'", "", 0},
		{"n+=4; echo $h[a] $n $c $#arr $arr[2]", "1 7 9 2 2 3\n", 0},
		{"exit 1", "", 1},
		{"n+=1; echo $h[a] $n $c $#arr $arr[2]; echo abc G b", "1 8 9 2 2 3\nabc\n", 0},
	},
	"exit inside a function leaves no local variables": {
		{"x=0; outer() { local x=1; inner; }; inner() { local x=2; exit 8; }", "", 0},
		{"outer; echo no", "", 8},
		{"echo $x", "0\n", 0},
	},
	"options stay": {
		{"setopt shwordsplit nullglob noglob", "", 0},
		{"exit 1", "", 1},
		{"[[ -o shwordsplit && -o nullglob && -o noglob ]] && echo yes", "yes\n", 0},
	},
	"traps stay over an exit": {
		{"trap 'echo usr' USR1", "", 0},
		{"exit 1", "", 1},
		{"kill -USR1 $sysparams[pid]; echo on", "usr\non\n", 0},
	},
}

func TestZsh(t *testing.T) {
	only(t, func(t *testing.T, b *bench) { hold(t, b, inZsh) }, "zsh")
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
