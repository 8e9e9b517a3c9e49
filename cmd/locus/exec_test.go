package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

const (
	fine    = `{"call_id":"c1","status":"done","stdout":"hello\n","stderr":"warn\n","result":{"a":[1,true]},"result_type":"dict","display":[{"mime":"image/png","data":"aGVsbG8="}],"exit":null,"state_lost":false,"notice":[{"kind":"disk","text":"not isolated"}]}`
	raised  = `{"call_id":"c1","status":"failed","stdout":"","stderr":"","result":null,"error":"ZeroDivisionError: division by zero","error_type":"exception","code":"exception","exception":{"type":"ZeroDivisionError","message":"division by zero","traceback":"Traceback (most recent call last):\n  line 1, in <module>\nZeroDivisionError: division by zero\n","line":1},"state_lost":false}`
	tooLate = `{"call_id":"c1","status":"failed","stdout":"","stderr":"","result":null,"error":"The call ran longer than timeout_s 1.","error_type":"timeout","code":"timeout","suggestion":"Give a larger timeout_s.","exit":{"signal":"SIGKILL","reason":"timeout"},"state_lost":{"reason":"timeout","at":"2026-05-01T12:00:00Z","epoch":3},"attempts":1}`
	stopped = `{"call_id":"c1","status":"failed","stdout":"","stderr":"","result":null,"error":"The call was stopped.","error_type":"killed","code":"stopped","exit":{"signal":"SIGINT","reason":"stopped"},"state_lost":false}`
	shellNo = `{"call_id":"c1","status":"done","stdout":"","stderr":"","result":null,"exit":{"code":3},"language":"bash","state_lost":false}`
	unbuilt = `{"call_id":"c1","status":"failed","stdout":"","stderr":"error: no such package\n","result":null,"error":"environment 1 cannot be built","error_type":"environment","code":"build_failed","state_lost":false}`
	refused = `{"call_id":"","status":"refused","stdout":"","stderr":"","result":null,"error":"state_mode \"stateless\" keeps no session, but session_name \"n\" was given.","error_type":"validation","code":"stateless_with_session","suggestion":"Set state_mode to \"stateful\".","fix":{"drop":[],"set":{"state_mode":"stateful"}},"state_lost":false}`
	started = `{"call_id":"c1","node":"n1"}`
)

// Every kind of outcome, as people see it, with its exit status.
func TestExecOutcomes(t *testing.T) {
	busy := `{"status":"refused","error":"Too many calls.","error_type":"unavailable","code":"no_capacity","retry_after_s":2,"state_lost":false}`
	lost := `{"call_id":"c1","status":"failed","error":"It is not known.","error_type":"outcome_unknown","code":"outcome_unknown","state_lost":false}`
	for _, row := range []struct {
		name, stream string
		door         *answer
		args         []string
		stdin        string
		status       int
	}{
		{name: "fine", stream: events("started", started, "stdout", `{"text":"hello\n"}`, "stderr", `{"text":"warn\n"}`, "notice", `{"kind":"disk","text":"not isolated"}`,
			"notify", `{"text":"half\u001b[2J way"}`, "clarification", `{"id":"q","question":"Which?"}`, "result", fine), args: []string{"x"}},
		{name: "fine-quiet", stream: events("started", started, "stdout", `{"text":"hello\n"}`, "stderr", `{"text":"warn\n"}`, "result", fine), args: []string{"-q", "x"}},
		{name: "fine-json", stream: events("started", started, "stdout", `{"text":"hello\n"}`, "result", fine), args: []string{"--json", "x"}},
		{name: "raised", stream: events("started", started, "result", raised), args: []string{"1/0"}, status: 1},
		{name: "timeout", stream: events("started", started, "notice", `{"kind":"state_lost","text":"gone"}`, "result", tooLate), args: []string{"-t", "1", "x"}, status: 4},
		{name: "shell-status", stream: events("started", started, "result", shellNo), args: []string{"-l", "bash", "exit 3"}, status: -1},
		{name: "refused", door: &answer{422, refused}, args: []string{"-s", "n", "x"}, status: 2},
		{name: "refused-json", door: &answer{422, refused}, args: []string{"-s", "n", "x", "--json"}, status: 2},
		{name: "busy", door: &answer{503, busy}, args: []string{"x"}, status: 3},
		{name: "unknown", stream: events("started", started, "result", lost), args: []string{"x"}, status: 5},
		{name: "broken", stream: "event: nothing\n", args: []string{"x"}, status: 5},
		{name: "not-a-node", door: &answer{200, "<html>"}, args: []string{"x"}, status: 3},
		{name: "build-failed", stream: events("started", started, "notice", `{"kind":"environment","text":"error: no such package"}`, "result", unbuilt), args: []string{"--venv", "1", "x"}, status: 3},
		{name: "background", door: &answer{200, `{"call_id":"c9","status":"running","stdout":"","stderr":"","result":null,"state_lost":false}`}, args: []string{"--background", "x"}},
		{name: "from-stdin", stream: events("started", started, "result", shellNo), args: []string{"-l", "sh", "-"}, stdin: "echo <&>\n", status: -1},
		{name: "all-flags", stream: events("started", started, "result", raised), stdin: "in", status: 1, args: []string{
			"-l", "python", "--state_mode", "stateful", "--session-name", "a b", "--session-id", "3", "--venv_id", "2", "--surface", "local", "--machine", "m", "--timeout-s", "1.5",
			"--on-loss", "report", "--primitives-limit", "5", "--atomic", "--keep", "--idempotency-key", "k", "--thought", "why", "--stdin", "-", "1/0"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			n := &fakeNode{answers: map[string]answer{}, stream: row.stream}
			if row.door != nil {
				n.answers["POST /v1/tools/execute_code"] = *row.door
			}
			s := command(t, n, row.stdin)
			args := append([]string{"exec"}, row.args...)
			status := s.a.run(t.Context(), args)
			if row.status >= 0 && status != row.status {
				t.Errorf("status %d, want %d", status, row.status)
			}
			golden(t, "exec-"+row.name, s.transcript(args, status)+"sent "+strings.Join(n.requests(), "\nsent ")+"\n")
		})
	}
}

