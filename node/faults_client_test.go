package node_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/placement/history"
)

// ticks returns the machine's monotonic clock, which Python can read too.
func ticks() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// clients call a mesh continuously and record what they see.
type clients struct {
	t     testing.TB
	seed  uint64
	marks string // the file that code writes its marks to
	stop  chan struct{}
	work  sync.WaitGroup

	mu    sync.Mutex
	calls []history.Call
	codes map[string]int
}

func newClients(t testing.TB, seed uint64) *clients {
	t.Helper()
	dir, err := os.MkdirTemp("", "locus-marks")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	// Code may run as a user of its own.
	marks := filepath.Join(dir, "marks")
	if err := os.WriteFile(marks, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o777, marks: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	return &clients{t: t, seed: seed, marks: marks, stop: make(chan struct{}), codes: map[string]int{}}
}

// run starts one client for each of the worlds.
func (c *clients) run(all []*world) {
	for i, w := range all {
		random := rand.New(rand.NewPCG(c.seed, uint64(i)))
		c.work.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-c.stop:
					return
				default:
				}
				c.call(w, i, n, random)
			}
		})
	}
}

// end stops the clients and gives what they saw.
func (c *clients) end() ([]history.Call, []history.Mark) {
	close(c.stop)
	c.work.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls, c.readMarks()
}

// program is the code of a call: it appends its token to the session's list, records this in a
// file outside, runs for a while, and returns the list.
const program = `import os, time
def _mark(what):
    f = os.open(%q, os.O_WRONLY | os.O_APPEND)
    os.write(f, ("%%s %%s %%s %%s %%d\n" %% (%q, g, %q, what, time.monotonic_ns())).encode())
    os.close(f)
if "x" not in globals():
    x, g = [], os.urandom(6).hex()
_mark("start")
x.append(%q)
for _ in range(%d):
    time.sleep(0.01)
    _mark("tick")
[g, list(x)]`

// reading returns the list.
const reading = `[g, list(x)] if "x" in globals() else ["", []]`

// answerSlack is how long after its deadline a call may be answered at most, on a loaded
// machine. It detects calls that hang, not slow ones.
const answerSlack = 20 * time.Second

func (c *clients) call(w *world, client, n int, random *rand.Rand) {
	h := history.Call{Client: client, Session: fmt.Sprint("s", random.IntN(2)), Token: fmt.Sprintf("%d.%d", client, n)}
	timeout := []float64{2, 6, 15}[random.IntN(3)]
	a := args{"session_name": h.Session, "state_mode": "stateful", "timeout_s": timeout}
	session := h.Session
	switch p := random.IntN(10); {
	case p < 3:
		h.Read = true
		a["state_mode"], a["code"] = "read_only", reading
	case p == 3:
		h.Session, session = "", "-"
		delete(a, "session_name")
		a["state_mode"] = "stateless"
	}
	if !h.Read {
		onLoss := []string{"retry", "retry", "not_started", "report"}[random.IntN(4)]
		h.Once = onLoss != "retry"
		a["on_loss"] = onLoss
		a["code"] = fmt.Sprintf(program, c.marks, session, h.Token, h.Token, random.IntN(8))
	}
	h.Invoked = ticks()
	res := w.exec(a.with(nil))
	h.Returned = ticks()
	if took := time.Duration(h.Returned - h.Invoked); took > time.Duration(timeout*float64(time.Second))+answerSlack {
		c.t.Errorf("%s was answered after %s, with a deadline of %vs: %s", h.Token, took, timeout, show(res))
	}
	h.Text = show(res)
	if err := h.Answer(res); err != nil {
		c.t.Errorf("%s: %v: %s", h.Token, err, h.Text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, h)
	code := "done"
	if res.Code != nil {
		code = string(*res.Code)
	}
	c.codes[code]++
}

func (c *clients) readMarks() (marks []history.Mark) {
	f, err := os.Open(c.marks)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		part := strings.Fields(lines.Text())
		if len(part) != 5 {
			c.t.Errorf("a mark is torn: %q", lines.Text())
			continue
		}
		at, err := strconv.ParseInt(part[4], 10, 64)
		if err != nil {
			c.t.Error(err)
		}
		m := history.Mark{Session: part[0], Generation: part[1], Token: part[2], Start: part[3] == "start", At: at}
		if m.Session == "-" {
			m.Session = ""
		}
		marks = append(marks, m)
	}
	if err := lines.Err(); err != nil {
		c.t.Error(err)
	}
	return marks
}

// check stops the clients and fails the test for each promise that was broken.
func (c *clients) check() {
	c.t.Helper()
	calls, marks := c.end()
	answered := 0
	for _, h := range calls {
		if h.Outcome == history.Answered {
			answered++
		}
	}
	c.t.Logf("%d calls, %d answered, %d marks: %v", len(calls), answered, len(marks), c.codes)
	wrong := history.Check(calls, marks, patience)
	for _, w := range wrong {
		c.t.Errorf("seed %d: %s", c.seed, w)
	}
	if len(wrong) > 0 {
		for _, h := range calls {
			c.t.Logf("%d..%d %s %s %s once=%v told=%v %s", h.Invoked/1e6, h.Returned/1e6, h.Session, h.Token, h.Outcome, h.Once, h.Told, h.Text)
		}
	}
	if answered < 20 {
		c.t.Errorf("only %d calls were answered", answered)
	}
}
