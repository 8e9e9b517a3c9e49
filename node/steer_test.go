package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// running starts a call in the background and waits until its code runs.
func (w *world) running(t *testing.T, session, code string) (id string) {
	t.Helper()
	res := w.exec(args{"code": "print('running')\n" + code, "state_mode": "stateful", "session_name": session, "background": true, "timeout_s": 600})
	if res.Status != surfaces.StatusRunning || res.CallID == "" {
		t.Fatal(show(res))
	}
	eventually(t, "the code runs", func() bool { return strings.HasPrefix(w.result(res.CallID).Stdout, "running\n") })
	return res.CallID
}

func (w *world) result(id string) surfaces.Result {
	w.t.Helper()
	var res surfaces.Result
	w.get("/v1/executions/"+id, &res)
	return res
}

func (w *world) ended(t *testing.T, id string) surfaces.Result {
	t.Helper()
	eventually(t, "the call has ended", func() bool { return w.result(id).Status != surfaces.StatusRunning })
	return w.result(id)
}

func (w *world) steer(t *testing.T, id, action string, body args) map[string]any {
	t.Helper()
	if body == nil {
		body = args{}
	}
	var out map[string]any
	if status := w.post("/v1/executions/"+id+"/"+action, body, &out); status != 200 {
		t.Fatalf("%s: status %d: %v", action, status, out)
	}
	return out
}

func TestStop(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "x = 1"))
	id := w.running(t, "s", "import time; time.sleep(1000)")
	w.steer(t, id, "stop", nil)
	res := code(t, w.ended(t, id), surfaces.CodeStopped)
	if res.Exit.Reason != "stopped" || res.StateLost.Loss != nil || res.Attempts != 1 {
		t.Fatal(show(res))
	}
	value(t, w.keep("s", "x"), "1")
}

// A call that is stopped while it is paused is interrupted when its threads go on, all at once:
// whichever of them is first, the code's own has the interrupt.
func TestStopWhilePaused(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "import threading, time\nx = 1\nfor _ in range(20): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"))
	for range 4 {
		id := w.running(t, "s", "time.sleep(1000)")
		w.steer(t, id, "pause", nil)
		w.steer(t, id, "stop", nil)
		if res := code(t, w.ended(t, id), surfaces.CodeStopped); res.StateLost.Loss != nil || res.Exit.Signal != "SIGINT" {
			t.Fatal(show(res))
		}
	}
	value(t, w.keep("s", "x"), "1")
}

// What a shell cannot be steered by is refused, and no fault of the node.
func TestSteeringThatAShellDoesNotTake(t *testing.T) {
	w := fresh(t)
	for _, language := range []string{"bash", "sh", "zsh"} {
		t.Run(language, func(t *testing.T) {
			w.needs(t, language)
			id := w.exec(args{"code": "echo begun; sleep 1000", "language": language, "background": true}).CallID
			at := "/v1/executions/" + id
			eventually(t, "it runs", func() bool { return w.result(id).Stdout != "" })
			w.refuses("POST", at+"/interject", args{"message": "hello"}, 422, "takes no messages")
			if told := w.steer(t, id, "ask", nil); told["stdout"] != "begun\n" {
				t.Error(told)
			}
			w.steer(t, id, "stop", nil)
			code(t, w.ended(t, id), surfaces.CodeStopped)
		})
	}
}