// If the program is the name of a file, the error says how to run a file.
func TestExecOfAFileName(t *testing.T) {
	for _, row := range []struct{ code, result, want string }{
		{"testdata/forecast.py", raised, "run with: -f testdata/forecast.py"},
		{"testdata/forecast.py", shellNo, "run with: -f testdata/forecast.py"},
		{"testdata/forecast.py", fine, ""},
		{"testdata", raised, ""},
		{"1/0", raised, ""},
	} {
		s := command(t, &fakeNode{answers: map[string]answer{}, stream: events("started", started, "result", row.result)}, "")
		s.a.run(t.Context(), []string{"exec", row.code})
		if told := strings.Contains(s.err.String(), "is the name of a file"); told != (row.want != "") || !strings.Contains(s.err.String(), row.want) {
			t.Errorf("%s: got %q, want %q", row.code, s.err.String(), row.want)
		}
	}
}

func TestExecReadsFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	n := &fakeNode{stream: events("started", started, "result", fine)}
	s := command(t, n, "")
	if status := s.a.run(t.Context(), []string{"exec", "-f", write("p.py", "print(input())\n"), "--stdin", write("in", "a<b\n")}); status != 0 {
		t.Fatalf("status %d, want 0: %s", status, s.err.String())
	}
	want := `POST /v1/tools/execute_code {"code":"print(input())\n","language":"python","stdin":"a<b\n","primitives":[]}`
	if got := n.requests(); len(got) != 1 || got[0] != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}

func TestExecSendsAndKeepsFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"rows.csv": "a,b\n", "other": "\xff"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(result string, args ...string) (*session, *fakeNode, int) {
		n := &fakeNode{stream: events("started", started, "result", result), answers: map[string]answer{"GET /v1/executions/c1": {200, result}}}
		s := command(t, n, "")
		return s, n, s.a.run(t.Context(), args)
	}
	whole, err := json.Marshal(surfaces.NewFile("out/plot.svg", []byte("hey")))
	if err != nil {
		t.Fatal(err)
	}
	plot := string(whole)
	came := func(files string) string {
		return `{"call_id":"c1","status":"done","stdout":"","stderr":"","result":null,"state_lost":false,"files":[` + files + `]}`
	}
	with := []string{"exec", "--surface", "user_machine", "--files", filepath.Join(dir, "rows.csv"), "-F", "in/x=" + filepath.Join(dir, "other"), "1"}
	s, n, status := run(came(plot), with...)
	if got := n.requests(); status != 0 || len(got) != 1 || !strings.Contains(got[0], `"files":[{"name":"rows.csv","data":"YSxiCg=="},{"name":"in/x","data":"/w=="}]`) {
		t.Errorf("status %d, want 0, sent %q", status, got)
	}
	for _, want := range []string{"file: out/plot.svg, 3 B", "locus calls show --out DIR c1"} {
		if !strings.Contains(s.err.String(), want) {
			t.Errorf("%q is not in %q", want, s.err.String())
		}
	}

	out := filepath.Join(dir, "deep", "kept")
	plain := []string{"exec", "--out", out, "1"}
	if s, _, status := run(came(plot), plain...); status != 0 || !strings.Contains(s.err.String(), "wrote "+filepath.Join(out, "plot.svg")) {
		t.Errorf("status %d, want 0: %s", status, s.err.String())
	}
	if b, err := os.ReadFile(filepath.Join(out, "plot.svg")); err != nil || string(b) != "hey" {
		t.Errorf("got %q, %v, want \"hey\"", b, err)
	}
	// Now the file exists.
	for _, row := range []struct {
		args   []string
		result string
		status int
		says   string
	}{
		{plain, came(plot), 2, "--force: locus calls show --out DIR c1"},
		{append([]string{"--json"}, plain...), came(plot), 2, "--force"},
		{append([]string{"--force"}, plain...), came(plot), 2, "no flag --force"},
		{append(plain, "--force"), came(plot), 0, "wrote"},
		{[]string{"calls", "show", "--out", out, "--force", "c1"}, came(plot), 0, "wrote"},
		{[]string{"calls", "show", "--follow", "--out", out, "--force", "c1"}, came(plot), 0, "wrote"},
		{plain, came(strings.Replace(plot, "out/", "out/../", 1)), 2, "would lead out of the folder"},
		{plain, strings.Replace(came(plot), `"done"`, `"failed","error":"no","error_type":"timeout","code":"timeout"`, 1), 4, "give another DIR"},
	} {
		s, _, status := run(row.result, row.args...)
		if status != row.status || !strings.Contains(s.err.String(), row.says) {
			t.Errorf("%q: status %d, want %d with %q: %s", row.args, status, row.status, row.says, s.err.String())
		}
		if row.args[0] == "--json" && (!strings.Contains(s.out.String(), `"out/plot.svg"`) || strings.Count(s.out.String(), "\n") != 1) {
			t.Errorf("printed %q", s.out.String())
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "deep", "plot.svg")); err == nil {
		t.Error("a file was written outside of the folder")
	}
}

