package node_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
)

func TestOutputIsExact(t *testing.T) {
	w := fresh(t)
	for _, c := range []struct{ code, out, err string }{
		{"print('x')", "x\n", ""},
		{"import sys; sys.stdout.write('no newline')", "no newline", ""},
		{"import sys; print('e', file=sys.stderr)", "", "e\n"},
		{"import os; os.write(1, b'fd1'); os.write(2, b'fd2')", "fd1", "fd2"},
		{"import subprocess; subprocess.run(['echo', 'child'])", "child\n", ""},
		{"import os; os.system('echo system')", "system\n", ""},
		{"import ctypes; ctypes.CDLL(None).puts(b'from C')", "from C\n", ""},
		{"import ctypes; ctypes.PyDLL(None).printf(b'1' * 100_000)", strings.Repeat("1", 100_000), ""},
		{"print('\\udcc3')", "\\udcc3\n", ""},
		{"import os; os.write(1, b'a\\0b')", "a\x00b", ""},
		{"import os; os.write(1, b'\\xff\\xfe')", "\uFFFD\uFFFD", ""},
		{"print('é€😀')", "é€😀\n", ""},
	} {
		res := ok(t, w.once(c.code))
		if res.Stdout != c.out || res.Stderr != c.err || res.Truncated != nil {
			t.Errorf("%s: stdout %.80q stderr %.80q truncated %v, want %.80q, %.80q, not truncated", c.code, res.Stdout, res.Stderr, res.Truncated, c.out, c.err)
		}
	}
	for n := 1; n <= 20; n++ {
		stdout(t, w.once(fmt.Sprintf("import os; os.write(1, b'x' * %d)", n)), strings.Repeat("x", n))
	}
}

func TestTruncationIsExact(t *testing.T) {
	w := fresh(t)
	whole := calls.HeadBytes + calls.TailBytes
	for _, n := range []int{whole - 1, whole, whole + 1, 10 * whole} {
		res := ok(t, w.once(fmt.Sprintf("import sys; n = %d; sys.stdout.write('a' * (n // 2) + 'b' * (n - n // 2))", n)))
		if n <= whole {
			if res.Truncated != nil || len(res.Stdout) != n {
				t.Fatalf("%d bytes: %d shown, %+v, want all shown", n, len(res.Stdout), res.Truncated)
			}
			continue
		}
		cut := res.Truncated.Stdout
		if cut.Total != int64(n) || cut.Shown != int64(len(res.Stdout)) || res.Truncated.Stderr != nil {
			t.Fatalf("%d bytes: %+v", n, cut)
		}
		if !strings.HasPrefix(res.Stdout, "aaa") || !strings.HasSuffix(res.Stdout, "bbb") {
			t.Fatalf("%d bytes: head or tail is missing", n)
		}
	}
}

func TestTheLastLineOfOutputIsKept(t *testing.T) {
	w := fresh(t)
	rounds := 50
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		res := ok(t, w.once("import subprocess, sys\nsubprocess.run(['seq', '1', '100000'])\nsubprocess.run('seq 1 100000 >&2', shell=True)"))
		if !strings.HasSuffix(res.Stdout, "\n100000\n") || !strings.HasSuffix(res.Stderr, "\n100000\n") {
			t.Fatalf("stdout ends %q, stderr ends %q", res.Stdout[len(res.Stdout)-20:], res.Stderr[max(0, len(res.Stderr)-20):])
		}
	}
	for range rounds {
		stdout(t, w.keep("s", "print('x')"), "x\n")
	}
}

// A process that one call left running neither delays the next call nor appears in its output.
func TestNoCrossTalk(t *testing.T) {
	w := fresh(t)
	first := ok(t, w.keep("s", `
import threading, subprocess, asyncio, time
def chatter():
    while True:
        print("thread")
        time.sleep(0.001)
threading.Thread(target=chatter, daemon=True).start()
subprocess.Popen("while :; do echo job; sleep 0.01; done", shell=True)
async def task():
    while True:
        print("task")
        await asyncio.sleep(0.001)
running = asyncio.ensure_future(task())
await asyncio.sleep(0.05)`))
	if !strings.Contains(first.Stdout, "task") || !strings.Contains(first.Stdout, "thread") {
		t.Fatalf("the first call printed %.100q", first.Stdout)
	}
	for range 20 {
		stdout(t, w.keep("s", "import asyncio; await asyncio.sleep(0.01); print('mine')"), "mine\n")
	}
	// Late output is told with the call that it belongs to.
	eventually(t, "late output is told", func() bool {
		var res surfaces.Result
		w.get("/v1/executions/"+first.CallID, &res)
		for _, n := range res.Notice {
			if n.Kind == "late_output" && strings.Contains(n.Text, "job") {
				return true
			}
		}
		return false
	})
}

