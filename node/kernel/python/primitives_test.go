package python_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/kernel"
)

func TestPrimitivesAreAwaitedOrBlocking(t *testing.T) {
	house := newHouse(t)
	for _, kind := range []kernel.Kind{kernel.Session, kernel.OneShot} {
		for code, want := range map[string]string{
			"await primitives.ns.fn(a=1, b=[None, 'é'])":                                          `{"a":1,"b":[null,"\u00e9"]}`,
			"primitives.ns.fn.sync(a=1)":                                                          `{"a":1}`,
			"primitives.ns.fn.sync()":                                                             `{}`,
			"def f():\n    return primitives.ns.fn.sync(self=2)\nf()":                             `{"self":2}`,
			"async def f():\n    return primitives.ns.fn.sync(a=2)\nawait f()":                    `{"a":2}`,
			"import asyncio\nasync def f(): return await primitives.ns.fn(a=3)\nasyncio.run(f())": `{"a":3}`,
			"import asyncio, threading\nout = []\nasync def f(): out.append(await primitives.ns.fn(a=4))\nt = threading.Thread(target=lambda: asyncio.run(f()))\nt.start(); t.join(); out[0]": `{"a":4}`,
			"import asyncio\nawait asyncio.to_thread(primitives.ns.fn.sync, a=5)": `{"a":5}`,
			"from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(8) as pool: got = list(pool.map(lambda i: primitives.ns.fn.sync(i=i)['i'], range(50)))\ngot == list(range(50))": "true",
			"f = primitives.ns.fn\nawait f(a=6)":                                      `{"a":6}`,
			"await primitives.ns.fn(a=(1, 2))":                                        `{"a":[1,2]}`,
			"x = 'x' * 100_000\nlen((await primitives.ns.fn(x=x))['x'])":              "100000",
			"x = 'x' * 10_000_000\nlen(primitives.ns.fn.sync(x=x)['x'])":              "10000000",
			"import asyncio\nt = asyncio.create_task(primitives.ns.fn(a=7))\nawait t": `{"a":7}`,
		} {
			s := house.start(kind)
			newHost(t, s).expect(s, code, want)
			s.Kill()
		}
	}
}

func TestPrimitivesAreAskedInOrderAndLazily(t *testing.T) {
	s := newHouse(t).session()
	h := newHost(t, s)
	h.expect(s, "import asyncio\nlazy = primitives.a.never()\nlazy.close()\nlen(await asyncio.gather(*[primitives.a.f(i=i) for i in range(3)], primitives.b.g()))", "4")
	want := []string{`1 a.f {"i":0}`, `2 a.f {"i":1}`, `3 a.f {"i":2}`, `4 b.g {}`}
	if got := h.names(); !slices.Equal(got, want) {
		t.Fatal(got)
	}
	h.expect(s, "await primitives.a.f()", "{}")
	if got := h.names(); got[len(got)-1] != "1 a.f {}" {
		t.Fatal("the numbers of a call begin at 1", got)
	}
	if o := h.run(s, "primitives.a.f()\n1"); !strings.Contains(o.stderr(), "coroutine 'primitives.a.f' was never awaited") {
		t.Fatal(o.stderr())
	}
}

func TestAThousandPrimitivesAtOnceLoseNone(t *testing.T) {
	s := newHouse(t).session()
	h := newHost(t, s)
	h.expect(s, "import asyncio\n[r['i'] for r in await asyncio.gather(*[primitives.ns.fn(i=i, pad='x' * (i % 9 * 1500)) for i in range(1000)])] == list(range(1000))", "true")
	// Answers wait while the program reads none: they are more than the socket holds.
	h.expect(s, "tasks = [asyncio.create_task(primitives.ns.fn(i=i)) for i in range(1000)]\nawait asyncio.sleep(0)\nprimitives.ns.fn.sync()\nimport time; time.sleep(0.2)\n[(await t)['i'] for t in tasks] == list(range(1000))", "true")
	h.expect(s, "import threading\nout = []\nthreads = [threading.Thread(target=lambda i=i: out.append(primitives.ns.fn.sync(i=i)['i'])) for i in range(100)]\n[t.start() for t in threads]\n[t.join() for t in threads]\nsorted(out) == list(range(100))", "true")
}

