package oneshot

import (
	"context"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestPythonBehavesLikeAStatelessCall(t *testing.T) {
	eachWay(t, "python", surfaces.Python, func(t *testing.T, r *Runner) {
		for name, c := range map[string]struct {
			code, result, kind, stdout, stderr string
		}{
			"value":                  {code: "x = 20\nx * 2 + 2", result: "42", kind: "int"},
			"nothing":                {code: "# only a comment"},
			"none":                   {code: "None"},
			"data":                   {code: "{'a': [1, 2.5, None, 'é']}", result: `{"a":[1,2.5,null,"\u00e9"]}`, kind: "dict"},
			"repr":                   {code: "object.__new__(type('A', (), {'__repr__': lambda self: '<an A>'}))", result: `"<an A>"`, kind: "A"},
			"output":                 {code: "import sys\nprint('a')\nprint('b', file=sys.stderr)", stdout: "a\n", stderr: "b\n"},
			"await":                  {code: "import asyncio\nawait asyncio.sleep(0)\nawait asyncio.sleep(0, 7)", result: "7", kind: "int"},
			"asyncio.run":            {code: "import asyncio\nasync def f():\n    return 5\nasyncio.run(f())", result: "5", kind: "int"},
			"module level":           {code: "def f(n):\n    return g(n)\ndef g(n):\n    return n + 1\n[f(i) for i in range(3)]", result: "[1,2,3]", kind: "list"},
			"name":                   {code: "__name__", result: `"__main__"`, kind: "str"},
			"future":                 {code: "from __future__ import annotations\ndef f(a: b): pass\nf.__annotations__", result: `{"a":"b"}`, kind: "dict"},
			"surrogate":              {code: "print('\\udcc3')", stdout: "\\udcc3\n"},
			"child's output":         {code: "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(5)'])\nNone", stdout: "5\n"},
			"output of C":            {code: "import ctypes\nctypes.CDLL(None).printf(b'from C\\n')\nNone", stdout: "from C\n"},
			"exit functions":         {code: "import atexit\natexit.register(print, 'bye')\nNone", stdout: "bye\n"},
			"threads are waited for": {code: "import threading, time\ndef f():\n    time.sleep(0.2)\n    print('late')\nthreading.Thread(target=f).start()", stdout: "late\n"},
			"argv and path":          {code: "import sys, os\n[sys.argv, sys.path[0] == os.getcwd()]", result: `[[""],true]`, kind: "list"},
			"no name of ours":        {code: "import sys\n[m for m in sys.modules if 'locus' in m] + sorted(k for k in globals() if k[:2] != '__')", result: `["sys"]`, kind: "list"},
			"own module":             {code: "open('mine.py', 'w').write('x = 9')\nimport mine\nmine.x", result: "9", kind: "int"},
			"builtins damaged":       {code: "import builtins\nbuiltins.print = None\nbuiltins.len = None\n1 + 1", result: "2", kind: "int"},
			"modules emptied":        {code: "import sys\nsys.modules.clear()\n1 + 1", result: "2", kind: "int"},
			"forked child":           {code: "import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\nprint('child' if pid == 0 else 'parent')", stdout: "child\nparent\n"},
		} {
			t.Run(name, func(t *testing.T) {
				res, out := run(t, r, surfaces.Python, c.code)
				kind := ""
				if res.ResultType != nil {
					kind = *res.ResultType
				}
				if res.Status != surfaces.StatusDone || string(res.Result) != c.result || kind != c.kind && c.code != "None" {
					t.Errorf("%s %s %q, exception %+v", code(res), res.Result, kind, res.Exception)
				}
				if out.stdout() != c.stdout || out.stderr() != c.stderr {
					t.Errorf("stdout %q, stderr %q", out.stdout(), out.stderr())
				}
			})
		}
	})
}

func TestPythonExceptionsHaveTheCallersLines(t *testing.T) {
	eachWay(t, "python", surfaces.Python, func(t *testing.T, r *Runner) {
		res, _ := run(t, r, surfaces.Python, "def f():\n    return 1 / 0\n\nf()\n")
		e := res.Exception
		if code(res) != "exception" || e == nil || e.Type != "ZeroDivisionError" || e.Line != 2 || res.Status != surfaces.StatusFailed {
			t.Fatalf("got code %s, exception %+v; want a ZeroDivisionError in line 2", code(res), e)
		}
		for _, ours := range []string{"locus", "machine", "performing"} {
			if strings.Contains(e.Traceback, ours) {
				t.Errorf("frames of ours: %s", e.Traceback)
			}
		}
		if !strings.Contains(e.Traceback, "return 1 / 0") || *res.Error != "ZeroDivisionError: division by zero" {
			t.Errorf("%s\n%s", *res.Error, e.Traceback)
		}
		if res, _ := run(t, r, surfaces.Python, "x = (\n"); res.Exception == nil || res.Exception.Type != "SyntaxError" || res.Exception.Line == 0 {
			t.Errorf("got %+v, want Exception.Type \"SyntaxError\", Exception.Line other than 0", res.Exception)
		}
	})
}

func TestPythonExits(t *testing.T) {
	eachWay(t, "python", surfaces.Python, func(t *testing.T, r *Runner) {
		for text, want := range map[string]int{"import sys\nsys.exit(3)": 3, "exit()": 0, "raise SystemExit('no')": 1, "import os\nos._exit(7)": 7} {
			res, out := run(t, r, surfaces.Python, "print('before', flush=True)\n"+text)
			if res.Status != surfaces.StatusDone || res.Exit == nil || res.Exit.Code == nil || *res.Exit.Code != want || out.stdout() != "before\n" {
				t.Errorf("%s: got code %s, exit %+v, output %q; want status %d and the output \"before\"", text, code(res), res.Exit, out.stdout(), want)
			}
		}
	})
}

func TestPythonReadsItsInput(t *testing.T) {
	eachWay(t, "python", surfaces.Python, func(t *testing.T, r *Runner) {
		res, _ := run(t, r, surfaces.Python, "input()")
		if res.Exception == nil || res.Exception.Type != "EOFError" || !strings.Contains(res.Exception.Message, "nobody can type here") {
			t.Errorf("got %+v, want Exception.Type \"EOFError\", Exception.Message with \"nobody can type here\"", res.Exception)
		}
		res, _ = run(t, r, surfaces.Python, "import sys\n[input(), input(), sys.stdin.read()]", func(r *Request) { r.Stdin = "a\né\nrest\n" })
		if string(res.Result) != `["a","\u00e9","rest\n"]` {
			t.Errorf("%s %+v, want Result [\"a\",\"\\u00e9\",\"rest\\n\"]", res.Result, res.Exception)
		}
	})
}

func TestPythonDisplaysAndNotifies(t *testing.T) {
	eachWay(t, "python", surfaces.Python, func(t *testing.T, r *Runner) {
		res, out := run(t, r, surfaces.Python, `
class A:
    def _repr_html_(self): return "<b>a</b>"
    def _repr_png_(self): raise ValueError("no")
await notify("half")
display(3)
A()`)
		want := []surfaces.Display{{MIME: "text/plain", Data: "3"}, {MIME: "text/html", Data: "<b>a</b>"}}
		if len(res.Display) != 2 || res.Display[0] != want[0] || res.Display[1] != want[1] {
			t.Errorf("got the displays %+v, want %+v", res.Display, want)
		}
		var kinds []string
		for _, e := range out.events {
			kinds = append(kinds, e.Kind)
		}
		if strings.Join(kinds, " ") != "notify display display notice" || out.events[0].Text != "half" {
			t.Errorf("got the events %+v, want notify, display, display, notice", out.events)
		}
		if len(res.Notice) != 1 || res.Notice[0].Kind != "display_failed" {
			t.Errorf("got %+v, want 1 notice, Notice[0].Kind \"display_failed\"", res.Notice)
		}
		res, _ = run(t, r, surfaces.Python, "await request_clarification('which?')")
		if res.Exception == nil || res.Exception.Type != "PrimitiveError" || !strings.Contains(res.Exception.Message, "linked machine") {
			t.Errorf("got %+v, want Exception.Type \"PrimitiveError\", Exception.Message with \"linked machine\"", res.Exception)
		}
	})
}

func TestPrimitivesAndFunctions(t *testing.T) {
	eachWay(t, "python", surfaces.Python, func(t *testing.T, r *Runner) {
		var seen []string
		answers := host(func(u surfaces.Use) any {
			switch u.Name {
			case "locus.describe":
				return map[string]any{"result": map[string]any{"functions": []any{map[string]any{"name": "fs.read", "description": "Reads."}}}}
			case "fs.read":
				return map[string]any{"result": map[string]any{"seq": u.Seq, "data": u.Data}}
			case "fs.shot":
				return map[string]any{"result": map[string]any{"type": "image", "mimeType": "image/png", "bytes": 4, "data": "iVBORw=="}}
			case "functions.double":
				return map[string]any{"result": map[string]any{"json": 84}}
			}
			return map[string]any{"error": map[string]any{"type": "unknown", "message": "there is no " + u.Name}}
		})
		asking := func(text string) surfaces.Result {
			t.Helper()
			return r.Run(context.Background(), Request{CallID: "c1", Language: "python", Code: text, Timeout: limit, Primitives: true}, nil, host(func(u surfaces.Use) any {
				seen = append(seen, u.CallID+" "+u.Seq+" "+u.Name)
				if u.Remaining <= 0 {
					t.Errorf("no time is left: %v", u.Remaining)
				}
				return answers(u)
			}))
		}
		for text, want := range map[string]string{
			"await primitives.fs.read(path='a')":                                    `{"data":{"path":"a"},"seq":"1"}`,
			"primitives.fs.read.sync(path='é')['data']":                             `{"path":"\u00e9"}`,
			"await functions.double(42)":                                            "84",
			"functions.double.sync(42)":                                             "84",
			"await primitives.fs.shot()":                                            `{"bytes":4,"mimeType":"image/png","type":"image"}`,
			"import copy\nlist(copy.deepcopy(await primitives.fs.shot()).data)":     "[137,80,78,71]",
			"import pickle\npickle.loads(pickle.dumps(await primitives.fs.shot()))": `{"bytes":4,"mimeType":"image/png","type":"image"}`,
			"primitives = 5\n(await primitives.fs.read())['seq']":                   `"1"`,
			"import asyncio\nr = await asyncio.gather(*[primitives.fs.read(i=i) for i in range(50)])\n[r[i]['data']['i'] for i in (0, 49)]":                                                                  "[0,49]",
			"from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p:\n    r = list(p.map(lambda i: primitives.fs.read.sync(i=i)['data']['i'], range(20)))\nr == list(range(20))": "true",
			"'Reads' in primitives.fs.read.__doc__": "true",
			"try:\n    await primitives.no.such()\nexcept PrimitiveError as e:\n    r = [e.type, str(e), e.name]\nr": `["unknown","there is no no.such","no.such"]`,
		} {
			if res := asking(text); string(res.Result) != want {
				t.Errorf("%s: got %s, exception %+v; want %s", text, res.Result, res.Exception, want)
			}
		}
		if len(seen) == 0 || !strings.HasPrefix(seen[0], "c1 ") {
			t.Errorf("the host saw %q, want first a use of call c1", seen)
		}
		res, _ := run(t, r, surfaces.Python, "await primitives.fs.read()")
		if res.Exception == nil || !strings.Contains(res.Exception.Message, "cannot be used here") {
			t.Errorf("got %+v, want Exception.Message with \"cannot be used here\"", res.Exception)
		}
	})
}