func TestAGigabyteOfOutputLeavesMemoryFlat(t *testing.T) {
	w := fresh(t)
	size := 1 << 30
	if testing.Short() {
		size = 64 << 20
	}
	ok(t, w.once("1"))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res := ok(t, w.once(fmt.Sprintf("import subprocess; subprocess.run(['head', '-c', '%d', '/dev/zero'])", size)))
	runtime.GC()
	runtime.ReadMemStats(&after)
	if res.Truncated == nil || res.Truncated.Stdout.Total != int64(size) {
		t.Fatalf("counted %+v", res.Truncated)
	}
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 128<<20 {
		t.Fatalf("the node grew by %d MiB", grown>>20)
	}
}

func TestStreaming(t *testing.T) {
	w := fresh(t)
	events := w.stream(t.Context(), args{"code": `
import asyncio
print("before")
await notify("half way")
answer = await request_clarification("which one?")
print("got", answer)
answer`})
	id := await(t, events, "started").data["call_id"].(string)
	if e := await(t, events, "stdout"); e.data["text"] != "before\n" {
		t.Fatalf("got %v, want the text before", e)
	}
	if e := await(t, events, "notify"); e.data["text"] != "half way" {
		t.Fatalf("got %v, want the text half way", e)
	}
	question := await(t, events, "clarification")
	if question.data["question"] != "which one?" {
		t.Fatalf("got %v, want the question which one?", question)
	}
	var told map[string]any
	if status := w.post("/v1/executions/"+id+"/answer", args{"id": question.data["id"], "answer": "the red one"}, &told); status != 200 {
		t.Fatalf("status %d, want 200: %v", status, told)
	}
	if e := await(t, events, "stdout"); e.data["text"] != "got the red one\n" {
		t.Fatalf("got %v, want the text got the red one", e)
	}
	if e := await(t, events, "result"); e.data["result"] != "the red one" || e.data["stdout"] != "before\ngot the red one\n" {
		t.Fatalf("got %v, want the result and all output", e)
	}
}

// Output that was printed before an event is delivered before it. Output that was printed
// after it may be too: the code does not wait for the delivery of its events.
func TestEventsFollowEarlierOutput(t *testing.T) {
	w := fresh(t)
	printed, notes := "", 0
	for e := range w.stream(t.Context(), args{"code": "for i in range(200):\n  print('out', i)\n  await notify(str(i))"}) {
		switch e.name {
		case "stdout":
			printed += e.data["text"].(string)
		case "notify":
			if !strings.Contains(printed, "out "+e.data["text"].(string)+"\n") {
				t.Fatalf("note %v came before what was printed before it", e.data["text"])
			}
			notes++
		}
	}
	if notes != 200 {
		t.Fatalf("got %d notes, want 200", notes)
	}
}

// A reader that lost its connection continues from where it was.
func TestOutputIsReadOnAfterABrokenStream(t *testing.T) {
	w := fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	events := w.stream(ctx, args{"code": "import time\nfor i in range(200):\n  print(i)\n  time.sleep(0.01)\n'end'"})
	id := await(t, events, "started").data["call_id"].(string)
	seen := await(t, events, "stdout").data["text"].(string)
	cancel()
	for range events {
	}
	req := w.newRequest(t.Context(), "GET", fmt.Sprintf("/v1/executions/%s?from=%d", id, len(seen)), nil)
	var want strings.Builder
	for i := range 200 {
		fmt.Fprintln(&want, i)
	}
	for e := range w.events(req) {
		switch e.name {
		case "stdout":
			seen += e.data["text"].(string)
		case "result":
			if e.data["result"] != "end" {
				t.Fatalf("got %v, want the result end", e)
			}
		}
	}
	if seen != want.String() {
		t.Fatalf("read %d bytes in two parts, want %d", len(seen), want.Len())
	}
}

func TestConcurrentCallsKeepTheirOutputApart(t *testing.T) {
	w := fresh(t)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			res := w.once(fmt.Sprintf("for _ in range(1000): print('call %d')", i))
			if res.Stdout != strings.Repeat(fmt.Sprintf("call %d\n", i), 1000) {
				t.Errorf("call %d: %.100q", i, res.Stdout)
			}
		})
	}
	all.Wait()
}
