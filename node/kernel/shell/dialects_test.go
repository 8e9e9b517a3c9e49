package shell

import (
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

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
	"a status that is longer than a byte": {
		{"x=1; f() { return 300; }; f", "", 44},
		{"echo $?; exit 300", "300\n", 44},
		{"echo $x; return 511", "1\n", 255},
		{"echo $x", "1\n", 0},
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
	"a status that is longer than a byte": {
		{"x=1; f() { return 300; }; f", "", 44},
		{"echo $?; exit 300", "300\n", 44},
		{"echo $x; exit -1", "1\n", 255},
		{"echo $x; f() { return -2; }; f", "1\n", 254},
		{"echo $? $x", "-2 1\n", 0},
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
