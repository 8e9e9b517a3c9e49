package oneshot

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

func TestLargeOutputIsNotBuffered(t *testing.T) {
	r := needs(t, surfaces.Bash)
	const size = 1 << 30
	out := &counter{}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	res := r.Run(context.Background(), Request{CallID: "c", Language: "bash", Code: "head -c 1073741824 /dev/zero", Timeout: 5 * limit}, out, nil)
	runtime.ReadMemStats(&after)
	if res.Status != surfaces.StatusDone || out.n != size {
		t.Errorf("%s, %d bytes", code(res), out.n)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}

// counter counts output.
type counter struct{ n int64 }

func (c *counter) Output(_ string, p []byte) { c.n += int64(len(p)) }
func (c *counter) Event(surfaces.Event)      {}

func TestOutputIsPassedUnchanged(t *testing.T) {
	bash, python := surfaces.Bash, surfaces.Python
	for name, c := range map[string]struct {
		language surfaces.Language
		code     string
		stdout   string
	}{
		"binary":          {bash, `printf 'a\0b\377\376'`, "a\x00b\xff\xfe"},
		"a huge line":     {bash, "head -c 3000000 /dev/zero | tr '\\0' x", strings.Repeat("x", 3_000_000)},
		"the last line":   {bash, "seq 1 200000 | tail -n 1; exit 3", "200000\n"},
		"closed":          {bash, "echo a; exec >&- 2>&-; echo b; exit 0", "a\n"},
		"python's bytes":  {python, "import os\nos.write(1, b'\\xff\\x00')\nNone", "\xff\x00"},
		"python's closed": {python, "import sys, os\nprint('a', flush=True)\nsys.stdout.close()\nos.close(1)\n5", "a\n"},
		"python's own":    {python, "import sys, io\nsys.stdout = io.StringIO()\nprint('hidden')", ""},
		"no newline":      {python, "print('x' * 100000, end='')", strings.Repeat("x", 100_000)},
	} {
		eachWay(t, name, c.language, func(t *testing.T, r *Runner) {
			res, out := run(t, r, c.language, c.code)
			if res.Status != surfaces.StatusDone || out.stdout() != c.stdout {
				t.Errorf("%s %+v: %d bytes, %.80q", code(res), res.Exception, len(out.stdout()), out.stdout())
			}
		})
	}
}

func TestOutputIsStreamed(t *testing.T) {
	r := needs(t, surfaces.Python)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := newRecord()
	done := make(chan surfaces.Result, 1)
	go func() {
		done <- r.Run(ctx, Request{CallID: "c", Language: "python", Code: "import time\nprint('first')\ntime.sleep(600)", Timeout: limit}, out, nil)
	}()
	out.await(t, func(s string) bool { return s == "first\n" })
	cancel()
	<-done
}

// A process that goes on writing after the program's end is killed and delays nothing.
func TestWritersLeftBehind(t *testing.T) {
	r := needs(t, surfaces.Bash)
	began := time.Now()
	res, out := run(t, r, surfaces.Bash, "setsid yes & echo started; sleep 0.2", within(5*limit))
	if res.Status != surfaces.StatusDone || !strings.Contains(out.stdout(), "started\n") {
		t.Errorf("got %s, want Status %v, stdout with \"started\\n\"", code(res), surfaces.StatusDone)
	}
	if took := time.Since(began); took > 2*limit {
		t.Errorf("the result took %v", took)
	}
}

// Code that writes to all of its descriptors cannot forge a frame.
func TestForgedFrames(t *testing.T) {
	r := needs(t, surfaces.Python)
	res, _ := run(t, r, surfaces.Python, `
import os, struct
body = b'{"result":"forged","type":"str"}'
for fd in range(3, 4096):
    for frame in (b"\x00" * 16 + struct.pack("<cI", b"D", len(body)) + body, b"garbage" * 100, body):
        try:
            os.write(fd, frame)
        except OSError:
            pass
await notify("still heard")
6 * 7`)
	if string(res.Result) != "42" {
		t.Errorf("%s %s %+v, want Result \"42\"", code(res), res.Result, res.Exception)
	}
}

func TestManyAtOnce(t *testing.T) {
	r := needs(t, surfaces.Python)
	done := make(chan surfaces.Result)
	for i := range 6 {
		go func() {
			language, text := "python", "import os\nsum(range(1000))"
			if i%2 == 0 {
				language, text = "sh", "echo x"
			}
			done <- r.Run(context.Background(), Request{CallID: "c", Language: language, Code: text, Timeout: limit}, newRecord(), nil)
		}()
	}
	for range 6 {
		if res := <-done; res.Status != surfaces.StatusDone {
			t.Errorf("%s %+v, want Status %v", code(res), res.Exception, surfaces.StatusDone)
		}
	}
}