func TestAnswersOnTheProgramsOwnGoroutine(t *testing.T) {
	// A node may answer before it reads on: nothing may wait for the program then.
	s := newHouse(t).session()
	o := s.program(kernel.Program{
		Code: "import asyncio\nlen(await asyncio.gather(*[primitives.ns.fn(i=i) for i in range(3000)]))",
		Events: func(e kernel.Event) {
			if err := s.Tell(kernel.Message{Kind: kernel.MessagePrimitive, ID: e.ID, Data: json.RawMessage(`{"result":1}`)}); err != nil {
				t.Error(err)
			}
		},
	})
	if o.result() != "3000" {
		t.Fatal(o.result(), o.exception().Traceback)
	}
}

func TestWaitForAPrimitiveBlocksNothingElse(t *testing.T) {
	s := newHouse(t).session()
	h := newHost(t, s)
	// The slow one is answered when the other has gone on.
	release := make(chan struct{})
	h.answer = func(e kernel.Event) any {
		switch e.Name {
		case "ns.slow":
			h.work.Go(func() {
				<-release
				if err := s.Tell(kernel.Message{Kind: kernel.MessagePrimitive, ID: e.ID, Data: json.RawMessage(`{"result":"slow"}`)}); err != nil {
					t.Error(err)
				}
			})
			return nil
		case "ns.go":
			close(release)
		case "ns.never":
			return nil
		}
		return result(1)
	}
	for _, other := range []string{
		"await asyncio.to_thread(time.sleep, 0.05)",
		"await asyncio.sleep(0.05)",
		"await asyncio.to_thread(primitives.ns.fn.sync)",
		"await (await asyncio.create_subprocess_exec('true')).wait()",
		"await asyncio.get_running_loop().sock_recv(reader, 1)",
		"await primitives.ns.fn()",
	} {
		release = make(chan struct{})
		h.expect(s, `
import asyncio, socket, threading, time
async def other():
    `+other+`
    await primitives.ns.go()
reader, writer = socket.socketpair()
reader.setblocking(False)
threading.Timer(0.05, writer.send, [b'x']).start()
(await asyncio.gather(other(), primitives.ns.slow()))[1]`, `"slow"`)
	}
	for _, code := range []string{
		"try: await asyncio.wait_for(primitives.ns.never(), 0.05)\nexcept asyncio.TimeoutError: seen = 'timeout'\nseen",
		"t = asyncio.create_task(primitives.ns.never())\nawait asyncio.sleep(0.05)\nt.cancel()\ntry: await t\nexcept asyncio.CancelledError: seen = 'timeout'\nseen",
		"loop = asyncio.get_running_loop()\nt = asyncio.current_task()\nthreading.Timer(0.05, lambda: loop.call_soon_threadsafe(t.cancel)).start()\ntry: await primitives.ns.never()\nexcept asyncio.CancelledError: seen = 'timeout'\nseen",
	} {
		h.expect(s, code, `"timeout"`)
	}
}

