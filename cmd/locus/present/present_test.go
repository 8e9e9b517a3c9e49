package present

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/locusrun/locus/surfaces"
)

func TestValue(t *testing.T) {
	for _, row := range []struct {
		raw, kind, want string
		shown           bool
	}{
		{`null`, "NoneType", "", false},
		{``, "", "", false},
		{`2`, "int", "2", true},
		{`1.0`, "float", "1.0", true},
		{`1e+20`, "float", "1e+20", true},
		{`123456789012345678901234567890`, "int", "123456789012345678901234567890", true},
		{`true`, "bool", "True", true},
		{`"it's"`, "str", `"it's"`, true},
		{`"a\nb"`, "str", `'a\nb'`, true},
		{`"<object at 0x1>"`, "object", "<object at 0x1>", true},
		{`{"b":[1,null,{"a":false}],"a":"x"}`, "dict", "{'b': [1, None, {'a': False}], 'a': 'x'}", true},
		{`[]`, "list", "[]", true},
		{`{`, "dict", "{", true},
	} {
		kind := row.kind
		got, shown := Value(surfaces.Result{Result: json.RawMessage(row.raw), ResultType: &kind})
		if got != row.want || shown != row.shown {
			t.Errorf("%s: %q %v, want %q %v", row.raw, got, shown, row.want, row.shown)
		}
	}
}

// Python reads what is shown of a string back as that very string.
func TestQuotedStringsAreWhatPythonShows(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on this machine")
	}
	texts := []string{"", "'", `"`, `'"`, `\`, "\x00\x1b\x7f", "é ü", "😀", "tab\tline\n"}
	gen := rapid.StringN(0, 12, -1)
	for i := range 200 {
		texts = append(texts, gen.Example(i))
	}
	var shown []string
	for _, s := range texts {
		shown = append(shown, quote(s))
	}
	body, err := json.Marshal([][]string{texts, shown})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", "import ast, json, sys\nfor a, b in zip(*json.load(sys.stdin)):\n assert ast.literal_eval(b) == a, (a, b)")
	cmd.Stdin = strings.NewReader(string(body))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 1<<20 - 1: "1 MiB", 12 << 30: "12 GiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-time.Hour: "just now", 0: "just now", 5 * time.Second: "5s ago", 90 * time.Second: "1m ago", 3 * time.Hour: "3h ago", 47 * time.Hour: "47h ago", 72 * time.Hour: "3d ago",
	} {
		if got := Ago(now.Add(-d), now); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	if got, want := Ago(time.Time{}, now), "-"; got != want {
		t.Errorf("unknown time: %q, want %q", got, want)
	}
	for ms, want := range map[float64]string{0.416: "0.42 ms", 12.2: "12 ms", 999.9: "1.0 s", 3400: "3.4 s", 125_000: "2m5s"} {
		if got := Millis(ms); got != want {
			t.Errorf("%v ms: %q, want %q", ms, got, want)
		}
	}
	if got, want := Clip("a\n b  c", 4), "a b…"; got != want {
		t.Errorf("clip: %q, want %q", got, want)
	}
}

func TestTableIsAlignedAndCannotBeForged(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, []string{"NAME", "STATE"}, [][]string{{"a", "live"}, {"long\x1b[2J\nname", "busy"}}); err != nil {
		t.Fatal(err)
	}
	want := "NAME           STATE\na              live\nlong [2J name  busy\n"
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
	if strings.ContainsAny(b.String(), "\x1b") || strings.Count(b.String(), "\n") != 3 {
		t.Errorf("forged: %q", b.String())
	}
}

func ptr[T any](v T) *T { return &v }

func TestFailure(t *testing.T) {
	flag := func(a string) string { return "--" + a }
	for _, row := range []struct {
		name   string
		result surfaces.Result
		want   string
	}{
		{"well", surfaces.Result{Status: surfaces.StatusDone, Exit: &surfaces.Exit{Code: ptr(0)}}, ""},
		{"a shell's status", surfaces.Result{Status: surfaces.StatusDone, Exit: &surfaces.Exit{Code: ptr(3)}}, "locus: exit status 3\n"},
		{"refused", surfaces.Result{
			Status: surfaces.StatusRefused, Error: ptr("no session."), Code: ptr(surfaces.CodeStatelessWithSession), Suggestion: ptr("drop it."),
			Fix: &surfaces.Fix{Drop: []string{"session_name"}, Set: map[string]any{"state_mode": "stateful"}},
		}, "locus: refused (stateless_with_session): no session.\n  suggestion: drop it.\n  here: drop --session_name, give --state_mode stateful\n"},
		{"raised", surfaces.Result{
			Status: surfaces.StatusFailed, Error: ptr("ValueError: x"), Code: ptr(surfaces.CodeException), Exception: &surfaces.Exception{Traceback: "Traceback:\nValueError: x\n"},
		}, "Traceback:\nValueError: x\n"},
		{"killed", surfaces.Result{
			Status: surfaces.StatusFailed, Error: ptr("it crashed."), Code: ptr(surfaces.CodeSegfault), Exit: &surfaces.Exit{Signal: "SIGSEGV", Reason: "segfault"},
		}, "locus: segfault: it crashed.\nlocus: ended by SIGSEGV (segfault)\n"},
		{"busy", surfaces.Result{
			Status: surfaces.StatusRefused, Error: ptr("full."), Code: ptr(surfaces.CodeNoCapacity), RetryAfterS: ptr(1.5),
		}, "locus: refused (no_capacity): full.\n  try again in 1.5 s\n"},
	} {
		if got := Failure(row.result, flag); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
	lost := surfaces.Result{Attempts: 2, StateLost: surfaces.StateLost{Loss: &surfaces.Loss{Reason: "killed", Epoch: 4}}}
	if got, want := Lost(lost), "locus: the session's earlier state is lost (killed, epoch 4); this was attempt 2\n"; got != want {
		t.Errorf("lost: %q, want %q", got, want)
	}
}

func TestState(t *testing.T) {
	for in, want := range map[string]string{
		`{"cwd":"/tmp","variables":[{"name":"x","type":"int","summary":"1\n2","size":28},"y"],"odd":{"a":1},"modules":[]}`: "cwd: /tmp\nmodules: 0\nodd:\n{\n  \"a\": 1\n}\nvariables: 2\n  x  int  28 B  1 2\n  y\n",
		`[1]`: "[\n  1\n]\n",
	} {
		var b strings.Builder
		if err := State(&b, json.RawMessage(in)); err != nil || b.String() != want {
			t.Errorf("%s: %q %v, want %q", in, b.String(), err, want)
		}
	}
}
