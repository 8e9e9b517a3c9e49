package python_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

func TestNotifyAndClarification(t *testing.T) {
	h := newHouse(t)
	for _, kind := range []kernel.Kind{kernel.Session, kernel.OneShot} {
		s := h.start(kind)
		var texts []string
		o := s.program(kernel.Program{
			Code: "await notify('one')\nnotify('two')\nanswer = await request_clarification('which?')\nanswer + '!'",
			Events: func(e kernel.Event) {
				texts = append(texts, string(e.Kind)+" "+e.Text)
				if e.Kind == kernel.EventClarification {
					go func() {
						_ = s.Tell(kernel.Message{Kind: kernel.MessageAnswer, ID: "no such", Text: "wrong"})
						if err := s.Tell(kernel.Message{Kind: kernel.MessageAnswer, ID: e.ID, Text: "this"}); err != nil {
							t.Error(err)
						}
					}()
				}
			},
		})
		if o.result() != `"this!"` || !slices.Equal(texts, []string{"notify one", "notify two", "clarification which?"}) {
			t.Fatalf("%s %q %+v", o.result(), texts, o.exception())
		}
	}
}

// A wrong call of a builtin is reported under the name that the code has used.
func TestBuiltinsAreNamedAsTheyAreUsed(t *testing.T) {
	s := newHouse(t).session()
	for code, message := range map[string]string{
		"notify()":                              "notify() missing 1 required positional argument: 'text'",
		"await request_clarification('a', 'b')": "request_clarification() takes 1 positional argument but 2 were given",
	} {
		if o := s.run(code); o.exception().Message != message {
			t.Errorf("%s: %+v", code, o.exception())
		}
	}
}

func TestInterjections(t *testing.T) {
	s := newHouse(t).session()
	tell := func(e kernel.Event) {
		if e.Kind == kernel.EventNotify {
			for _, text := range []string{"a", "b"} {
				if err := s.Tell(kernel.Message{Kind: kernel.MessageInterject, Text: text}); err != nil {
					t.Error(err)
				}
			}
		}
	}
	o := s.program(kernel.Program{Code: "notify('go')\nfirst = await interjections.get()\nsecond = await interjections.get()\n[first, second, interjections.pending()]", Events: tell})
	if o.result() != `["a","b",[]]` {
		t.Fatal(o.result())
	}
	o = s.program(kernel.Program{Code: "notify('go')\ngot = []\nwhile len(got) < 2: got += interjections.pending()\ngot", Events: tell})
	if o.result() != `["a","b"]` {
		t.Fatal(o.result())
	}
	// What nobody took is not for the next call.
	s.program(kernel.Program{Code: "import time\nnotify('go')\nwhile not interjections._mailbox.messages: time.sleep(0.001)", Events: tell})
	s.expect("interjections.pending()", "[]")
	s.expect("[n for n in globals() if not n.startswith('__')]", `["first","second","got","time"]`)
}

func TestEventsOfEarlierCallsAreDropped(t *testing.T) {
	s := newHouse(t).session()
	s.must("import asyncio\nasync def later():\n    await asyncio.sleep(0.01); notify('late'); open('sent', 'w').close()\nt = asyncio.create_task(later())")
	eventually(t, "the task", func() bool {
		o := s.must("import os; os.path.exists('sent')")
		return o.result() == "true"
	})
}

