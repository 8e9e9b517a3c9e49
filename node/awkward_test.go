package node_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// Sessions in a state that nobody wants, and which code brings about all the same.

func TestReadOnlyInARemovedDirectory(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "import os\nos.makedirs('gone'); os.chdir('gone'); os.rmdir('../gone')\nx = 1"))
	value(t, w.read("s", "x"), "1")
	code(t, w.read("s", "open('f', 'w')"), surfaces.CodeException)
	value(t, w.keep("s", "x"), "1")
}

// If a session has lowered its limit of open files, the limit is raised to what the call
// itself needs.
func TestASessionWithoutDescriptors(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\nx = 1"))
	res := w.read("s", "x")
	if res.Code != nil && *res.Code == surfaces.CodeInvalidArgument && strings.Contains(*res.Error, "files open") {
		t.Skip(*res.Error) // the node may not raise the limit
	}
	value(t, res, "1")
	res = w.keep("s", "x + "+strings.Repeat(" ", 20_000)+"1")
	value(t, res, "2")
	if res.StateLost.Loss != nil {
		t.Errorf("got %s, want no loss", show(res))
	}
	for _, language := range []string{"bash", "zsh"} {
		t.Run(language, func(t *testing.T) {
			w.needs(t, language)
			ok(t, w.keepShell(language, "low", "x=1; ulimit -n 3"))
			res := ok(t, w.exec(args{"language": language, "state_mode": "read_only", "session_name": "low", "code": "echo $x"}))
			if res.Stdout != "1\n" {
				t.Errorf("got %s, want Stdout \"1\\n\"", show(res))
			}
			if res = ok(t, w.keepShell(language, "low", "echo alive $x")); res.Stdout != "alive 1\n" {
				t.Errorf("got %s, want Stdout \"alive 1\\n\"", show(res))
			}
		})
	}
	// sh opens a file for each request, and so ends; it must not continue without a result.
	t.Run("sh", func(t *testing.T) {
		w.needs(t, "sh")
		res := code(t, w.keepShell("sh", "low", "ulimit -n 3"), surfaces.CodeKilled)
		if res.StateLost.Loss == nil {
			t.Errorf("got %s, want a loss", show(res))
		}
	})
}

// A session that has reached its limit of open files can be read without losing anything, and
// an error says so if even the kernel cannot open one more. It can close some of them: the end
// of a copy is not mistaken for a process that the session's next call left behind, which
// would need another output.
func TestASessionWithAllFilesOpen(t *testing.T) {
	w := fresh(t)
	const openAll = `
import os
held = []
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
`
	ok(t, w.keep("s", openAll))
	value(t, w.read("s", "len(held) > 100"), "true")
	value(t, w.exec(args{"code": "len(held) > 100", "state_mode": "stateful", "session_name": "s", "atomic": true}), "true")
	value(t, w.exec(args{"code": "input()", "stdin": "x", "state_mode": "stateful", "session_name": "s"}), `"x"`)

	ok(t, w.keep("s", "import resource\nhard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\nresource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\n"+strings.ReplaceAll(openAll, "held = []", "")))
	for name, a := range map[string]args{"read": {"state_mode": "read_only"}, "stdin": {"state_mode": "stateful", "stdin": "x"}, "atomic": {"state_mode": "stateful", "atomic": true}} {
		// A node that may raise hard limits does, and none is refused.
		res := w.exec(a.with(args{"code": "1", "session_name": "s"}))
		if refused := res.Code != nil && *res.Code == surfaces.CodeInvalidArgument && strings.Contains(*res.Error, "files open"); !refused && res.Status != surfaces.StatusDone {
			t.Errorf("%s: %s", name, show(res))
		}
	}
	value(t, w.keep("s", "for fd in held: os.close(fd)\nlen(held) > 100"), "true")
	value(t, w.read("s", "len(held) > 100"), "true")
}

// The resources of a copy, and its end, are not attributed to the session's next call: they do
// not count in its usage, and do not look like a process that it left behind.
func TestACopyIsNotChargedToTheNextCall(t *testing.T) {
	w := fresh(t)
	output := ok(t, w.keep("s", "import os, time\nos.fstat(1).st_ino")).Result
	const burn = "began = time.process_time()\nwhile time.process_time() - began < 0.5: pass"
	for range 5 {
		for name, a := range map[string]args{"read": {"state_mode": "read_only"}, "atomic": {"state_mode": "stateful", "atomic": true}} {
			ok(t, w.exec(a.with(args{"code": burn, "session_name": "s"})))
			next := ok(t, w.keep("s", "os.fstat(1).st_ino"))
			if string(next.Result) != string(output) || next.Usage.CPUMS > 250 {
				t.Errorf("after %s: output %s, was %s; charged for %v ms", name, next.Result, output, next.Usage.CPUMS)
			}
		}
	}
}

