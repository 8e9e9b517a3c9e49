package primitives

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// The rules in their order, for every way in which a name can be known.
func TestWhatCodeMayUse(t *testing.T) {
	offers := []surfaces.Offer{{Name: "me.read", ReadOnly: true}, {Name: "me.write"}}
	server := func(h *host) map[string]Provider {
		return map[string]Provider{"db": h.provider(echo, Function{Name: "db.get", ReadOnly: true}, Function{Name: "db.put"})}
	}
	for _, c := range []struct {
		why      string
		change   func(*Config)
		name     string
		want     string // the type of the error; empty: the provider answers; caller: the caller is asked
		says     string
		readOnly bool
	}{
		{why: "a server's", name: "db.put"},
		{why: "nobody's", name: "me.read", want: ErrorUnknown},
		{why: "not a server's", name: "db.drop", want: ErrorUnknown, says: "help(primitives.db)"},
		{why: "anything of a caller that listens", change: attended, name: "me.read", want: "caller"},
		{why: "what a server lacks, of a caller that listens", change: attended, name: "db.drop", want: "caller"},
		{why: "what a server has, and the caller offers", change: func(c *Config) { c.Attended = true; c.Offers = []surfaces.Offer{{Name: "db.put"}} }, name: "db.put"},
		{why: "no name", change: attended, name: "me", want: ErrorUnknown},
		{why: "listed", change: func(c *Config) { c.Attended, c.Offers = true, offers }, name: "me.write", want: "caller"},
		{why: "not listed", change: func(c *Config) { c.Attended, c.Offers = true, offers }, name: "me.wrte", want: ErrorForbidden, says: "did you mean primitives.me.write?"},
		{why: "an empty list", change: func(c *Config) { c.Attended, c.Offers = true, []surfaces.Offer{} }, name: "me.write", want: ErrorUnknown},
		{why: "listed by a caller that does not listen", change: func(c *Config) { c.Offers = offers }, name: "me.write", want: ErrorUnknown, says: "stream the call"},
		{why: "marked, in read-only code", name: "db.get", readOnly: true},
		{why: "not marked, in read-only code", name: "db.put", readOnly: true, want: ErrorReadOnly, says: "state_mode read_only"},
		{why: "marked by the caller, in read-only code", change: func(c *Config) { c.Attended, c.Offers = true, offers }, name: "me.read", readOnly: true, want: "caller"},
		{why: "not marked by the caller, in read-only code", change: func(c *Config) { c.Attended, c.Offers = true, offers }, name: "me.write", readOnly: true, want: ErrorReadOnly},
		{why: "of a caller that said nothing, in read-only code", change: attended, name: "me.read", readOnly: true, want: ErrorReadOnly},
		{why: "no budget", change: func(c *Config) { c.Budget = NewBudget(0) }, name: "db.put", want: ErrorLimit, says: "primitives_limit"},
		{why: "unknown goes before the budget", change: func(c *Config) { c.Budget = NewBudget(0) }, name: "db.drop", want: ErrorUnknown},
		{why: "read-only goes before the budget", change: func(c *Config) { c.Budget = NewBudget(0) }, name: "db.put", readOnly: true, want: ErrorReadOnly},
	} {
		t.Run(c.why, func(t *testing.T) {
			h := newHost(t, func(cfg *Config) {
				cfg.ReadOnly = c.readOnly
				if c.change != nil {
					c.change(cfg)
				}
			})
			h.cfg.Providers = server(h)
			wait := h.ask(1, 1, c.name, `{"a":1}`)
			switch c.want {
			case "caller":
				if e := h.told(0); e.Name != c.name {
					t.Fatalf("told %+v", e)
				}
				return
			case "":
				if got := wait(); got != `{"result":{"a":1}}` || len(h.called()) != 1 {
					t.Fatalf("got %s", got)
				}
				return
			}
			if e := h.fails(wait(), c.want); !strings.Contains(e.Message, c.says) || !strings.Contains(e.Message, "primitives") {
				t.Errorf("says %q", e.Message)
			}
			if h.Count() != 0 || h.outcomes() != "1 "+c.name+" "+c.want || len(h.called()) != 0 {
				t.Errorf("%d uses: %s", h.Count(), h.outcomes())
			}
		})
	}
}