func TestNothingIsSentWhenMisused(t *testing.T) {
	latin := filepath.Join(t.TempDir(), "latin.py")
	if err := os.WriteFile(latin, []byte("x = '\xe9'"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		args  []string
		wants []string
	}{
		"no program":           {[]string{"exec"}, []string{"was given no program", "-f FILE"}},
		"two programs":         {[]string{"exec", "1", "2"}, []string{"takes one CODE, got 2", "quote"}},
		"code and file":        {[]string{"exec", "-f", "x.py", "1"}, []string{"both CODE"}},
		"stdin twice":          {[]string{"exec", "--stdin", "-", "-"}, []string{"cannot be both"}},
		"no such file sent":    {[]string{"exec", "-F", "a=/none/x.csv", "1"}, []string{"/none/x.csv", "no such file"}},
		"a folder sent":        {[]string{"exec", "--files", "/", "1"}, []string{`the file "/"`, "is a directory"}},
		"force of nothing":     {[]string{"exec", "--force", "1"}, []string{"add --out DIR"}},
		"out of background":    {[]string{"exec", "--background", "--out", "x", "1"}, []string{"locus calls show --follow --out DIR CALL"}},
		"no such file":         {[]string{"exec", "-f", "/none/x.py"}, []string{"/none/x.py", "no such file"}},
		"not UTF-8":            {[]string{"exec", "-f", latin}, []string{"is not UTF-8"}},
		"unknown flag":         {[]string{"exec", "--sesion", "x", "1"}, []string{"--sesion", "did you mean --session?"}},
		"start of a flag":      {[]string{"exec", "--idem", "x", "1"}, []string{"did you mean --idempotency-key?"}},
		"a dash in code":       {[]string{"exec", "-1 + 2"}, []string{"put -- before code"}},
		"wrong value":          {[]string{"exec", "-t", "soon", "1"}, []string{`--timeout cannot be "soon"`, "hard deadline in SECONDS"}},
		"no number":            {[]string{"exec", "-t", "nan", "1"}, []string{"the request cannot be written", "NaN"}},
		"a token of two lines": {[]string{"exec", "--token", "a\nb", "1"}, []string{"the token holds spaces, line breaks", "locus token create"}},
		"a token with a space": {[]string{"status", "--token", "a b"}, []string{"the token holds spaces, line breaks"}},
		"missing value":        {[]string{"exec", "1", "-s"}, []string{"needs an argument"}},
		"unknown verb":         {[]string{"exce", "1"}, []string{`did you mean "locus exec"?`}},
		"unknown sub-verb":     {[]string{"sessions", "inspekt"}, []string{`did you mean "locus sessions inspect"?`}},
		"far off":              {[]string{"calls", "frobnicate"}, []string{`"locus calls --help" lists`}},
		"help of none":         {[]string{"frobnicate", "--help"}, []string{`"frobnicate" is not a command of "locus"`}},
		"help on none":         {[]string{"help", "frobnicate"}, []string{`"frobnicate" is not a command of "locus"`}},
		"help on a near miss":  {[]string{"help", "sessions", "inspekt"}, []string{`did you mean "locus sessions inspect"?`}},
		"help of a near miss":  {[]string{"sessions", "inspekt", "-h"}, []string{`did you mean "locus sessions inspect"?`}},
		"repl in no language":  {[]string{"repl", "-l", "ruby"}, []string{`no language "ruby"`, "python, bash"}},
		"repl in no mode":      {[]string{"repl", "-m", "frozen"}, []string{`no state mode "frozen"`}},
		"owner of a node":      {[]string{"token", "create", "--role", "node", "--owner", "ada"}, []string{"a node belongs to no actor", "--role link or vm"}},
		"linked as a king":     {[]string{"link", "--as", "king"}, []string{`cannot be linked as "king"`, "--as vm"}},
		"consent of nobody":    {[]string{"link", "--consent", "ask"}, []string{"--consent ask needs somebody to ask", "--consent allow or deny"}},
		"consent of a kind":    {[]string{"link", "--consent", "perhaps"}, []string{`--consent cannot be "perhaps"`}},
		"consent of a vm":      {[]string{"link", "--as", "vm", "--consent", "ask"}, []string{"asks nobody for consent", "--as link"}},
		"languages of a vm":    {[]string{"link", "--as", "vm", "--languages", "sh"}, []string{"asks nobody for consent"}},
		"page of a vm":         {[]string{"link", "--as", "vm", "--consent-page"}, []string{"asks nobody for consent"}},
		"page of nothing":      {[]string{"link", "--consent", "allow", "--consent-page"}, []string{"--consent-page is for --consent ask"}},
		"no folder":            {[]string{"link", "--consent", "allow", "--folders", "/none/a,/none/b"}, []string{"is there: /none/a, /none/b", "--folders"}},
		"language of nobody":   {[]string{"link", "--consent", "deny", "--languages", "ruby"}, []string{`--languages cannot hold "ruby"`}},
		"labels of a machine":  {[]string{"token", "create", "--role", "vm", "--labels", "a=b"}, []string{"a linked machine has no labels"}},
		"no such role":         {[]string{"token", "create", "--role", "king"}, []string{`no tokens of role "king"`}},
		"named node":           {[]string{"token", "create", "--role", "node", "--name", "x"}, []string{"a machine gets its own when it joins"}},
		"no uses":              {[]string{"token", "create", "--role", "node", "--uses", "0"}, []string{"--uses cannot be 0"}},
		"no time":              {[]string{"token", "create", "--role", "node", "--ttl", "-1s"}, []string{"--ttl cannot be -1s"}},
		"ttl of an actor":      {[]string{"token", "create", "--name", "x", "--ttl", "1h"}, []string{"--ttl is for join tokens"}},
		"labels that are none": {[]string{"token", "create", "--role", "node", "--labels", "zone"}, []string{`label "zone"`}},
		"no node":              {[]string{"nodes", "drain"}, []string{"takes one NODE"}},
		"wait and undo":        {[]string{"nodes", "drain", "n", "--wait", "--undo"}, []string{"do not go together"}},
		"no node to recover":   {[]string{"recover", "--yes", "--data", "/none"}, []string{"/none is not the data directory of a node"}},
		"no step":              {[]string{"authority", "rotate", "back"}, []string{`no step "back"`}},
		"no name":              {[]string{"token", "create"}, []string{"--name NAME"}},
		"no session":           {[]string{"sessions", "close"}, []string{"--session-id N with -l LANG"}},
		"fork of nothing":      {[]string{"sessions", "fork", "a"}, []string{"NAME NEW-NAME"}},
		"call missing":         {[]string{"calls", "stop"}, []string{"takes one CALL", "use: locus calls stop CALL"}},
		"from alone":           {[]string{"calls", "show", "c", "--from", "3"}, []string{"add --follow"}},
		"from before start":    {[]string{"calls", "show", "c", "--follow", "--from", "-3"}, []string{"cannot be -3"}},
		"bad server":           {[]string{"status", "--server", "ftp://x"}, []string{"scheme must be http", "http://127.0.0.1:7070"}},
		"extra":                {[]string{"version", "now"}, []string{"takes no arguments"}},
		"unknown shell":        {[]string{"completion", "tcsh"}, []string{"bash, zsh, fish or powershell"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &fakeNode{answers: answers()}
			s := command(t, n, "")
			if status := s.a.run(t.Context(), row.args); status != 2 {
				t.Errorf("status %d, want 2", status)
			}
			for _, want := range row.wants {
				if !strings.Contains(s.err.String(), want) {
					t.Errorf("%q is not in %q", want, s.err.String())
				}
			}
			if got := n.requests(); len(got) > 0 {
				t.Errorf("sent %q", got)
			}
			if s.out.String() != "" {
				t.Errorf("printed %q on standard output", s.out.String())
			}
			// With --json the same is one object.
			s = command(t, n, "")
			if status := s.a.run(t.Context(), append([]string{row.args[0], "--json"}, row.args[1:]...)); status != 2 || !strings.Contains(s.out.String(), `"code":"invalid_argument"`) || !strings.Contains(s.out.String(), `"display":[]`) || s.err.String() != "" {
				t.Errorf("--json: status %d, want 2, %q, %q", status, s.out.String(), s.err.String())
			}
		})
	}
}

func TestNoNodeAndNoToken(t *testing.T) {
	for _, args := range [][]string{{"exec", "1"}, {"status"}, {"sessions"}, {"calls", "stop", "c"}, {"repl"}} {
		s := command(t, nil, "1\n")
		if status := s.a.run(t.Context(), args); status != 3 || !strings.Contains(s.err.String(), "start one with: locus up") {
			t.Errorf("%v: status %d, want 3: %s", args, status, s.err.String())
		}
	}
	s := command(t, &fakeNode{answers: answers()}, "")
	inner := s.a.getenv
	s.a.getenv = func(k string) string {
		if k == "LOCUS_TOKEN" {
			return ""
		}
		return inner(k)
	}
	if status := s.a.run(t.Context(), []string{"status"}); status != 2 || !strings.Contains(s.err.String(), "there is no ") || !strings.Contains(s.err.String(), "default.token") {
		t.Errorf("status %d, want 2: %s", status, s.err.String())
	}
}

// pressWhen waits for a condition and then presses Ctrl-C.
func (s *session) pressWhen(t *testing.T, ready func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ready() {
		if time.Now().After(deadline) {
			t.Error("what was waited for never came")
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.presses <- os.Interrupt
}

func TestInterruptOnceStopsTheCall(t *testing.T) {
	for _, args := range [][]string{{"exec", "while True: pass"}, {"calls", "show", "--follow", "c1"}} {
		n := &fakeNode{
			answers: map[string]answer{"POST /v1/executions/c1/stop": {200, `{}`}},
			stream:  events("started", started, "stdout", `{"text":"on\n"}`), hold: true, afterStop: events("result", stopped),
		}
		s := command(t, n, "")
		go s.pressWhen(t, func() bool { return strings.Contains(s.out.String(), "on") })
		if status := s.a.run(t.Context(), args); status != 1 {
			t.Errorf("%v: status %d, want 1: %s", args, status, s.err.String())
		}
		for _, want := range []string{"Ctrl-C again detaches from it", "stopped: The call was stopped."} {
			if !strings.Contains(s.err.String(), want) {
				t.Errorf("%v: %q is not in %q", args, want, s.err.String())
			}
		}
	}
}

func TestInterruptTwiceLeavesTheCall(t *testing.T) {
	n := &fakeNode{stream: events("started", started, "stdout", `{"text":"on\n"}`), hold: true}
	s := command(t, n, "")
	// The node does not stop at the first: it has no answer for stop.
	go func() {
		s.pressWhen(t, func() bool { return strings.Contains(s.out.String(), "on") })
		s.pressWhen(t, func() bool { return strings.Contains(s.err.String(), "stopping") })
	}()
	if status := s.a.run(t.Context(), []string{"exec", "while True: pass"}); status != 5 {
		t.Errorf("status %d, want 5: %s", status, s.err.String())
	}
	select {
	case <-n.left:
	case <-time.After(time.Minute):
		t.Error("the connection is still there")
	}
}