// A process that dies of the interrupt has lost nothing that is to be tried again: the
// code would run once more when it was told to stop.
func TestCodeThatDiesOfAStopIsNotRunAgain(t *testing.T) {
	w := fresh(t)
	for _, tt := range []struct{ language, mode, code string }{
		{"python", "stateless", "import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL)\nopen('began', 'a').write('.'); time.sleep(1000)"},
		{"python", "stateful", "import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL)\nopen('began', 'a').write('.'); time.sleep(1000)"},
		{"python", "stateful", "import os, signal, time; signal.signal(signal.SIGINT, lambda *_: os._exit(0))\nopen('began', 'a').write('.'); time.sleep(1000)"},
		{"sh", "stateful", "trap - INT; printf . >>began; while :; do :; done"},
		{"zsh", "stateful", "trap - INT; printf . >>began; while :; do :; done"},
	} {
		t.Run(tt.language+" "+tt.mode, func(t *testing.T) {
			w.needs(t, tt.language)
			began := func() string { return w.shell("bash", "cat began 2>/dev/null; true").Stdout }
			stdout(t, w.shell("bash", "rm -f began"), "")
			a := args{"language": tt.language, "code": tt.code, "state_mode": tt.mode, "background": true, "timeout_s": 600}
			if tt.mode == "stateful" {
				a["session_name"] = "dies of it " + tt.language
			}
			id := w.exec(a).CallID
			eventually(t, "the code runs", func() bool { return began() == "." })
			w.steer(t, id, "stop", nil)
			res := code(t, w.ended(t, id), surfaces.CodeStopped)
			if res.Exit == nil || res.Exit.Reason != "stopped" || res.Attempts != 1 || began() != "." {
				t.Fatalf("began %q: %s", began(), show(res))
			}
			if lost := res.StateLost.Loss; (lost != nil) != (tt.mode == "stateful") || lost != nil && lost.Reason != "stopped" {
				t.Fatal(show(res))
			}
		})
	}
}

func TestPauseStopsTheCodeAndItsClock(t *testing.T) {
	w := fresh(t)
	id := w.running(t, "s", "import time\nn = 0\nwhile n < 10**9:\n  n += 1\n  print(n)\n  time.sleep(0.001)")
	w.steer(t, id, "pause", nil)
	w.steer(t, id, "pause", nil)
	size := func() int { return len(w.result(id).Stdout) }
	var before int
	eventually(t, "output stands still", func() bool {
		before = size()
		for range 20 {
			if size() != before {
				return false
			}
		}
		return true
	})
	var list struct {
		Executions []map[string]any `json:"executions"`
	}
	w.get("/v1/executions", &list)
	if list.Executions[0]["paused"] != true {
		t.Fatalf("got %v", list.Executions[0])
	}
	w.steer(t, id, "resume", nil)
	eventually(t, "output goes on", func() bool { return size() > before })
	w.steer(t, id, "pause", nil)
	w.steer(t, id, "stop", nil)
	code(t, w.ended(t, id), surfaces.CodeStopped)
}

func TestAskReadsABusySession(t *testing.T) {
	w := fresh(t)
	ok(t, w.keep("s", "progress = {'done': 0}"))
	id := w.running(t, "s", "import time\ndef work():\n  progress['done'] = 7\n  print('seven')\n  time.sleep(1000)\nwork()")
	eventually(t, "the work is at seven", func() bool { return strings.Contains(w.result(id).Stdout, "seven") })
	out := w.steer(t, id, "ask", args{"code": "progress['done'] += 1; progress['done']"})
	if got := fmt.Sprint(out["result"].(map[string]any)["result"]); got != "8" {
		t.Fatalf("got %v", out)
	}
	if first := "Traceback (most recent call last):\n  File \"<cell 2>\""; !strings.HasPrefix(out["stack"].(string), first) {
		t.Fatalf("the stack is %v", out["stack"])
	}
	if !strings.Contains(out["stack"].(string), "work") || !strings.Contains(out["stdout"].(string), "seven") {
		t.Fatalf("got %v", out)
	}
	value(t, w.read("s", "progress['done']"), "7")
	w.steer(t, id, "stop", nil)
	value(t, w.keep("s", "progress['done']"), "7")
}

