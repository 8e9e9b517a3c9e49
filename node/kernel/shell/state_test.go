package shell

import (
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

func (s *seat) diff(code string) *surfaces.StateDiff {
	s.b.t.Helper()
	o := s.program(kernel.Program{Code: code, Diff: true})
	if o.report.Diff == nil {
		s.b.t.Fatalf("%q: no diff, %v, %+v", code, o.failure, o.report)
	}
	return o.report.Diff
}

func TestDiff(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		steps := []struct{ code, added, changed, removed string }{
			{"x=1; y='a b'; f() { echo f; }; alias hi='echo hello'", "f hi x y", "", ""},
			{"echo $x", "", "", ""},
			{"x=2; f() { echo g; }; z='multi\nline = \"q\" '", "z", "f x", ""},
			{"unset y; unset -f f; unalias hi; export x", "", "", "f hi y"},
			{"cd /; true; : | cat; (q=1)", "", "", ""},
			{"x=3; exit 3", "", "x", ""},
			{"w=1; sh -c 'exit 2'", "w", "", ""},
			{"w=2; set -e; false", "", "w", ""},
		}
		for _, step := range steps {
			d := s.diff(step.code)
			if got := [3]string{strings.Join(d.Added, " "), strings.Join(d.Changed, " "), strings.Join(d.Removed, " ")}; got != [3]string{step.added, step.changed, step.removed} {
				t.Errorf("%q: %q, want %q %q %q", step.code, got, step.added, step.changed, step.removed)
			}
		}
		s.run("unasked=1")
		if d := s.diff("asked=1"); strings.Join(d.Added, " ") != "asked" {
			t.Errorf("a call that was not asked counts to the next: %+v", d)
		}
		c, _ := s.fork(kernel.Session)
		if d := c.diff("forked=1"); strings.Join(d.Added, " ") != "forked" || len(d.Changed)+len(d.Removed) > 0 {
			t.Errorf("a fork starts from what it was forked of: %+v", d)
		}
	})
}

func TestDiffOfArrays(t *testing.T) {
	only(t, func(t *testing.T, b *bench) {
		s := b.session()
		if d := s.diff("typeset -a a; a=(1 $'x\ny' '( \"'); typeset -A h; h[k]='v w'; readonly r=1"); strings.Join(d.Added, " ") != "a h r" {
			t.Errorf("%+v", d)
		}
		if d := s.diff("a+=(4)"); strings.Join(d.Changed, " ") != "a" || len(d.Added) > 0 {
			t.Errorf("%+v", d)
		}
		if d := s.diff("big=({1..20000}); other=1"); strings.Join(d.Added, " ") != "big other" {
			t.Errorf("%+v", d)
		}
	}, "bash", "zsh")
}

// Where a session stands is what the shell knows, not what a variable says.
func TestTheDirectoryIsNotAVariable(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.diff("cd /usr; unset PWD OLDPWD HOME IFS")
		state, err := s.k.Inspect(t.Context(), kernel.DetailFull)
		if err != nil || state.Shell.Cwd != "/usr" {
			t.Errorf("%+v, %v", state.Shell, err)
		}
		s.diff("PWD=/nowhere; exit 3")
		s.want("pwd -P", "/usr\n", 0)
	})
}

// No alias at all, not even those that a shell begins with, is a state like any other.
func TestNoAliases(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.diff("unalias -a")
		if d := s.diff("x=1; exit 3"); strings.Join(d.Added, " ") != "x" {
			t.Errorf("%+v", d)
		}
		if b.way.language != surfaces.Sh { // there exit is an alias of ours
			s.want("alias", "", 0)
		}
		if d := s.diff("y=1"); strings.Join(d.Added, " ") != "y" {
			t.Errorf("%+v", d)
		}
	})
}

func TestInspect(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("cd /usr; x='a b'; y='it'\"'\"'s $q'; f() { :; }; alias hi='echo hello'; long=$(printf '%09999d' 7)", "", 0)
		c, _ := s.fork(kernel.Copy)
		state, err := c.k.Inspect(t.Context(), kernel.DetailFull)
		if err != nil {
			t.Fatal(err)
		}
		sh := state.Shell
		if sh.Cwd != "/usr" || sh.Variables["x"] != "a b" || sh.Variables["y"] != "it's $q" || !slices.Equal(sh.Functions, []string{"f"}) || sh.Aliases["hi"] != "echo hello" {
			t.Errorf("%+v", sh)
		}
		if n := len(sh.Variables["long"]); n < 4000 || n > 5000 {
			t.Errorf("a long value is shown in %d bytes", n)
		}
		if sh.Variables["HOME"] != b.workspace || sh.Variables["PATH"] == "" {
			t.Errorf("the environment is not shown: %q", sh.Variables)
		}
		for name := range sh.Variables {
			if strings.HasPrefix(name, ours) {
				t.Errorf("%s is shown", name)
			}
		}
		c.want("echo $x", "a b\n", 0)
	})
}

// What a trap on each command writes does not get into what the shell says of its state.
func TestATrapOnEachCommandStaysOutOfTheState(t *testing.T) {
	only(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.diff("TRAPDEBUG() { echo traced; }; x=1")
		if d := s.diff("y=2"); strings.Join(d.Added, " ") != "y" {
			t.Errorf("%+v", d)
		}
	}, "zsh")
}

// A limit on the size of files, which the code sets for its own, neither kills the shell
// when it tells its state nor ends the account.
func TestALimitOnFilesDoesNotEndTheSession(t *testing.T) {
	s := open(t, way{"bash-loadable", surfaces.Bash, true}).session()
	s.diff("x=1; ulimit -S -f 0")
	if d := s.diff("y=2"); strings.Join(d.Added, " ") != "y" {
		t.Errorf("%+v", d)
	}
	o := s.program(kernel.Program{Code: "ulimit -H -f 0; z=3; ulimit -f", Diff: true})
	if o.failure != nil || o.report.Diff != nil || len(o.report.Notices) != 1 || o.report.Notices[0].Kind != "state_diff" {
		t.Errorf("%v, %+v, want no o.failure, no o.report.Diff, 1 o.report.Notices, o.report.Notices[0].Kind \"state_diff\"", o.failure, o.report)
	}
	s.want("echo $x $y $z", "1 2 3\n", 0)
	if _, err := s.k.Inspect(t.Context(), kernel.DetailFull); err == nil {
		t.Error("a state that cannot be told was told")
	}
	s.want("echo $x", "1\n", 0)
}
