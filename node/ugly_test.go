package node_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// More ways in which code executors have failed people.

func TestMultiprocessingWorksInASession(t *testing.T) {
	w := fresh(t)
	for _, method := range []string{"fork", "spawn"} {
		value(t, w.keep("s", fmt.Sprintf("import multiprocessing as mp\nwith mp.get_context(%q).Pool(2) as pool: r = pool.map(abs, [1, -2])\nr", method)), "[1,2]")
	}
	value(t, w.keep("s", "from concurrent.futures import ThreadPoolExecutor as T\nwith T(4) as t: r = list(t.map(str, range(3)))\nr"), `["0","1","2"]`)
}

// A thread that prints without pause holds the output's lock most of the time.
func TestCopiesOfASessionThatPrints(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", `
import threading, logging, socket, asyncio
x = 1
def chatter():
    while True: print("x" * 100); logging.warning("y")
threading.Thread(target=chatter, daemon=True, name="chatter").start()
a, b = socket.socketpair()
async def forever():
    while True: await asyncio.sleep(0.01)
task = asyncio.ensure_future(forever())
await asyncio.sleep(0)`))
	for range 10 {
		res := w.read("s", "import logging; print('copy'); logging.warning('still'); [x, task.done()]")
		value(t, res, "[1,false]")
		if res.Stdout != "copy\n" {
			t.Fatalf("the copy printed %.200q", res.Stdout)
		}
		told := ""
		for _, n := range res.Notice {
			told += n.Text + "\n"
		}
		if !strings.Contains(told, "chatter") {
			t.Fatalf("the thread that stayed behind is not named in %q", told)
		}
	}
	// What the copy reads from a shared socket would be lost to the session.
	res := w.read("s", "b.send(b'stolen')")
	if res.Error == nil {
		t.Fatal("a copy could write to the session's socket: " + show(res))
	}
	value(t, w.keep("s", "b.send(b'ours'); a.recv(100).decode()"), `"ours"`)
}

func TestCopiesHaveDifferentRandomNumbers(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "import random, uuid, secrets, os; random.seed(1)"))
	for _, draw := range []string{"random.random()", "uuid.uuid4().hex", "secrets.token_hex()", "os.urandom(8).hex()"} {
		one, two := ok(t, w.read("s", draw)), ok(t, w.read("s", draw))
		if string(one.Result) == string(two.Result) {
			t.Errorf("%s gave %s twice", draw, one.Result)
		}
	}
	seen := map[string]bool{}
	for range 4 {
		seen[string(ok(t, w.once("import random; random.random()")).Result)] = true
	}
	if len(seen) != 4 {
		t.Fatalf("fresh processes drew the same numbers: %v", seen)
	}
}

func TestValuesThatAreHardToSerialise(t *testing.T) {
	w := fresh(t)
	for _, code := range []string{
		"d = {}\nfor _ in range(100_000): d = {'d': d}\nd",
		"[0] * 10**7",
		"class Bad:\n  def __repr__(self): raise ValueError('no')\nBad()",
		"class Evil:\n  def __reduce__(self): return (__import__('os')._exit, (1,))\nEvil()",
		"class H:\n  def _repr_html_(self): raise ValueError\nH()",
		"class G:\n  def __getattr__(self, n): raise RuntimeError(n)\nG()",
		"{float('nan'): float('inf'), 'b': b'\\x00\\xff', (1, 2): {3}}",
		"class Q:\n  __eq__ = __hash__ = lambda *a: 1/0\nQ()",
	} {
		res := w.once(code)
		if res.Error != nil || len(res.Result) == 0 || len(res.Result) > 1<<21 {
			t.Errorf("%.60q: %.400s", code, show(res))
		}
	}
	res := code(t, w.exec(args{"code": "class Slow:\n  def __repr__(self):\n    while True: pass\nSlow()", "timeout_s": 1}), surfaces.CodeTimeout)
	if res.StateLost.Loss != nil {
		t.Fatalf("got %s, want no loss", show(res))
	}
	value(t, w.once("class H:\n  def _repr_html_(self): return '<b>x</b>'\nH()\n1"), "1")
	res = ok(t, w.once("class H:\n  def _repr_html_(self): return '<b>x</b>'\nH()"))
	if len(res.Display) != 1 || res.Display[0] != (surfaces.Display{MIME: "text/html", Data: "<b>x</b>"}) {
		t.Fatal(show(res))
	}
}

func TestDeepRecursion(t *testing.T) {
	w := fresh(t)
	res := code(t, w.once("f = lambda: f()\nf()"), surfaces.CodeException)
	if res.Exception.Type != "RecursionError" {
		t.Fatalf("got %s, want Exception.Type \"RecursionError\"", show(res))
	}
	// Past the stack's end it is a crash, or an exception where Python can tell;
	// never a fault of ours, and told either way. Each level is one of C's too: calls of
	// Python functions alone take memory instead, gigabytes of it, and minutes.
	ok(t, w.keep("s", "x = 1"))
	res = w.exec(args{
		"code":       "import sys; sys.setrecursionlimit(10**7)\nclass R:\n  def __repr__(self): return repr(self)\nrepr(R())",
		"state_mode": "stateful", "session_name": "s", "on_loss": "report",
	})
	if res.Error == nil || *res.Code != surfaces.CodeSegfault && *res.Code != surfaces.CodeException {
		t.Fatal(show(res))
	}
	if (*res.Code == surfaces.CodeSegfault) != (res.StateLost.Loss != nil) {
		t.Fatal(show(res))
	}
}

func TestTracebacksShowOnlyTheProgram(t *testing.T) {
	w := fresh(t)
	res := code(t, w.once("def f():\n    1/0\n\ntry:\n    f()\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e\n"), surfaces.CodeException)
	e := res.Exception
	if e.Type != "ValueError" || e.Message != "outer" || e.Line != 7 {
		t.Fatalf("got %+v, want Type \"ValueError\", Message \"outer\", Line 7", e)
	}
	for _, want := range []string{"ZeroDivisionError", "line 2, in f", "1/0", "line 7"} {
		if !strings.Contains(e.Traceback, want) {
			t.Errorf("%q is missing in\n%s", want, e.Traceback)
		}
	}
	if strings.Contains(e.Traceback, "worker") || strings.Contains(e.Traceback, "zygote") {
		t.Errorf("frames of ours in\n%s", e.Traceback)
	}
	res = code(t, w.once("x = (1 +\n  2\ny = 3"), surfaces.CodeException)
	if res.Exception.Type != "SyntaxError" || res.Exception.Line != 1 {
		t.Fatalf("got %+v, want Exception.Type \"SyntaxError\", Exception.Line 1", res.Exception)
	}
}

func TestLanguageFeatures(t *testing.T) {
	w := fresh(t)
	value(t, w.once(`
from dataclasses import dataclass
from enum import Enum
import functools
class Color(Enum):
    RED = 1
class Meta(type):
    def __new__(m, n, b, d): return super().__new__(m, n, b, d | {"tag": n.lower()})
@dataclass
class P(metaclass=Meta):
    x: int
    color: Color = Color.RED
@functools.cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def squares(n):
    for i in range(n): yield i * i
if (n := len(list(squares(5)))) == 5: p = P(n)
total = sum(i for i in range(10))
[p.x, p.tag, p.color.name, fib(50), total, [a for a in squares(4)]]`), `[5,"p","RED",12586269025,45,[0,1,4,9]]`)
}

func TestTwoClientsShareASession(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "n = 0"))
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 10 {
				if res := w.keep("s", "n += 1"); res.Error != nil {
					t.Errorf("got %s, want no Error", show(res))
				}
			}
		})
	}
	all.Wait()
	value(t, w.keep("s", "n"), "20")
}

func TestStandardInput(t *testing.T) {
	w := fresh(t)
	value(t, w.exec(args{"code": "[input(), input('name? ')]", "stdin": "one\ntwo\n"}), `["one","two"]`)
	value(t, w.exec(args{"code": "import sys, hashlib; hashlib.sha256(sys.stdin.buffer.read()).hexdigest()", "stdin": strings.Repeat("é", 5<<20)}),
		`"c5e9ff9be67181856ea88cf56f8e58bf8a03b5611db96312d5b4cdb982a8de08"`)
	value(t, w.keep("s", "1"), "1")
	res := code(t, w.keep("s", "input('name?')\nprint('not swallowed')"), surfaces.CodeException)
	if res.Exception.Type != "EOFError" {
		t.Fatalf("got %s, want Exception.Type \"EOFError\"", show(res))
	}
	value(t, w.keep("s", "2"), "2")
}

// Neither a call that starts as many processes as it can, nor one that keeps every core busy,
// stops the node or blocks other callers for ever.
func TestAForkBombIsBounded(t *testing.T) {
	w := start(t, t.TempDir(), func(c *node.Config) { c.Limits = sandbox.Limits{Memory: 512 << 20, Processes: 64} })
	value(t, w.once("1"), "1")
	if !w.enforces("user_namespace") {
		t.Skip("this machine cannot bound processes for sure")
	}
	spin := w.exec(args{"code": "import os\nfor _ in range(8):\n  if os.fork() == 0: break\nwhile True: pass", "background": true, "timeout_s": 600})
	bomb := "import os, signal\nn = 0\nwhile True:\n  try:\n    if os.fork() == 0: signal.pause()\n    n += 1\n  except BlockingIOError: break\n0 < n < 64"
	value(t, w.exec(args{"code": bomb, "timeout_s": 100}), "true")
	var health map[string]any
	if status := w.get("/healthz", &health); status != 200 {
		t.Fatalf("status %d, want 200: %v", status, health)
	}
	value(t, w.keep("other", "2"), "2")
	w.steer(t, spin.CallID, "stop", nil)
	code(t, w.ended(t, spin.CallID), surfaces.CodeStopped)
	value(t, w.once("3"), "3")
}

func TestShortCallsLoseNoOutput(t *testing.T) {
	w := fresh(t)
	rounds := 500
	if testing.Short() {
		rounds = 50
	}
	for i := range rounds {
		stdout(t, w.keep("s", fmt.Sprintf("print(%d)", i)), fmt.Sprintf("%d\n", i))
	}
}
