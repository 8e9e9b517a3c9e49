package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// paper is a kernel without a process. The methods that it does not implement are not
// called.
type paper struct {
	kernel.Kernel
	process *sandbox.Process
	dead    chan struct{}
	kill    sync.Once
	jobs    *[]int
	run     func(code string)
	busy    atomic.Bool
	harmed  atomic.Bool // killed while it ran
}

func newPaper(run func(code string)) *paper {
	p := &paper{dead: make(chan struct{}), run: run, jobs: new([]int)}
	p.process = sandbox.FakeProcess(p.dead)
	return p
}

func (p *paper) Run(_ context.Context, program kernel.Program) (kernel.Report, error) {
	p.busy.Store(true)
	defer p.busy.Store(false)
	if p.run != nil {
		p.run(program.Code)
	}
	select {
	case <-p.dead:
		return kernel.Report{}, &kernel.Died{Started: true}
	default:
	}
	return kernel.Report{Alone: true}, nil
}

func (p *paper) Fork(context.Context, kernel.Kind, string) (kernel.Kernel, []surfaces.Notice, error) {
	select {
	case <-p.dead:
		return nil, nil, &kernel.Died{}
	default:
	}
	return newPaper(p.run), nil, nil
}

func (p *paper) Kill() {
	p.kill.Do(func() {
		p.harmed.Store(p.busy.Load())
		close(p.dead)
	})
}
func (p *paper) Group() sandbox.Group      { return paperGroup{p: p} }
func (p *paper) Process() *sandbox.Process { return p.process }

type paperGroup struct {
	sandbox.Group
	p *paper
}

func (g paperGroup) Pids() ([]int, error) { return *g.p.jobs, nil }
func (paperGroup) KillExcept([]int) error { return nil }
func (paperGroup) Freeze() error          { return nil }
func (paperGroup) Thaw() error            { return nil }

// desk starts paper kernels.
type desk struct {
	mu   sync.Mutex
	run  func(code string)
	made []*paper
}

func (d *desk) Start(context.Context, Want) (kernel.Kernel, error) {
	p := newPaper(d.run)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made = append(d.made, p)
	return p, nil
}

func (d *desk) last() *paper {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made[len(d.made)-1]
}

var keyOne = surfaces.SessionKey{Actor: "a", Language: surfaces.Python, ID: 1}

func (e *Engine) stateful(id string, key surfaces.SessionKey, epoch uint64, code string, keep *bool) surfaces.Outcome {
	return e.attempt(id, surfaces.Stateful, key, epoch, code, keep)
}

func (e *Engine) attempt(id string, mode surfaces.StateMode, key surfaces.SessionKey, epoch uint64, code string, keep *bool) surfaces.Outcome {
	return e.Execute(context.Background(), surfaces.Attempt{CallID: id, Actor: key.Actor, Number: 1, Call: surfaces.Call{
		Actor: key.Actor, Session: &surfaces.SessionRef{Key: key, Epoch: epoch},
		Request: surfaces.Request{Code: code, Language: key.Language, StateMode: mode, Timeout: 24 * time.Hour, Keep: keep},
	}})
}

func idleEngine(t *testing.T, run func(string)) (*Engine, *desk, chan LostSession) {
	t.Helper()
	d := &desk{run: run}
	lost := make(chan LostSession, 1000)
	e := New(Config{Node: "n", Kernels: d, Log: slog.New(slog.DiscardHandler), Lost: func(l LostSession) { lost <- l }})
	t.Cleanup(func() {
		e.Close()
	})
	return e, d, lost
}

func wentWell(t *testing.T, out surfaces.Outcome) {
	t.Helper()
	if out.Result.Error != nil {
		t.Fatal(*out.Result.Error)
	}
}

const idleLimit = 10 * time.Minute

// An idle session is closed when its time is up, and a caller with an outdated view learns
// why it is gone.
func TestAnIdleSessionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d, lost := idleEngine(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go e.ReapIdle(ctx, idleLimit)
		began := time.Now()
		wentWell(t, e.stateful("1", keyOne, 1, "", nil))
		time.Sleep(idleLimit / 2)
		wentWell(t, e.attempt("2", surfaces.ReadOnly, keyOne, 1, "", nil)) // reading is a use
		l := <-lost
		if took := time.Since(began); took < 3*idleLimit/2 || took > 3*idleLimit/2+maxCheckEvery {
			t.Errorf("it was closed after %s", took)
		}
		if l.Key != keyOne || l.Epoch != 1 || l.Reason != ReasonIdle {
			t.Errorf("told %+v", l)
		}
		<-d.last().dead
		for _, mode := range []surfaces.StateMode{surfaces.Stateful, surfaces.ReadOnly} {
			out := e.attempt("3", mode, keyOne, 1, "", nil)
			if out.Loss == nil || !out.Loss.Before || out.Loss.Reason != ReasonIdle || out.Loss.Epoch != 1 {
				t.Errorf("%s under the old epoch: %+v", mode, out)
			}
		}
		wentWell(t, e.stateful("4", keyOne, 2, "", nil))
	})
}