// An object that ends its process when it is inspected ends only the process that inspects the
// session.
func TestReprsThatExit(t *testing.T) {
	w := fresh(t)
	inspect := func(detail string) (found surfaces.Result, names string) {
		var out struct {
			surfaces.Result
			State struct{ Variables []struct{ Name string } }
		}
		w.post("/v1/tools/inspect_state", args{"session_name": "s", "detail": detail}, &out)
		for _, v := range out.State.Variables {
			names += v.Name
		}
		return out.Result, names
	}
	for _, method := range []string{"__repr__", "__sizeof__", "__getattribute__"} {
		ok(t, w.keep("s", "import os\nclass A: pass\nA."+method+" = lambda *_: os._exit(3)\na = A(); b = 1"))
		if _, names := inspect("names"); names != "ab" {
			t.Errorf("%s: names are %q", method, names)
		}
	}
	ok(t, w.keep("s", "A.__repr__ = lambda *_: os._exit(3)"))
	if res, _ := inspect("full"); res.Code == nil || *res.Code != surfaces.CodeKilled || !strings.Contains(*res.Suggestion, "names") {
		t.Errorf("got %s, want Code %v, Suggestion with \"names\"", show(res), surfaces.CodeKilled)
	}
	value(t, w.keep("s", "b"), "1")
}

// An exception that a repr raises, of whatever type, is reported for that object alone.
func TestReprsThatRaise(t *testing.T) {
	w := fresh(t)
	for _, code := range []string{
		"class A:\n  def __repr__(self): raise SystemExit(3)\na = A()",
		"class A:\n  def __repr__(self): raise KeyboardInterrupt\na = [A()]",
		"class M(type):\n  def __getattribute__(self, name): raise SystemExit\nclass A(metaclass=M): pass\na = 1",
		"class A:\n  def __repr__(self): 1 / 0\ndef a(x=A()): pass",
		"import time\nclass A:\n  def __repr__(self): time.sleep(60)\na = [A()]\ndef f(x=A()): pass",
	} {
		ok(t, w.keep("s", code))
		for _, detail := range []string{"summary", "full"} {
			var out struct {
				surfaces.Result
				State struct {
					Variables, Functions []struct{ Name, Summary string }
				}
			}
			status := w.post("/v1/tools/inspect_state", args{"session_name": "s", "detail": detail}, &out)
			found := append(out.State.Variables, out.State.Functions...)
			if i := slices.IndexFunc(found, func(v struct{ Name, Summary string }) bool { return v.Name == "a" && v.Summary != "" }); status != 200 || i < 0 {
				t.Errorf("%s: %s: status %d, want 200, %+v, %s", code, detail, status, found, show(out.Result))
			}
		}
	}
}

// An object is returned in each of its representations.
func TestEveryRepresentationIsReturned(t *testing.T) {
	w := fresh(t)
	for method, row := range map[string]struct{ value, mime string }{
		"_repr_html_": {"'x'", "text/html"}, "_repr_markdown_": {"'x'", "text/markdown"}, "_repr_svg_": {"'x'", "image/svg+xml"}, "_repr_png_": {"b'x'", "image/png"},
		"_repr_jpeg_": {"b'x'", "image/jpeg"}, "_repr_latex_": {"'x'", "text/latex"}, "_repr_json_": {"{'x': 1}", "application/json"},
		"_repr_javascript_": {"'x'", "application/javascript"}, "_repr_pdf_": {"b'x'", "application/pdf"},
	} {
		res := ok(t, w.once("class A:\n  def "+method+"(self): return "+row.value+"\nA()"))
		if len(res.Display) != 1 || res.Display[0].MIME != row.mime {
			t.Errorf("%s: %+v, want 1 Display, Display[0].MIME %v", method, res.Display, row.mime)
		}
	}
}

func TestATruncatedResultSaysSo(t *testing.T) {
	w := fresh(t)
	shortened := func(res surfaces.Result) bool {
		return slices.ContainsFunc(ok(t, res).Notice, func(n surfaces.Notice) bool { return n.Kind == "result_shortened" })
	}
	for _, long := range []string{"'a' * 10_000_000", "list(range(3_000_000))", "{1: 'a' * 100_000}", "object.__new__(type('A', (), {'__repr__': lambda s: 'a' * 100_000}))"} {
		if !shortened(w.once(long)) {
			t.Errorf("%s: no notice", long)
		}
	}
	for _, whole := range []string{"'a' * 1_000_000", "list(range(100_000))", "{1: 2}", "object()"} {
		if shortened(w.once(whole)) {
			t.Errorf("%s: a notice", whole)
		}
	}
}

