package peer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/locusrun/locus/mesh/faultnet"
	"github.com/locusrun/locus/surfaces"
)

// scriptedHost answers uses by a function and records them. The same sequence is one use,
// however often it is repeated.
type scriptedHost struct {
	do func(ctx context.Context, u surfaces.Use) json.RawMessage

	mu    sync.Mutex
	asked []surfaces.Use
	done  map[string]*onceAnswer
}

type onceAnswer struct {
	once   sync.Once
	answer json.RawMessage
}

func (h *scriptedHost) Ask(u surfaces.Use) func(context.Context) json.RawMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, u)
	if h.done == nil {
		h.done = map[string]*onceAnswer{}
	}
	o := h.done[u.Seq]
	if o == nil {
		o = &onceAnswer{}
		h.done[u.Seq] = o
	}
	return func(ctx context.Context) json.RawMessage {
		o.once.Do(func() { o.answer = h.do(ctx, u) })
		return o.answer
	}
}

func (h *scriptedHost) uses() []surfaces.Use {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]surfaces.Use(nil), h.asked...)
}

func use(seq int) surfaces.Use {
	return surfaces.Use{Seq: strconv.Itoa(seq), Name: "fs.ls", Data: json.RawMessage(`{"i":` + strconv.Itoa(seq) + `}`)}
}

// Uses reach the call's home in order and concurrently, and each gets its own answer.
func TestTheHostOfACallElsewhere(t *testing.T) {
	const many = 1000
	p := newPair(t, loopback(t), func(ctx context.Context, a surfaces.Attempt, _ <-chan struct{}) surfaces.Outcome {
		var waits []func(context.Context) json.RawMessage
		for seq := 1; seq <= many; seq++ {
			waits = append(waits, a.Host.Ask(use(seq)))
		}
		for i, wait := range waits {
			if got, want := string(wait(ctx)), fmt.Sprintf(`{"result":{"i":%d}}`, i+1); got != want {
				t.Errorf("use %d gave %s", i+1, got)
			}
		}
		return done()
	})
	var all sync.WaitGroup
	all.Add(many) // nothing is answered before everything was asked for
	h := &scriptedHost{do: func(_ context.Context, u surfaces.Use) json.RawMessage {
		all.Done()
		all.Wait()
		return json.RawMessage(`{"result":` + string(u.Data) + `}`)
	}}
	p.hosting("c", h)
	if out, _ := p.ask(t.Context(), call("c", time.Minute), nil); out.Result.Status != surfaces.StatusDone {
		t.Fatalf("got %+v, want Result.Status %v", out, surfaces.StatusDone)
	}
	uses := h.uses()
	if len(uses) != many {
		t.Fatalf("%d were asked for", len(uses))
	}
	for i, u := range uses {
		want := use(i + 1)
		want.CallID, want.Actor, want.Attempt = "c", "a", 1
		if fmt.Sprint(u) != fmt.Sprint(want) {
			t.Fatalf("use %d is %v", i, u)
		}
	}
}

// Unanswered uses of a broken stream are sent again.
func TestALinkThatBreaksDuringAUse(t *testing.T) {
	bubble(t, func(ctx context.Context, a surfaces.Attempt, _ <-chan struct{}) surfaces.Outcome {
		first := a.Host.Ask(use(1)) // asked before the link breaks, answered while it is broken
		time.Sleep(20 * time.Second)
		second := a.Host.Ask(use(2)) // asked while it is broken
		for i, wait := range []func(context.Context) json.RawMessage{first, second} {
			if got, want := string(wait(ctx)), fmt.Sprintf(`{"result":{"i":%d}}`, i+1); got != want {
				t.Errorf("use %d gave %s", i+1, got)
			}
		}
		return done()
	}, func(t *testing.T, p *pair, net *faultnet.Network) {
		performed := map[string]int{}
		var mu sync.Mutex
		h := &scriptedHost{do: func(_ context.Context, u surfaces.Use) json.RawMessage {
			mu.Lock()
			performed[u.Seq]++
			mu.Unlock()
			time.Sleep(15 * time.Second)
			return json.RawMessage(`{"result":` + string(u.Data) + `}`)
		}}
		p.hosting("c", h)
		go func() {
			time.Sleep(10 * time.Second)
			net.Cut(asker, owner)
			time.Sleep(30 * time.Second)
			net.HealAll()
		}()
		if out, _ := p.ask(t.Context(), call("c", 5*time.Minute), nil); out.Result.Status != surfaces.StatusDone {
			t.Fatalf("got %+v, want Result.Status %v", out, surfaces.StatusDone)
		}
		if len(performed) != 2 || performed["1"] != 1 || performed["2"] != 1 {
			t.Errorf("performed %v", performed)
		}
	})
}

// A host that does not know the call says so at once, and nothing waits.
func TestAHostThatDoesNotKnowTheCall(t *testing.T) {
	p := newPair(t, loopback(t), func(ctx context.Context, a surfaces.Attempt, _ <-chan struct{}) surfaces.Outcome {
		for seq := 1; seq <= 2; seq++ {
			var got struct{ Error struct{ Type string } }
			if err := json.Unmarshal(a.Host.Ask(use(seq))(ctx), &got); err != nil || got.Error.Type != "ended" {
				t.Errorf("got %+v, %v", got, err)
			}
		}
		return done()
	})
	if out, _ := p.ask(t.Context(), call("c", time.Minute), nil); out.Result.Status != surfaces.StatusDone {
		t.Fatalf("got %+v, want Result.Status %v", out, surfaces.StatusDone)
	}
}

// A call may use a million primitives. The node that runs it holds the arguments of a use
// only until the answer has come, however long the stream lasts.
func TestTheArgumentsOfAnAnsweredUseAreReleased(t *testing.T) {
	const uses, unanswered = 20, 3
	p := newPair(t, loopback(t), func(ctx context.Context, a surfaces.Attempt, _ <-chan struct{}) surfaces.Outcome {
		arguments := make([]weak.Pointer[byte], 0, uses)
		ask := func(seq int) func(context.Context) json.RawMessage {
			u := use(seq)
			u.Data = json.RawMessage(`{"text":"` + strings.Repeat("x", 64<<10) + `"}`)
			arguments = append(arguments, weak.Make(&u.Data[0]))
			return a.Host.Ask(u)
		}
		for seq := 1; seq <= uses-unanswered; seq++ {
			if answer := ask(seq)(ctx); string(answer) != `{"result":null}` {
				t.Errorf("use %d: got the answer %s, want a result of null", seq, answer)
			}
		}
		for seq := uses - unanswered + 1; seq <= uses; seq++ {
			ask(seq)
		}
		runtime.GC()
		held := 0
		for _, pointer := range arguments {
			if pointer.Value() != nil {
				held++
			}
		}
		if held != unanswered {
			t.Errorf("the arguments of %d uses are in memory, want those of the %d without an answer", held, unanswered)
		}
		return done()
	})
	h := &scriptedHost{do: func(ctx context.Context, u surfaces.Use) json.RawMessage {
		if seq, _ := strconv.Atoi(u.Seq); seq > uses-unanswered {
			<-ctx.Done()
			return nil
		}
		return json.RawMessage(`{"result":null}`)
	}}
	p.hosting("c", h)
	if out, _ := p.ask(t.Context(), call("c", time.Minute), nil); out.Result.Status != surfaces.StatusDone {
		t.Fatalf("got %+v, want Result.Status %v", out, surfaces.StatusDone)
	}
}