// Of those that are idle for long enough the longest idle are closed first, and no more than
// are needed. One in use, or used a moment ago, is not among them.
func TestTheLongestIdleAreClosedFirst(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(rt, "sessions")
		order := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}[:n]).Draw(rt, "order of the last uses")
		busy := rapid.IntRange(-1, n-1).Draw(rt, "the busy one")
		fresh := rapid.IntRange(0, n).Draw(rt, "used a moment ago")
		needed := rapid.IntRange(0, n+1).Draw(rt, "needed")
		synctest.Test(t, func(t *testing.T) {
			e, _, lost := idleEngine(t, nil)
			key := func(id int) surfaces.SessionKey {
				return surfaces.SessionKey{Actor: "a", Language: surfaces.Python, ID: id}
			}
			for id := range n {
				wentWell(t, e.stateful(fmt.Sprint("begin", id), key(id), 1, "", nil))
			}
			var want []int
			for at, id := range order {
				if at == n-fresh {
					time.Sleep(idleLimit)
				}
				wentWell(t, e.stateful(fmt.Sprint("use", id), key(id), 1, "", nil))
				if id == busy {
					if _, err := e.claim(key(id), 1); err != nil {
						t.Fatal(err)
					}
					defer e.sessions[key(id)].release()
				} else if at < n-fresh && len(want) < needed {
					want = append(want, id)
				}
				time.Sleep(time.Second)
			}
			if fresh == 0 {
				time.Sleep(idleLimit)
			}
			closed := e.CloseIdle(idleLimit, ReasonPressure, func() bool { return len(lost) >= needed })
			if closed != len(want) {
				rt.Errorf("%d were closed, want %v", closed, want)
			}
			for _, id := range want {
				if l := <-lost; l.Key.ID != id || l.Reason != ReasonPressure {
					rt.Errorf("closed %+v, want %d next of %v", l, id, want)
				}
			}
		})
	})
}

// What keeps a session from being closed, and what no longer does.
func TestActiveSessionIsNotClosedAsIdle(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct{ begin, end func(*Engine, *desk) }{
		"was asked to stay": {
			func(e *Engine, _ *desk) { e.stateful("k", keyOne, 1, "", &yes) },
			func(e *Engine, _ *desk) { e.stateful("k", keyOne, 1, "", &no) },
		},
		"was asked to stay, and reset": {
			func(e *Engine, _ *desk) { e.stateful("k", keyOne, 1, "", &yes) },
			func(e *Engine, _ *desk) { _ = e.ResetSession(context.Background(), keyOne, 1) },
		},
		"has a process of its own": {
			func(_ *Engine, d *desk) { *d.last().jobs = []int{os.Getpid()} },
			func(_ *Engine, d *desk) { *d.last().jobs = nil },
		},
		"is cut off from the mesh": {
			func(e *Engine, _ *desk) { e.Suspend() },
			func(e *Engine, _ *desk) { e.Resume() },
		},
		"is being used": {
			func(e *Engine, _ *desk) { _, _ = e.claim(keyOne, 1) },
			func(e *Engine, _ *desk) { e.sessions[keyOne].release() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, d, lost := idleEngine(t, nil)
				wentWell(t, e.stateful("1", keyOne, 1, "", nil))
				c.begin(e, d)
				for range 5 {
					time.Sleep(idleLimit)
					if n := e.CloseIdle(idleLimit, ReasonIdle, nil); n != 0 || len(lost) != 0 {
						t.Fatal("it was closed")
					}
				}
				c.end(e, d)
				for range 2 { // the first look may still see what there was before
					time.Sleep(idleLimit)
					e.CloseIdle(idleLimit, ReasonIdle, nil)
				}
				if len(lost) != 1 {
					t.Fatalf("%d sessions were closed afterwards", len(lost))
				}
			})
		})
	}
}

// A call that runs longer than the limit, and the calls that wait behind it.
func TestABusySessionIsNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d, lost := idleEngine(t, func(string) { time.Sleep(3 * idleLimit) })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go e.ReapIdle(ctx, idleLimit)
		var calls sync.WaitGroup
		for i := range 3 {
			calls.Go(func() { wentWell(t, e.stateful(fmt.Sprint(i), keyOne, 1, "", nil)) })
		}
		calls.Wait()
		if len(lost) != 0 || d.last().harmed.Load() {
			t.Fatal("it was closed under its calls")
		}
	})
}