// A grandchild of a kernel is no more a kernel than a child is.
func TestForksOfForks(t *testing.T) {
	w := fresh(t)
	res := ok(t, w.keep("s", "import os\nfor _ in range(3): os.fork()\n"))
	if res.Stderr != "" {
		t.Errorf("got %s, want Stderr empty", show(res))
	}
}

// Output of one call is never returned by another.
func TestOutputToClosedDescriptors(t *testing.T) {
	w := fresh(t)
	for _, closing := range []string{"os.close(1)", "os.closerange(0, 1024)"} {
		code(t, w.keep("s", "import os\n"+closing+"\nprint('first')"), surfaces.CodeException)
		if res := ok(t, w.keep("s", "print('second')")); res.Stdout != "second\n" {
			t.Error(closing, show(res))
		}
	}
}

// The commands that a shell kernel runs for itself do not appear in a call's output or
// notices.
func TestShellInternalsAreHidden(t *testing.T) {
	w := fresh(t)
	for _, language := range w.languages(t) {
		if language == "python" {
			continue
		}
		t.Run(language, func(t *testing.T) {
			at := args{"language": language, "session_name": language}
			jobs := func(res surfaces.Result) bool {
				return slices.ContainsFunc(ok(t, res).Notice, func(n surfaces.Notice) bool { return n.Kind == "jobs" })
			}
			ok(t, w.keepShell(language, language, "x=1"))
			for range 2 {
				if res := ok(t, w.exec(at.with(args{"state_mode": "stateful", "atomic": true, "code": "x=2; echo $x"}))); res.Stderr != "" || res.Stdout != "2\n" {
					t.Errorf("got %s, want Stderr empty, Stdout \"2\\n\"", show(res))
				}
				if res := w.exec(at.with(args{"state_mode": "read_only", "code": "echo $x"})); jobs(res) || res.Stderr != "" {
					t.Error(show(res))
				}
			}
			if res := ok(t, w.keepShell(language, language, "echo $x; sleep 300 & echo $x >&2")); res.Stderr != "2\n" {
				t.Errorf("got %s, want Stderr \"2\\n\"", show(res))
			}
			if res := w.exec(at.with(args{"state_mode": "read_only", "code": "echo $x"})); !jobs(res) {
				t.Error(show(res))
			}
		})
	}
}

func TestShellTracesHaveOnePlus(t *testing.T) {
	w := fresh(t)
	w.needs(t, "bash")
	for range 2 {
		if res := ok(t, w.keepShell("bash", "s", "set -x; echo a")); !strings.Contains("\n"+res.Stderr, "\n+ echo a\n") {
			t.Error(show(res))
		}
	}
}

// A session may assign to the name functions. Deleting its own value restores the host's.
func TestASessionCanShadowFunctions(t *testing.T) {
	w := fresh(t)
	value(t, w.keep("s", "functions = 5; functions"), "5")
	value(t, w.keep("s", "del functions; callable(functions.anything)"), "true")
}

// A copy's changes to a file next to the node's data directory, which no overlay can cover,
// stay private to the copy.
func TestReadOnlyBesideTheData(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "locus-test") // copies may write there, whatever TMPDIR is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	w := start(t, dir)
	if !w.enforces("views") {
		t.Skip("this machine gives copies no view of their own")
	}
	file := dir + ".beside"
	if err := os.WriteFile(file, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(file) })
	unchanged := func() {
		t.Helper()
		if text, err := os.ReadFile(file); err != nil || string(text) != "old\n" {
			t.Errorf("the file is %q, %v", text, err)
		}
	}
	ok(t, w.keep("s", "import os\npath = '"+file+"'"))
	value(t, w.read("s", "open(path, 'a').write('new'); os.rename(path, path + '2'); t = open(path + '2').read(); os.remove(path + '2'); t"), `"old\nnew"`)
	unchanged()
	w.needs(t, "bash")
	ok(t, w.keepShell("bash", "b", "f="+file+"; exec 5>>$f"))
	res := w.exec(args{"language": "bash", "state_mode": "read_only", "session_name": "b", "code": "echo new >&5; cat $f; rm $f"})
	w.isolates(t, res)
	if ok(t, res).Stdout != "old\nnew\n" || res.Stderr != "" {
		t.Error(show(res))
	}
	unchanged()
}