// Whoever asks a call that is about to end is answered, or told that it runs no more.
func TestAskOfACallThatEnds(t *testing.T) {
	w := fresh(t)
	for range 10 {
		id := w.exec(args{"code": "import time\nprint('here', flush=True)\ntime.sleep(1000)", "background": true}).CallID
		eventually(t, "the code runs", func() bool { return w.result(id).Stdout != "" })
		w.steer(t, id, "stop", nil)
		eventually(t, "nothing can be asked any more", func() bool {
			var out struct {
				Result surfaces.Result
				Code   string
			}
			status := w.post("/v1/executions/"+id+"/ask", args{"code": "1"}, &out)
			if code := out.Result.Code; status > 422 || code != nil && *code == surfaces.CodeInternal {
				t.Fatalf("status %d: %s", status, show(out.Result))
			}
			return status == 422 && w.result(id).Status != surfaces.StatusRunning
		})
	}
}

// A shell in the middle of a command cannot be copied. Whoever asks is told so at once, with
// what is known: the running commands and the output so far.
func TestAskTellsWhatIsKnownOfABusyShell(t *testing.T) {
	w := fresh(t)
	for _, in := range []args{{"state_mode": "stateless"}, {"state_mode": "stateful", "session_name": "s"}} {
		in["code"], in["language"], in["background"] = "echo so far; sleep 1000", "bash", true
		id := w.exec(in).CallID
		eventually(t, "it has written", func() bool { return strings.Contains(w.result(id).Stdout, "so far") })
		eventually(t, "it runs its command", func() bool {
			return strings.Contains(w.steer(t, id, "ask", nil)["stack"].(string), "sleep 1000")
		})
		out := w.steer(t, id, "ask", args{"code": "echo $x"})
		said := out["result"].(map[string]any)
		if said["status"] != "refused" || said["code"] != "invalid_argument" || !strings.Contains(said["error"].(string), "bash") {
			t.Errorf("got %v", said)
		}
		if fix := fmt.Sprint(said["fix"]); fix != "map[drop:[code] set:map[]]" {
			t.Errorf("the fix is %s", fix)
		}
		if !strings.Contains(out["stack"].(string), "sleep 1000") || !strings.Contains(out["stdout"].(string), "so far") {
			t.Errorf("got %v", out)
		}
		w.steer(t, id, "stop", nil)
		code(t, w.ended(t, id), surfaces.CodeStopped)
	}
}

// What an action does not take is refused, and changes nothing.
func TestSteeringIsJudged(t *testing.T) {
	w := fresh(t)
	id := w.running(t, "s", "import asyncio\nawait asyncio.sleep(1000)")
	for _, tt := range []struct {
		action string
		body   any
		says   string
	}{
		{"interject", args{}, "no message"},
		{"interject", args{"message": ""}, "empty"},
		{"interject", args{"message": nil}, "no message"},
		{"interject", args{"message": 5}, "at message there must be a string, not a number"},
		{"interject", args{"message": "x", "cod": 1}, "cod"},
		{"answer", args{}, "no answer"},
		{"ask", args{"cod": "1"}, "cod"},
		{"ask", args{"message": "1"}, "message"},
		{"ask", args{"code": "1", "timeout_s": "x"}, "at timeout_s there must be a number"},
		{"ask", args{"code": "1", "timeout_s": -1}, "timeout_s = -1"},
		{"ask", args{"code": "1", "timeout_s": 1e300}, "timeout_s = 1e+300"},
		{"ask", []int{1}, "must be an object, not a list"},
		{"pause", args{"message": "x"}, "takes no arguments"},
	} {
		var said surfaces.Result
		if status := w.post("/v1/executions/"+id+"/"+tt.action, tt.body, &said); status != 422 || said.Suggestion == nil || !strings.Contains(*said.Error, tt.says) {
			t.Errorf("%s %v: status %d: %s", tt.action, tt.body, status, show(said))
		}
	}
	w.steer(t, id, "pause", nil)
	for _, action := range []string{"ask", "interject"} {
		var said surfaces.Result
		if status := w.post("/v1/executions/"+id+"/"+action, map[string]args{"ask": {"code": "1"}, "interject": {"message": "x"}}[action], &said); status != 422 || !strings.Contains(*said.Error, "it is paused") || !strings.Contains(*said.Suggestion, "resume") {
			t.Errorf("%s of a paused call: status %d: %s", action, status, show(said))
		}
	}
	w.steer(t, id, "resume", nil)
	w.steer(t, id, "resume", nil)
	w.steer(t, id, "stop", nil)
	w.ended(t, id)
	var said surfaces.Result
	if w.post("/v1/executions/"+id+"/resume", args{}, &said); !strings.Contains(*said.Error, "has ended") {
		t.Error(show(said))
	}
}