func TestPrimitiveErrors(t *testing.T) {
	s := newHouse(t).session()
	h := newHost(t, s)
	h.answer = func(e kernel.Event) any { return failure("read_only", "only functions that change nothing") }
	for _, call := range []string{"await primitives.ns.fn()", "primitives.ns.fn.sync()"} {
		o := h.run(s, "x = 1\n"+call)
		e := o.exception()
		if e.Type != "PrimitiveError" || e.Message != "only functions that change nothing" || e.Line != 2 || strings.Contains(e.Traceback, "<locus>") {
			t.Errorf("got %+v, want Type \"PrimitiveError\", Message \"only functions that change nothing\", Line 2, Traceback without \"<locus>\"", e)
		}
	}
	h.expect(s, "try:\n    await primitives.ns.fn()\nexcept PrimitiveError as e:\n    seen = [e.type, e.name, str(e)]\nseen", `["read_only","ns.fn","only functions that change nothing"]`)
	for code, part := range map[string]string{
		"primitives.ns.fn(1)":                     "primitives.ns.fn takes named arguments only",
		"primitives.ns.fn(good=1, bad={1, 2})":    "the argument bad is not JSON data: Object of type set",
		"primitives.ns.fn(bad=float('nan'))":      "the argument bad is not JSON data",
		"primitives.ns.fn.sync(bad=object)":       "the argument bad is not JSON data",
		"primitives.ns.fn(x='x' * (17 << 20))":    "over the limit of 16777216",
		"primitives.ns()":                         "primitives.ns is a namespace",
		"primitives()":                            "not callable",
		"primitives.ns.fn = 1":                    "cannot be set",
		"primitives.ns.fn.more":                   "primitives.ns.fn is a function",
		"import pickle; pickle.dumps(primitives)": "cannot be pickled",
		"getattr(primitives, 'no name')":          "no attribute",
		"x = primitives\nx += 1":                  "unsupported operand",
	} {
		o := h.run(s, code)
		if e := o.exception(); !strings.Contains(e.Message, part) {
			t.Errorf("%q: %s: %s, want Message with %v", code, e.Type, e.Message, part)
		}
	}
}

func TestAuthorityEndsWithTheCall(t *testing.T) {
	s := newHouse(t).session()
	h := newHost(t, s)
	const leave = `
import asyncio, threading, time
seen = {}
go = threading.Event()
def call(name, f):
    try: seen[name] = f()
    except PrimitiveError as e: seen[name] = e.type
def thread():
    go.wait()
    call('thread', primitives.ns.fn.sync)
threading.Thread(target=thread).start()
async def task():
    while not go.is_set(): await asyncio.sleep(0.01)
    try: seen['task'] = await primitives.ns.fn()
    except PrimitiveError as e: seen['task'] = e.type
    call('task sync', primitives.ns.fn.sync)
    seen['doc'] = primitives.ns.fn.__doc__
keep = asyncio.create_task(task())
def waiting(): call('waiting thread', primitives.ns.never.sync)
async def waiting_task():
    try: await primitives.ns.never()
    except PrimitiveError as e: seen['waiting task'] = e.type
threading.Thread(target=waiting).start()
keep2 = asyncio.create_task(waiting_task())
await asyncio.sleep(0)
await primitives.ns.fn()`
	h.answer = func(e kernel.Event) any {
		if e.Name == "ns.never" {
			return nil
		}
		return result(1)
	}
	h.expect(s, leave, "1")
	before := len(h.names())
	eventually(t, "what waits for an answer is woken at the end", func() bool {
		return s.must("sorted(k for k, v in seen.items() if v == 'ended')").result() == `["waiting task","waiting thread"]`
	})
	// They go on during a later call, and must not use what that one may.
	h.expect(s, "go.set()\nwhile len(seen) < 6:\n    await primitives.ns.fn()\n    await asyncio.sleep(0.01)\n[seen[k] for k in ('thread', 'task', 'task sync')]", `["ended","ended","ended"]`)
	if got := s.must("seen['doc']").result(); !strings.Contains(got, "earlier call") {
		t.Error(got)
	}
	for _, name := range h.names()[before:] {
		if !strings.Contains(name, "ns.fn") {
			t.Error(name)
		}
	}
}

func TestAnswerForAnEarlierCallIsDropped(t *testing.T) {
	s := newHouse(t).session()
	h := newHost(t, s)
	h.answer = func(kernel.Event) any { return nil }
	h.run(s, "import asyncio\nt = asyncio.create_task(primitives.ns.slow())\nawait asyncio.sleep(0.05)")
	h.answer = func(e kernel.Event) any {
		late := kernel.Message{Kind: kernel.MessagePrimitive, ID: e.ID, Number: 1, Data: json.RawMessage(`{"result":"late"}`)}
		if err := s.Tell(late); err != nil {
			t.Error(err)
		}
		return result("mine")
	}
	h.expect(s, "await primitives.ns.quick()", `"mine"`)
}