// However calls and closing interleave, a call either finds its session unchanged, or
// learns before anything runs that the session is gone.
func TestIdlenessNeverClosesABusySession(t *testing.T) {
	e, d, lost := idleEngine(t, func(string) { time.Sleep(50 * time.Microsecond) })
	stop := make(chan struct{})
	var closers, callers sync.WaitGroup
	for range 2 {
		closers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					e.CloseIdle(0, ReasonIdle, nil)
				}
			}
		})
	}
	const sessions, rounds = 4, 300
	for c := range 3 * sessions {
		callers.Go(func() {
			key := surfaces.SessionKey{Actor: "a", Language: surfaces.Python, ID: c % sessions}
			mode := []surfaces.StateMode{surfaces.Stateful, surfaces.ReadOnly, surfaces.Stateful}[c%3]
			epoch := uint64(1)
			for i := range rounds {
				out := e.attempt(fmt.Sprintf("%d.%d", c, i), mode, key, epoch, "", nil)
				switch {
				case out.Misrouted: // another caller has gone on to a newer epoch
					epoch++
				case out.Loss != nil && out.Loss.Before && out.Loss.Reason == ReasonIdle:
					epoch++
				case out.Result.Error != nil:
					t.Errorf("%s: %s %+v", mode, *out.Result.Error, out.Loss)
					return
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	closers.Wait()
	if len(lost) == 0 {
		t.Error("nothing was closed: the test has tried nothing")
	}
	for _, k := range d.made {
		if k.harmed.Load() {
			t.Fatal("a kernel was killed while its code ran")
		}
	}
}

// A session that has died keeps the reason of its end.
func TestFirstReasonOfALossIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d, lost := idleEngine(t, nil)
		wentWell(t, e.stateful("1", keyOne, 1, "", nil))
		d.last().Kill()
		if l := <-lost; l.Reason != reasonDied {
			t.Fatalf("told %+v", l)
		}
		time.Sleep(idleLimit)
		if n := e.CloseIdle(idleLimit, ReasonIdle, nil); n != 0 {
			t.Fatal("it was closed a second time")
		}
		out := e.stateful("2", keyOne, 1, "", nil)
		if out.Loss == nil || out.Loss.Reason != reasonDied {
			t.Fatalf("got %+v, want Loss.Reason %v", out, reasonDied)
		}
	})
}

// Without room no session starts, and existing ones go on.
func TestKernelIsRefusedWithoutRoom(t *testing.T) {
	full := map[kernel.Kind]bool{}
	d := &desk{}
	e := New(Config{Node: "n", Kernels: d, Log: slog.New(slog.DiscardHandler), Room: func(k kernel.Kind) *surfaces.Refusal {
		if full[k] {
			return &surfaces.Refusal{Code: surfaces.CodeNoCapacity, Message: "no memory", RetryAfterS: 3}
		}
		return nil
	}})
	defer e.Close()
	two := surfaces.SessionKey{Actor: "a", Language: surfaces.Python, ID: 2}
	once := func() surfaces.Outcome {
		return e.Execute(t.Context(), surfaces.Attempt{CallID: "once", Actor: "a", Number: 1, Call: surfaces.Call{
			Actor: "a", Request: surfaces.Request{Language: surfaces.Python, StateMode: surfaces.Stateless, Timeout: time.Minute},
		}})
	}
	refused := func(out surfaces.Outcome) {
		t.Helper()
		if r := out.Result; r.Status != surfaces.StatusRefused || *r.Code != surfaces.CodeNoCapacity || out.Loss != nil {
			t.Fatalf("got %+v, want Status %v, Code %v, no Loss", out, surfaces.StatusRefused, surfaces.CodeNoCapacity)
		}
	}
	wentWell(t, e.stateful("1", keyOne, 1, "", nil))
	full[kernel.Session] = true
	refused(e.stateful("2", two, 1, "", nil))
	refused(e.attempt("3", surfaces.ReadOnly, two, 1, "", nil))
	var why *surfaces.Refusal
	if _, err := e.ForkSession(t.Context(), keyOne, 1, two, 1); !errors.As(err, &why) {
		t.Fatalf("a fork: %v", err)
	}
	wentWell(t, e.stateful("4", keyOne, 1, "", nil))
	wentWell(t, e.attempt("5", surfaces.ReadOnly, keyOne, 1, "", nil))
	wentWell(t, once())
	full[kernel.OneShot] = true
	refused(once())
	clear(full)
	wentWell(t, e.stateful("6", two, 1, "", nil))
}