func TestCallsAreListedToALimit(t *testing.T) {
	w := fresh(t)
	for range 3 {
		ok(t, w.once("1"))
	}
	var list struct {
		Executions []map[string]any `json:"executions"`
	}
	for query, n := range map[string]int{"": 3, "?limit=2": 2, "?limit=0": 0, "?limit=100": 3} {
		if w.get("/v1/executions"+query, &list); len(list.Executions) != n {
			t.Errorf("%q: %d calls", query, len(list.Executions))
		}
	}
	var said surfaces.Result
	if status := w.get("/v1/executions?limit=abc", &said); status != 422 || !strings.Contains(*said.Error, "abc") {
		t.Errorf("status %d: %s", status, show(said))
	}
}

func TestCallsAreListedByHowTheyStand(t *testing.T) {
	w := fresh(t)
	running := w.running(t, "s", "import time\ntime.sleep(600)")
	ok(t, w.once("1"))
	code(t, w.once("1/0"), surfaces.CodeException)
	for status, n := range map[string]int{"running": 1, "done": 1, "failed": 1, "refused": 0} {
		var list gateway.ExecutionList
		if w.get("/v1/executions?status="+status, &list); len(list.Executions) != n {
			t.Errorf("%s: %d calls", status, len(list.Executions))
		}
		for _, c := range list.Executions {
			if string(c.Status) != status || status == "running" && c.CallID != running {
				t.Errorf("%s: %+v", status, c)
			}
		}
	}
	var said surfaces.Result
	if status := w.get("/v1/executions?status=runing", &said); status != 422 || !strings.Contains(*said.Error, "runing") {
		t.Errorf("status %d: %s", status, show(said))
	}
	w.steer(t, running, "stop", nil)
	w.ended(t, running)
}

// Whoever asks is told who it is; only operators were told before, by what else they see.
func TestStatusSaysWhoAsks(t *testing.T) {
	w := start(t, t.TempDir())
	var mine gateway.StatusInfo
	w.newActor(t, "somebody").get("/v1/status", &mine)
	if mine.Actor != "somebody" || mine.Operator {
		t.Errorf("an agent is %q, operator: %v", mine.Actor, mine.Operator)
	}
	if w.get("/v1/status", &mine); mine.Actor != "default" || !mine.Operator {
		t.Errorf("an operator is %q, operator: %v", mine.Actor, mine.Operator)
	}
	eventually(t, "the node has told the mesh what it holds", func() bool {
		var list gateway.NodeList
		w.get("/v1/nodes", &list)
		return len(list.Nodes) == 1 && list.Nodes[0].MemoryBytes > 0 && !list.Nodes[0].MemoryShort
	})
}

func TestInterject(t *testing.T) {
	w := fresh(t)
	id := w.running(t, "s", "import asyncio\nfirst = await interjections.get()\nwhile not (rest := interjections.pending()): await asyncio.sleep(0.01)\n[first, rest]")
	w.steer(t, id, "interject", args{"message": "hurry"})
	w.steer(t, id, "interject", args{"message": "up"})
	res := ok(t, w.ended(t, id))
	if got := string(res.Result); got != `["hurry",["up"]]` && got != `["hurry", ["up"]]` {
		t.Fatalf("got %s", got)
	}
}