func TestDisplays(t *testing.T) {
	s := newHouse(t).session()
	s.must(`
class Html:
    def _repr_html_(self): return '<b>h</b>'
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/html': 'x', 'application/json': {'a': 1}, 'text/plain': 'p'}, {}
class Png:
    def _repr_png_(self): return b'\x89PNG'
class Bad:
    def _repr_html_(self): raise ValueError('cannot')
    def __repr__(self): return 'bad'
class Json:
    def _repr_json_(self): return {'k': float('nan')}
    def __repr__(self): return 'json'`)
	for _, c := range []struct {
		code, result string
		want         []surfaces.Display
		notice       string
	}{
		{"Html()", "", []surfaces.Display{{MIME: "text/html", Data: "<b>h</b>"}}, ""},
		{"Bundle()", "", []surfaces.Display{{MIME: "text/html", Data: "x"}, {MIME: "application/json", Data: `{"a":1}`}}, ""},
		{"Png()", "", []surfaces.Display{{MIME: "image/png", Data: "iVBORw=="}}, ""},
		{"Bad()", `"bad"`, nil, "display_failed"},
		{"Json()", `"json"`, nil, "display_failed"},
		{"display(Html(), 5)\n7", "7", []surfaces.Display{{MIME: "text/html", Data: "<b>h</b>"}, {MIME: "text/plain", Data: "5"}}, ""},
		{"Html", "", nil, ""},
	} {
		o := s.must(c.code)
		if !slices.Equal(o.Display, c.want) || c.result != "" && o.result() != c.result {
			t.Errorf("%q: %v %s", c.code, o.Display, o.result())
		}
		if (c.notice != "") != slices.Contains(kinds(o.Notices), c.notice) {
			t.Errorf("%q: notices %v", c.code, o.Notices)
		}
		if len(o.events) != len(c.want) {
			t.Errorf("%q: %d events", c.code, len(o.events))
		}
	}
	o := s.must("class Big:\n    def _repr_html_(self): return 'x' * 3_000_000\nfor _ in range(12): display(Big())")
	if len(o.Display) != 11 || !slices.Contains(kinds(o.Notices), "display_dropped") {
		t.Errorf("%d displays, notices %v", len(o.Display), o.Notices)
	}
}

func TestScience(t *testing.T) {
	h := newHouse(t)
	s := h.session()
	if o := s.run("import numpy as np, pandas as pd, matplotlib.pyplot as plt"); o.Exception != nil {
		t.Skip("numpy, pandas and matplotlib are not in this Python; LOCUS_TEST_PYTHON names one that has them")
	}
	o := s.must("df = pd.DataFrame({'a': [1, 2]})\ndf")
	if len(o.Display) != 1 || o.Display[0].MIME != "text/html" || !strings.Contains(o.result(), "a") || o.ResultType != "DataFrame" {
		t.Errorf("%v %s %s, want 1 o.Display, o.Display[0].MIME \"text/html\", o.result() with \"a\", o.ResultType \"DataFrame\"", o.Display, o.result(), o.ResultType)
	}
	for _, code := range []string{"plt.plot([1, 2])", "plt.plot([1, 2]); plt.show()", "fig = plt.figure(); fig", "plt.plot([1]); 1/0"} {
		o := s.run(code)
		if len(o.Display) != 1 || o.Display[0].MIME != "image/png" || !strings.HasPrefix(o.Display[0].Data, "iVBOR") {
			t.Errorf("%q: %d displays, %+v", code, len(o.Display), o.exception())
		}
		if o.stderr() != "" {
			t.Errorf("%q: %q", code, o.stderr())
		}
	}
	if o := s.must("1"); len(o.Display) != 0 {
		t.Error("a figure is shown twice")
	}
	o = s.must("{'df': df, 'nan': float('nan'), 's': np.float64(1), 'b': b'x'}")
	if !json.Valid(o.Result) || !strings.Contains(o.result(), "nan") {
		t.Error(o.result())
	}
	s.must("arr = np.arange(10**6)\nx = np.random.rand()")
	copied := s.peek("arr += 1; df['a'] = 0; [int(arr[0]), int(df.a.sum()), np.random.rand()]")
	again := s.peek("np.random.rand()")
	if copied.err != nil || strings.Contains(copied.result(), again.result()) {
		t.Errorf("%v %s %s", copied.err, copied.result(), again.result())
	}
	s.expect("[int(arr[0]), int(df.a.sum())]", "[0,3]")
	c, _ := s.fork(kernel.Copy)
	state, err := c.Inspect(t.Context(), kernel.DetailSummary)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range state.Python.Variables {
		if v.Name == "arr" && (!strings.Contains(v.Summary, "(1000000,)") || v.Size != 8_000_000) || v.Name == "df" && !strings.Contains(v.Summary, "(2, 1)") {
			t.Errorf("%+v", v)
		}
	}
}

