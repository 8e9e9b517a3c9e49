package shell

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox/sandboxtest"
	"github.com/locusrun/locus/surfaces"
)

// isolated skips where this machine has no private view.
func isolated(t *testing.T, notices []surfaces.Notice) {
	t.Helper()
	if i := slices.IndexFunc(notices, notIsolated); i >= 0 {
		t.Skip(notices[i].Text)
	}
}

func notIsolated(n surfaces.Notice) bool { return strings.HasSuffix(n.Kind, "_not_isolated") }

// onBuilt runs a test with every way that has a compiled part.
func onBuilt(t *testing.T, test func(t *testing.T, b *bench)) {
	for _, w := range ways {
		if w.built {
			t.Run(w.name, func(t *testing.T) { test(t, open(t, w)) })
		}
	}
}

// What a copy cannot be isolated from is a matter of the machine, not of the shell.
func TestCopiesOfAllShellsAreIsolatedAlike(t *testing.T) {
	missing := map[string]string{}
	onBuilt(t, func(t *testing.T, b *bench) {
		_, notices := b.session().fork(kernel.Copy)
		var texts []string
		for _, n := range notices {
			if notIsolated(n) {
				texts = append(texts, n.Text)
			}
		}
		missing[b.way.name] = strings.Join(texts, "; ")
	})
	for name, texts := range missing {
		if texts != missing["bash-loadable"] {
			t.Errorf("%s: got the notices %q, those of bash are %q", name, texts, missing["bash-loadable"])
		}
	}
}

// Without its compiled part a shell says that its copies are not isolated.
func TestCopyOfAPureShellIsToldAsNotIsolated(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		if b.way.built {
			return
		}
		_, notices := b.session().fork(kernel.Copy)
		var kinds []string
		for _, n := range notices {
			kinds = append(kinds, n.Kind)
		}
		if want := []string{"disk_not_isolated", "processes_not_isolated"}; !slices.Equal(kinds, want) {
			t.Errorf("got the notices %q, want %q", kinds, want)
		}
	})
}

func TestCopyHasItsOwnDisk(t *testing.T) {
	onBuilt(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("echo old >f; mkdir -p d/e; echo keep >d/e/g; exec 7<f 8>>log; echo start >&8", "", 0)
		c, notices := s.fork(kernel.Copy)
		isolated(t, notices)
		name := "locus-copy-" + b.family.tag
		o := c.run(`read l <&7; echo $l; echo changed >f; rm -r d; mkdir new; mv f f2; echo copy >&8; cat f2 log; ls -A | grep -v '^\.'
(echo x >/etc/locus-test) 2>/dev/null || echo read-only
echo tmp >/tmp/` + name + `; cat /tmp/` + name + `; pwd | tr -d '\n' | wc -c`)
		want := "old\nchanged\nstart\ncopy\nf2\nlog\nnew\nread-only\ntmp\n"
		if o.failure != nil || !strings.HasPrefix(o.out, want) {
			t.Errorf("the copy gave %q, %q, %v", o.out, o.err, o.failure)
		}
		s.want("cat f log d/e/g; ls -d new f2 2>/dev/null; read l <&7; echo $l; ls /tmp | grep "+name, "old\nstart\nkeep\nold\n", 1)
		if _, err := os.Stat(filepath.Join(b.workspace, "new")); !os.IsNotExist(err) {
			t.Error("the copy's folder is on the disk:", err)
		}
	})
}

// However a program in a copy ends, its files end with it, and the caller has its status.
func TestCopyThatEndsItsShell(t *testing.T) {
	onBuilt(t, func(t *testing.T, b *bench) {
		s := b.session()
		_, notices := s.fork(kernel.Copy)
		isolated(t, notices)
		for code, status := range map[string]int{
			"echo x >soil; exit 3":                            3,
			"set -e; echo x >soil; false; echo y":             1,
			"set -e; f() { echo x >soil; false; echo y; }; f": 1,
			"trap 'echo x >soil' EXIT; exit 4":                4,
			"echo x >soil; kill -INT $$; sleep 5":             130,
		} {
			c, _ := s.fork(kernel.Copy)
			o := c.run(code)
			if o.failure != nil || o.code != status || o.out != "" {
				t.Errorf("%q: got %q, status %d, error %v, want status %d", code, o.out, o.code, o.failure, status)
			}
			c.k.Kill()
		}
		c, _ := s.fork(kernel.Copy)
		if o := c.run("echo x >soil; : ${locus_nothing:?is missing}; echo no"); o.failure != nil || o.code == 0 || !strings.Contains(o.err, "is missing") {
			t.Errorf("a failed expansion: got %q, %q, status %d, error %v", o.out, o.err, o.code, o.failure)
		}
		c, _ = s.fork(kernel.Copy)
		if o := c.run("echo x >soil; kill -9 $$; sleep 5"); o.failure == nil {
			t.Errorf("a copy that kills itself: got %q, status %d", o.out, o.code)
		}
		s.want("ls; echo $?", "0\n", 0)
	})
}