func TestSteeringWhatHasEnded(t *testing.T) {
	w := fresh(t)
	res := ok(t, w.once("1"))
	var out map[string]any
	for _, action := range []string{"pause", "resume", "stop", "ask", "interject", "answer"} {
		if status := w.post("/v1/executions/"+res.CallID+"/"+action, args{}, &out); status != 422 {
			t.Errorf("%s: status %d: %v", action, status, out)
		}
	}
	if status := w.post("/v1/executions/nope/stop", args{}, &out); status != 404 {
		t.Errorf("status %d: %v", status, out)
	}
}

func TestAnotherActorCannotSeeTheCall(t *testing.T) {
	w, other := fresh(t), fresh(t)
	res := ok(t, w.once("1"))
	var out map[string]any
	if status := other.get("/v1/executions/"+res.CallID, &out); status != 404 {
		t.Fatalf("status %d: %v", status, out)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	w := fresh(t)
	a := args{"code": "open('runs', 'a').write('.')\nprint('ran')\n7", "idempotency_key": "k"}
	first := ok(t, w.exec(a))
	for range 3 {
		again := ok(t, w.exec(a))
		if again.CallID != first.CallID || string(again.Result) != "7" || again.Stdout != "ran\n" {
			t.Fatal(show(again))
		}
	}
	for _, more := range []args{{"timeout_s": 120}, {"thought": "again"}, {"background": false, "state_mode": "stateless"}} {
		if again := ok(t, w.exec(a.with(more))); again.CallID != first.CallID {
			t.Error(show(again))
		}
	}
	value(t, w.once("len(open('runs').read())"), "1")
	var res surfaces.Result
	if status := w.post("/v1/tools/execute_code", a.with(args{"language": "python", "code": "8"}), &res); status != 409 {
		t.Fatalf("status %d: %s", status, show(res))
	}
}

// An answer without an id is for the one question that waits; one that is for none
// is refused, not lost.
func TestAnAnswerFindsItsQuestion(t *testing.T) {
	w := fresh(t)
	id := w.running(t, "s", `
import asyncio
a = await request_clarification("one?")
b, c = await asyncio.gather(request_clarification("two?"), request_clarification("three?"))
print("asked")
[a, b, c]`)
	answer := func(body args) (said surfaces.Result, status int) {
		status = w.post("/v1/executions/"+id+"/answer", body, &said)
		return said, status
	}
	events := w.follow(t, id)
	asked := func() string { t.Helper(); return await(t, events, "clarification").data["id"].(string) }
	first := asked()
	if res := w.result(id); res.Node == "" || len(res.Notice) != 1 || res.Notice[0] != (surfaces.Notice{Kind: "clarification", Text: first + ": one?"}) {
		t.Errorf("the result so far: %s", show(res))
	}
	if said, status := answer(args{"id": "none", "answer": "x"}); status != 422 || said.Suggestion == nil || !strings.Contains(*said.Suggestion, first) {
		t.Errorf("status %d: %s", status, show(said))
	}
	if said, status := answer(args{"answer": "A"}); status != 200 {
		t.Fatalf("status %d: %s", status, show(said))
	}
	two, three := asked(), asked()
	if res := w.result(id); len(res.Notice) != 2 || strings.Contains(show(res), "one?") {
		t.Errorf("the result so far: %s", show(res))
	}
	if said, status := answer(args{"answer": "x"}); status != 422 || !strings.Contains(*said.Suggestion, two) {
		t.Errorf("status %d: %s", status, show(said))
	}
	for question, text := range map[string]string{two: "B", three: "C"} {
		if said, status := answer(args{"id": question, "answer": text}); status != 200 {
			t.Fatalf("status %d: %s", status, show(said))
		}
	}
	res := w.ended(t, id)
	value(t, res, `["A","B","C"]`)
	if len(res.Notice) != 0 {
		t.Errorf("in the end: %s", show(res))
	}
	if said, status := answer(args{"answer": "late"}); status != 422 {
		t.Errorf("status %d: %s", status, show(said))
	}
}