func TestAnImageHasItsBytesAlsoInOtherProcesses(t *testing.T) {
	s := newHouse(t).session()
	h := newHost(t, s)
	h.answer = func(kernel.Event) any {
		return result(map[string]any{"type": "image", "mimeType": "image/png", "bytes": 4, "data": "iVBORw=="})
	}
	h.expect(s, "shot = await primitives.ns.shot()\nshot", `{"bytes":4,"mimeType":"image/png","type":"image"}`)
	h.expect(s, "import pickle\nlist(pickle.loads(pickle.dumps(shot)).data)", `[137,80,78,71]`)
	h.expect(s, "import copy, multiprocessing\nwith multiprocessing.get_context('fork').Pool(1) as pool: there = pool.map(copy.copy, [shot])\nlist(there[0].data)", `[137,80,78,71]`)
	c, _ := s.fork(kernel.Copy)
	newHost(t, c).expect(c, "list(shot.data)", `[137,80,78,71]`)
}

func TestAnInterruptEndsAWaitForAPrimitive(t *testing.T) {
	s := newHouse(t).session()
	for _, code := range []string{"await primitives.ns.never()", "primitives.ns.never.sync()", "async def f(): primitives.ns.never.sync()\nawait f()", "import threading\nt = threading.Thread(target=primitives.ns.never.sync); t.start(); t.join()"} {
		o := s.program(kernel.Program{Code: code, Events: func(e kernel.Event) {
			if e.Kind == kernel.EventPrimitive {
				go func() { _ = s.interrupt() }()
			}
		}})
		if !o.Interrupted {
			t.Errorf("%q: %+v, exception %+v", code, o.Report, o.Exception)
		}
		newHost(t, s).expect(s, "await primitives.ns.fn(a=1)", `{"a":1}`)
	}
}

func TestPrimitivesInCopiesAndChildren(t *testing.T) {
	s := newHouse(t).session()
	h := newHost(t, s)
	h.expect(s, "p, f = primitives, primitives.ns.fn\nawait f(a=1)", `{"a":1}`)
	for _, kind := range []kernel.Kind{kernel.Copy, kernel.Session} {
		c, _ := s.fork(kind)
		newHost(t, c).expect(c, "[await f(a=2), p.ns.fn.sync(a=3), await primitives.ns.fn(a=4)]", `[{"a":2},{"a":3},{"a":4}]`)
	}
	// A copy of a session that waits.
	var copied outcome
	h.answer = func(e kernel.Event) any {
		if e.Name != "ns.slow" {
			return result(e.Data)
		}
		h.work.Go(func() {
			c, _ := s.fork(kernel.Copy)
			copied = newHost(t, c).run(c, "await f(a=5)")
			if err := s.Tell(kernel.Message{Kind: kernel.MessagePrimitive, ID: e.ID, Data: json.RawMessage(`{"result":6}`)}); err != nil {
				t.Error(err)
			}
		})
		return nil
	}
	h.expect(s, "await primitives.ns.slow()", "6")
	if copied.result() != `{"a":5}` {
		t.Error(copied.result(), copied.exception().Traceback)
	}
	h.expect(s, `
import os
r, w = os.pipe()
if os.fork() == 0:
    try: primitives.ns.fn.sync()
    except PrimitiveError as e: os.write(w, e.type.encode())
    os._exit(0)
os.wait()
os.read(r, 100).decode()`, `"unavailable"`)
}