func TestManyAtOnce(t *testing.T) {
	h := newHost(t, attended)
	var running, most int
	var mu sync.Mutex
	full := make(chan struct{})
	fill := sync.OnceFunc(func() { close(full) })
	h.cfg.Providers = map[string]Provider{"db": h.provider(func(_ context.Context, _ string, arguments json.RawMessage) (Value, error) {
		mu.Lock()
		running++
		if most = max(most, running); running == MaxRunning {
			fill() // all places are taken at one moment
		}
		mu.Unlock()
		<-full
		mu.Lock()
		running--
		mu.Unlock()
		return Value{Result: arguments}, nil
	}, Function{Name: "db.get"})}
	const many = 1000
	var waits [2 * many]func() string
	for i := range many {
		data := fmt.Sprintf(`{"i":%d}`, i)
		waits[2*i] = h.ask(1, 2*i+1, "db.get", data)
		waits[2*i+1] = h.ask(1, 2*i+2, "me.get", data)
	}
	// What the caller is asked for comes in order, and waits for nobody's place.
	for i := range many {
		if e := h.told(i); e.ID != strconv.Itoa(2*i+2) {
			t.Fatalf("event %d is of %s", i, e.ID)
		}
		if err := h.Answer(strconv.Itoa(2*i+2), fmt.Appendf(nil, `{"result":{"i":%d}}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	for i, wait := range waits {
		if got, want := wait(), fmt.Sprintf(`{"result":{"i":%d}}`, i/2); got != want {
			t.Fatalf("%d: %s, want %s", i, got, want)
		}
	}
	if most != MaxRunning || h.Count() != 2*many {
		t.Errorf("at most %d at a time, %d in all", most, h.Count())
	}
}

// When the call ends, what is under way is cancelled with a cause and answered by
// nobody.
func TestTheEnd(t *testing.T) {
	h := newHost(t, attended)
	cause := make(chan error, 1)
	started := make(chan struct{})
	h.cfg.Providers = map[string]Provider{"db": h.provider(func(ctx context.Context, _ string, _ json.RawMessage) (Value, error) {
		close(started)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return Value{Result: json.RawMessage(`"late"`), Display: []surfaces.Display{{MIME: "image/png", Data: "x"}}}, nil
	}, Function{Name: "db.get"})}
	under, caller := h.ask(1, 1, "db.get", `{}`), h.ask(1, 2, "me.get", `{}`)
	<-started
	h.End()
	h.End()
	h.fails(under(), ErrorEnded)
	h.fails(caller(), ErrorEnded)
	h.fails(h.ask(1, 3, "db.get", `{}`)(), ErrorEnded)
	h.fails(h.ask(1, 1, Describe, `{"name":""}`)(), ErrorEnded)
	if err := <-cause; !errors.Is(err, errEnded) {
		t.Errorf("cancelled for %v", err)
	}
	h.work.Wait()
	if h.outcomes() != "1 db.get ended; 2 me.get ended" || len(h.Display()) != 0 || len(h.events) != 1 {
		t.Errorf("%s, events %v", h.outcomes(), h.events)
	}
	if h.Size() > 5000 {
		t.Errorf("an ended ledger weighs %d", h.Size())
	}
}

// Who is told of a use may wait, as for a full disk. The ledger answers meanwhile, and its
// end comes after what was told.
func TestWhoIsToldHoldsUpNoOther(t *testing.T) {
	hearing, heard := make(chan surfaces.UseRecord, 1), make(chan struct{})
	h := newHost(t, func(c *Config) {
		c.Settled = func(u surfaces.UseRecord) { hearing <- u; <-heard }
	})
	h.cfg.Providers = map[string]Provider{"db": h.provider(echo, Function{Name: "db.get"})}
	answer := h.ask(1, 1, "db.get", `{}`)
	if u := <-hearing; u.Outcome != surfaces.UseOK {
		t.Errorf("told %+v", u)
	}
	read := make(chan string, 1)
	go func() { read <- h.outcomes() }()
	select {
	case got := <-read:
		if got != "1 db.get ok" {
			t.Errorf("the record is %s", got)
		}
	case <-time.After(patience):
		t.Error("the record cannot be read")
	}
	ended := make(chan struct{})
	go func() { h.End(); close(ended) }()
	select {
	case <-ended:
		t.Error("the ledger has ended before what happened was told")
	case <-time.After(10 * time.Millisecond): // it would have by then, mostly
	}
	close(heard)
	<-ended
	h.fails(answer(), ErrorEnded)
}

func TestBounds(t *testing.T) {
	h := newHost(t, attended)
	big := `{"a":"` + strings.Repeat("a", MaxBytes) + `"}`
	h.fails(h.ask(1, 1, "db.get", big)(), ErrorInvalid)
	for _, data := range []string{`[1]`, `7`, `{`, `"x"`} {
		h.fails(h.ask(1, 1, "db.get", data)(), ErrorInvalid)
	}
	for _, seq := range []int{0, -1, maxSeq} {
		h.fails(h.ask(1, seq, "db.get", `{}`)(), ErrorInvalid)
	}
	waits := h.ask(1, 1, "me.get", `null`)
	var r *surfaces.Refusal
	if err := h.Answer("1", []byte(`{"result":`+big+`}`)); !errors.As(err, &r) || r.HTTP != 413 {
		t.Errorf("a large answer: %v", err)
	}
	if e := h.fails(waits(), ErrorFailed); !strings.Contains(e.Message, "over the limit of 16777216") {
		t.Errorf("says %s", e.Message)
	}
	if len(h.Record()) != 1 {
		t.Errorf("recorded %s", h.outcomes())
	}
}

// Outcomes beyond what is kept are given once, and a second attempt is told that they
// are gone; nothing is performed again.
func TestWhatIsKeptIsBounded(t *testing.T) {
	h := newHost(t, nil)
	h.cfg.Providers = map[string]Provider{"db": h.provider(func(context.Context, string, json.RawMessage) (Value, error) {
		return Value{Result: json.RawMessage(`"` + strings.Repeat("a", 15<<20) + `"`)}, nil
	}, Function{Name: "db.get"})}
	const uses = 6
	for seq := 1; seq <= uses; seq++ {
		if got := h.ask(1, seq, "db.get", `{}`)(); len(got) < 15<<20 {
			t.Fatalf("use %d gave %.100s", seq, got)
		}
	}
	if h.Size() > MaxReplayBytes+(1<<20) {
		t.Errorf("%d bytes are kept", h.Size())
	}
	if got := h.ask(2, 1, "db.get", `{}`)(); len(got) < 15<<20 {
		t.Errorf("what was kept gave %.100s", got)
	}
	h.fails(h.ask(2, uses, "db.get", `{}`)(), ErrorForgotten)
	if len(h.called()) != uses {
		t.Errorf("performed %d times", len(h.called()))
	}
}

func TestDigests(t *testing.T) {
	same := []string{`{"a":1,"b":[1,2]}`, ` { "b" : [1,2] , "a" : 1 } `, `{"a":2,"b":[1,2],"a":1}`}
	other := []string{`{"a":1,"b":[2,1]}`, `{"a":1.0,"b":[1,2]}`, `{"a":1}`, ``, `{"a":12345678901234567890,"b":[1,2]}`, `{"a":12345678901234567891,"b":[1,2]}`}
	seen := map[string]string{}
	first, err := digest("fs.ls", json.RawMessage(same[0]))
	if err != nil || len(first) != 64 {
		t.Fatal(first, err)
	}
	for _, s := range same {
		if d, err := digest("fs.ls", json.RawMessage(s)); err != nil || d != first {
			t.Errorf("%s: %s, %v", s, d, err)
		}
	}
	seen[first] = same[0]
	for _, s := range other {
		d, err := digest("fs.ls", json.RawMessage(s))
		if err != nil || seen[d] != "" {
			t.Errorf("%s has the digest of %s (%v)", s, seen[d], err)
		}
		seen[d] = s
	}
	if d, _ := digest("fs.rm", json.RawMessage(same[0])); d == first {
		t.Error("the name does not count")
	}
}