func TestCopyCannotSignal(t *testing.T) {
	onBuilt(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("sleep 300 & job=$!; me=$$; x=1", "", 0)
		for _, code := range []string{
			"kill -9 $job; kill -9 -1; kill -9 -$me; kill 0; sleep 0.2", "kill -9 $me; sleep 0.2",
			"sh -c 'kill -9 '$me; command -p kill -9 $job",
		} {
			c, notices := s.fork(kernel.Copy)
			isolated(t, notices)
			c.run(code)
			s.want("kill -0 $job && echo $x", "1\n", 0)
		}
		d, _ := s.fork(kernel.Copy)
		d.want("sleep 300 & kill $!; wait $!; echo $?; sh -c 'kill -9 $$'; echo $?", "143\n137\n", 0)
		if o := s.run("echo $x; kill -TERM $$; sleep 0.3; echo no"); o.failure == nil || o.out != "1\n" {
			t.Errorf("a session that ends itself: got %q, status %d", o.out, o.code)
		}
	})
}

func TestCopyCannotReachPipes(t *testing.T) {
	onBuilt(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("mkfifo p; exec 9<>p", "", 0)
		c, notices := s.fork(kernel.Copy)
		isolated(t, notices)
		if o := c.run("echo soil >&9"); o.code == 0 {
			t.Errorf("a copy wrote to its original's pipe: %+v", o)
		}
		c.want("echo soil 1<>p", "", 0) // of the copy's own view
		s.want("echo clean >&9; read l <&9; echo $l", "clean\n", 0)
	})
}

// An ordinary user's copies are isolated like root's: by a user namespace of their own.
func TestCopiesOfAnOrdinaryUser(t *testing.T) {
	out := sandboxtest.AsNobody(t, ":", "-test.run", "^(TestCopyHasItsOwnDisk|TestCopyThatEndsItsShell|TestCopyCannot.*)$")
	for _, w := range ways {
		if name := "TestCopyHasItsOwnDisk/" + w.name; w.built && !strings.Contains(out, "--- PASS: "+name) {
			t.Errorf("%s did not pass:\n%s", name, out)
		}
	}
}

// The directory through which a shell gets its requests is not covered in a copy. Only the
// copy's own is there.
func TestCopyCannotReachTheSessionsRequests(t *testing.T) {
	onBuilt(t, func(t *testing.T, b *bench) {
		s := b.session()
		k, ok := s.k.(*session)
		if !ok {
			t.Skip("it has a socket instead of pipes")
		}
		s.want("x=kept", "", 0)
		c, notices := s.fork(kernel.Copy)
		isolated(t, notices)
		c.run("echo 'q 1 0 . 0 -' 1<>" + k.control.dir.path + "/req; rm -rf .locus/*/*; rm -rf .locus")
		s.want("echo $x", "kept\n", 0)
		f, _ := s.fork(kernel.Copy)
		f.want("echo $x", "kept\n", 0)
	})
}

// A forked session continues to read where its original was, and each moves on alone.
func TestForkedSessionsHaveTheirOwnOffsets(t *testing.T) {
	onBuilt(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("printf '1\n2\n3\n' >f; exec 7<f; read l <&7; echo $l", "1\n", 0)
		f, _ := s.fork(kernel.Session)
		f.want("read l <&7; echo $l; read l <&7; echo $l", "2\n3\n", 0)
		s.want("read l <&7; echo $l", "2\n", 0)
	})
}

// What a session starts knows nothing of the library in its shell.
func TestPreloadedLibraryIsNotPassedOn(t *testing.T) {
	onBuilt(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.want("env | grep -e PRELOAD -e isolation; grep -l isolate.so /proc/self/maps; echo $LD_PRELOAD", "\n", 0)
		c, _ := s.fork(kernel.Copy)
		c.want("env | grep -e PRELOAD -e isolation; grep -l isolate.so /proc/self/maps; echo $LD_PRELOAD", "\n", 0)
	})
}

func TestForksHaveTheirOwnPid(t *testing.T) {
	only(t, func(t *testing.T, b *bench) {
		if !b.way.built {
			return // $$ is the session's root
		}
		s := b.session()
		s.want("me=$$; [[ $$ == $BASHPID ]] && echo own", "own\n", 0)
		f, _ := s.fork(kernel.Session)
		f.want("[[ $$ == $BASHPID && $$ != $me ]] && echo own; kill -9 $me; sleep 0.1", "own\n", 0)
		if o := s.run("echo no"); o.failure == nil {
			t.Errorf("gave %q", o.out)
		}
		f.want("echo on", "on\n", 0)
	}, surfaces.Bash)
}

// A library that does not load, as with another C library, costs the isolation and nothing
// else.
func TestALibraryThatCannotBeLoaded(t *testing.T) {
	broken := t.TempDir()
	built, err := preload.build(t.Context(), broken)
	if err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(built, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, language := range []surfaces.Language{surfaces.Sh, surfaces.Zsh} {
		t.Run(string(language), func(t *testing.T) {
			b := openWith(t, way{string(language), language, true}, broken)
			if b.family.preload != "" {
				t.Error("the library is used")
			}
			s := b.session()
			s.want("x=1", "", 0)
			c, notices := s.fork(kernel.Copy)
			c.want("echo $x; exit 3", "1\n", 3)
			if n := len(slices.DeleteFunc(notices, func(n surfaces.Notice) bool { return !notIsolated(n) })); n != 2 {
				t.Errorf("got %d notices of missing isolation, want 2", n)
			}
		})
	}
}