func TestInspect(t *testing.T) {
	s := newHouse(t).session()
	s.must(`
import math, time
x = 5
big = list(range(100_000))
text = 'a' * 10_000
def f(a, b=2): return a
class C: pass
class Slow:
    def __repr__(self): time.sleep(3600)
class Raises:
    def __repr__(self): raise ValueError
slow, bad, c = Slow(), Raises(), C()
deep = []
for _ in range(10_000): deep = [deep]
del _`)
	for _, detail := range []kernel.Detail{kernel.DetailNames, kernel.DetailSummary, kernel.DetailFull} {
		c, _ := s.fork(kernel.Copy)
		start := time.Now()
		state, err := c.Inspect(t.Context(), detail)
		if err != nil || state.Python == nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %v", detail, took)
		}
		found := map[string]kernel.Variable{}
		var order []string
		for _, v := range append(state.Python.Variables, state.Python.Functions...) {
			found[v.Name] = v
			order = append(order, v.Name)
		}
		if want := "bad big c deep slow text x C Raises Slow f"; strings.Join(order, " ") != want || strings.Join(state.Python.Modules, " ") != "math time" {
			t.Errorf("%v %v", order, state.Python.Modules)
		}
		if found["x"].Type != "int" || found["slow"].Type != "Slow" || found["big"].Size < 800_000 {
			t.Errorf("%+v", found)
		}
		if detail == kernel.DetailNames {
			if found["x"].Summary != "" {
				t.Error("names alone carry no summary")
			}
			continue
		}
		for name, part := range map[string]string{"x": "5", "big": "list of 100000", "f": "f(a, b=2)", "slow": "TooSlow", "bad": "ValueError", "C": "class C", "text": "10000"} {
			if name == "text" {
				part = "aaa"
			}
			if !strings.Contains(found[name].Summary, part) || len(found[name].Summary) > 5000 {
				t.Errorf("%s: %.300q", name, found[name].Summary)
			}
		}
		c.Kill()
	}
}

func TestLimitViolationsHaveTypedOutcomes(t *testing.T) {
	h := newHouse(t, func(c *pythonConfig) { c.Limits = sandbox.Limits{Memory: 200 << 20, Processes: 20} })
	if h.container.Enforced().Memory == "" {
		t.Skip("this machine enforces no memory limit")
	}
	s := h.session()
	o := s.try(kernel.Program{Code: "x = []\nwhile True: x.append(bytearray(1 << 20))"})
	died, ok := o.err.(*kernel.Died)
	if !ok || !died.Exit.OOM {
		t.Errorf("got %v, want an end by the OOM killer", o.err)
	}
	if h.container.Enforced().GroupProcesses != "" {
		o := h.session().run("import os\nfor _ in range(30):\n    if os.fork() == 0:\n        import time; time.sleep(60)")
		if e := o.exception(); e.Type != "BlockingIOError" {
			t.Errorf("got %+v, want Type \"BlockingIOError\"", e)
		}
	}
}

// Who tells code something, and finds its process gone, is told that and nothing else.
func TestTellFailsAfterTheProcessHasEnded(t *testing.T) {
	s := newHouse(t).session()
	s.must("1")
	s.Kill()
	for _, kind := range []kernel.MessageKind{kernel.MessageInterject, kernel.MessageAnswer} {
		if err := s.Tell(kernel.Message{Kind: kind, ID: "1", Text: "hello"}); !errors.Is(err, kernel.ErrGone) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