func TestPrimitivesDescribeThemselves(t *testing.T) {
	s := newHouse(t).session()
	h := newHost(t, s)
	h.answer = func(e kernel.Event) any {
		if e.Name != "locus.describe" {
			return result(1)
		}
		var asked struct{ Name string }
		if err := json.Unmarshal(e.Data, &asked); err != nil {
			t.Error(err)
		}
		found := []map[string]any{}
		for _, f := range []map[string]any{
			{"name": "files.read", "description": "Reads a file.\nAll of it.", "read_only": true, "schema": map[string]any{"properties": map[string]any{
				"path": map[string]any{"type": "string", "description": "where it is"}, "limit": map[string]any{"type": "integer", "default": 10}}, "required": []string{"path"}}},
			{"name": "files.write", "destructive": true},
			{"name": "mail.send"},
		} {
			name := f["name"].(string)
			if asked.Name == "" || name == asked.Name || strings.HasPrefix(name, asked.Name+".") {
				found = append(found, f)
			}
		}
		if strings.HasPrefix(asked.Name, "functions") {
			found = []map[string]any{{"name": "functions.forecast", "signature": "(path, *, h: int = 3)", "doc": "Looks ahead."}}
		}
		return result(map[string]any{"functions": found})
	}
	h.expect(s, "dir(primitives)", `["files","mail"]`)
	h.expect(s, "dir(primitives.files)", `["read","write"]`)
	h.expect(s, "dir(functions)", `["forecast"]`)
	h.expect(s, "import inspect\nstr(inspect.signature(primitives.files.read))", `"(*, path: str, limit: int = 10)"`)
	h.expect(s, "str(inspect.signature(primitives.files.write))", `"(**arguments)"`)
	h.expect(s, "str(inspect.signature(functions.forecast))", `"(path, *, h: int = 3)"`)
	h.expect(s, "repr(primitives.files.read)", `"<primitives.files.read>"`)
	h.expect(s, "inspect.iscoroutinefunction(primitives.files.read) or __import__('asyncio').iscoroutinefunction(primitives.files.read)", "true")
	for _, c := range [][]string{
		{"help(primitives.files.read)", "primitives.files.read(*, path: str, limit: int = 10)", "Reads a file.", "path: where it is", "read-only code may call it"},
		{"help(primitives.files)", "files.read: Reads a file.", "files.write"},
		{"help(primitives)", "await primitives.NAMESPACE.FUNCTION", "mail.send"},
		{"help(functions.forecast)", "functions.forecast(path, *, h: int = 3)", "Looks ahead."},
		{"help(functions)", "functions.forecast: Looks ahead."},
		{"print(primitives.no.thing.__doc__)", "there is no primitives.no.thing"},
	} {
		o := h.run(s, c[0])
		for _, part := range c[1:] {
			if !strings.Contains(o.stdout(), part) {
				t.Errorf("%s: no %q in\n%s%s", c[0], part, o.stdout(), o.exception().Traceback)
			}
		}
	}
	before := len(h.names())
	h.expect(s, "await primitives.ns.fn(), primitives.files.__doc__, await primitives.ns.fn()\n1", "1")
	if got := h.names()[before:]; len(got) != 3 || !strings.HasPrefix(got[0], "1 ns.fn") || !strings.HasPrefix(got[1], "?1 locus.describe") || !strings.HasPrefix(got[2], "2 ns.fn") {
		t.Error("descriptions are not counted", got)
	}
	h.answer = func(kernel.Event) any { return failure("unavailable", "it is not there") }
	h.expect(s, "[primitives.a.b.__doc__, dir(primitives)]", `["No description: it is not there.",[]]`)
}

func TestInjectedNamesAreNotTheSessions(t *testing.T) {
	s := newHouse(t).session()
	o := s.program(kernel.Program{Code: "x = 1\nprimitives = 2\nfrom math import pi as primitives", Diff: true})
	if !slices.Equal(o.Diff.Added, []string{"x"}) {
		t.Errorf("got the state diff %+v, want x added", o.Diff)
	}
	c, _ := s.fork(kernel.Copy)
	state, err := c.Inspect(t.Context(), kernel.DetailNames)
	if err != nil || len(state.Python.Variables) != 1 {
		t.Errorf("%v %+v", err, state.Python)
	}
}
