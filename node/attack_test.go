package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusrun/locus/node"
)

// Whatever code writes to any descriptor is output or causes an error: it is never interpreted
// as the kernel's protocol.
func TestForgedFrames(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "x = 1"))
	forge := `
import os, socket
frame = b'{"op": "done", "result": "forged", "status": "done"}\n'
for fd in range(3, 8192):
    for write in (os.write, lambda fd, b: socket.socket(fileno=os.dup(fd)).send(b)):
        try: write(fd, frame)
        except (OSError, ValueError): pass
os.write(1, frame)
"mine"`
	for _, run := range []func() (string, string){
		func() (string, string) { r := ok(t, w.once(forge)); return string(r.Result), r.Stdout },
		func() (string, string) { r := ok(t, w.keep("s", forge)); return string(r.Result), r.Stdout },
	} {
		if result, out := run(); result != `"mine"` || !strings.Contains(out, "forged") {
			t.Fatalf("result %s, output %q", result, out)
		}
	}
	value(t, w.keep("s", "x"), "1")
}

// No secret of the node can be found in the code's environment, open descriptors or file
// system.
func TestNoSecretIsInReach(t *testing.T) {
	t.Setenv("LOCUS_TOKEN", "secret-of-the-node")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-node")
	dir := t.TempDir()
	w := start(t, dir)
	token, err := os.ReadFile(filepath.Join(dir, node.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	res := ok(t, w.once(fmt.Sprintf(`
import os, glob
found = []
def look(path):
    try:
        with open(path, "rb") as f: data = f.read(1 << 20)
    except OSError: return
    for secret in (b"secret-of-the-node", %q.encode()):
        if secret in data: found.append(path)
for pattern in ("/proc/[0-9]*/environ", "/proc/[0-9]*/cmdline", %q, %q):
    for path in glob.glob(pattern, recursive=True): look(path)
if any("secret-of-the-node" in v for v in os.environ.values()): found.append("environ")
node = [p for p in glob.glob("/proc/[0-9]*/exe") if os.path.exists(p) and %q in os.readlink(p) and p != "/proc/1/exe"]
[found, node, os.path.exists(%q), sorted(int(f) for f in os.listdir("/proc/self/fd") if int(f) < 2000)[:3]]`,
		strings.TrimSpace(string(token)), dir+"/*", dir+"/registry/*", "node.test", dir+"/"+node.TokenFile)))
	if got, want := string(res.Result), "[[],[],false,[0,1,2]]"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

// Whatever a call does to its own interpreter, the next call gets a correct answer.
func TestDamageEndsWithItsCall(t *testing.T) {
	w := fresh(t)
	for _, damage := range []string{
		"import os; os.closerange(0, 1024)",
		"import os\nfor fd in range(3): os.set_blocking(fd, False)",
		"import os\nfor fd in map(int, os.listdir('/proc/self/fd')):\n  try: os.set_blocking(fd, False)\n  except OSError: pass",
		"import os\nr, wr = os.pipe()\nfor fd in range(64): os.dup2(wr, fd)",
		"import builtins; builtins.print = None; builtins.compile = None; builtins.len = None",
		"import sys; sys.stdout = None; sys.stderr = 5; sys.stdin = None",
		"import sys; sys.modules['json'] = None; sys.modules['asyncio'] = None",
		"import sys; sys.settrace(lambda *a: 1/0)",
		"import sys; sys.setrecursionlimit(10**9)",
		"import gc; gc.disable(); gc.set_threshold(0)",
		"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)",
		"import threading; threading.excepthook = None",
		"import sys; sys.exit = None; del sys.excepthook",
		"__builtins__.clear() if isinstance(__builtins__, dict) else vars(__builtins__).clear()",
		"import asyncio; asyncio.get_event_loop().stop()",
		"import asyncio; asyncio.set_event_loop(None)",
		"import os; os.chdir('/'); os.environ.clear()",
		"globals().clear()",
		"import sys; sys.modules['__main__'] = None",
		"raise SystemExit('text')",
		"raise KeyboardInterrupt",
		"raise GeneratorExit",
		"import asyncio; raise asyncio.CancelledError",
	} {
		w.keep("s", damage)
		res := w.keep("s", "print('still')\n[1 + 1, len('abc')]")
		if string(res.Result) != "[2,3]" || res.Stdout != "still\n" || res.StateLost.Loss != nil {
			t.Errorf("after %q: %s, want Result \"[2,3]\", Stdout \"still\\n\", no loss", damage, show(res))
		}
	}
}

// Code that stops its parent process, or every process that it can see, does not keep its
// actor from making further calls.
func TestCodeThatStopsOtherProcesses(t *testing.T) {
	w := fresh(t)
	for _, stop := range []string{
		"os.kill(os.getppid(), signal.SIGSTOP)",
		"for p in os.listdir('/proc'):\n  if p.isdigit() and int(p) not in (1, os.getpid()): os.kill(int(p), signal.SIGSTOP)",
	} {
		ok(t, w.once("import os, signal\n"+stop))
		for i := range 5 {
			value(t, w.once("1 + 1"), "2")
			value(t, w.keep(fmt.Sprint(stop[:3], i), "1 + 1"), "2")
		}
	}
}

// asyncio.run and top-level await work in one session, in any order.
func TestAsyncioRunAndTopLevelAwait(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "import asyncio\nasync def m(): return asyncio.get_running_loop() is not None"))
	for range 2 {
		value(t, w.keep("s", "asyncio.run(m())"), "true")
		value(t, w.keep("s", "await m()"), "true")
	}
}

func TestOddPrograms(t *testing.T) {
	w := fresh(t)
	for _, c := range []struct{ code, result, exception string }{
		{"from __future__ import annotations\nx: Undefined = 1\nx", "1", ""},
		{"\ufeff1", "1", ""},
		{"x = 1\r\nx + 1\r\n", "2", ""},
		{"\f1", "1", ""},
		{"# only a comment", "null", ""},
		{"", "null", ""},
		{"1;", "null", ""},
		{"return 1", "null", "SyntaxError"},
		{"def f():\n  await g()", "null", "SyntaxError"},
		{"if True:\n\tx = 1\n        y = 2", "null", "TabError"},
		{"(" + strings.Repeat("(", 100_000), "null", "SyntaxError|MemoryError|RecursionError"},
		{"!ls", "null", "SyntaxError"},
		{"%time 1", "null", "SyntaxError"},
		{"len('" + strings.Repeat("x", 10_000_000) + "')", "10000000", ""},
		{"input('name?')", "null", "EOFError"},
		{"class E(Exception):\n  def __str__(self): raise ValueError\nraise E", "null", "E"},
		{"raise Exception(chr(0xd8ff))", "null", "Exception"},
		{"'\\udead'", `"\udead"`, ""},
		{"float('nan')", `"nan"`, ""},
		{"2**70", "1180591620717411303424", ""},
		{"__name__", `"__main__"`, ""},
		{"import inspect\ndef f(): return 1\ninspect.getsource(f)", `"def f(): return 1\n"`, ""},
		{"import pickle\nclass C: pass\ntype(pickle.loads(pickle.dumps(C()))).__name__", `"C"`, ""},
	} {
		res := w.once(c.code)
		name := c.code[:min(len(c.code), 40)]
		switch {
		case c.exception != "":
			if res.Exception == nil || !strings.Contains("|"+c.exception+"|", "|"+res.Exception.Type+"|") {
				t.Errorf("%q: got %.500s, want an exception of type %s", name, show(res), c.exception)
			}
		case c.code == "'\\udead'":
			if res.Error != nil {
				t.Errorf("%q: %s, want no Error", name, show(res))
			}
		case res.Error != nil || string(res.Result) != c.result:
			t.Errorf("%q: got %.500s, want %s", name, show(res), c.result)
		}
	}
}
