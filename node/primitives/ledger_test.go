package primitives

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// patience bounds every wait of these tests. It is not a goal.
const patience = time.Minute

// host is a ledger with a caller and providers that a test scripts.
type host struct {
	*Ledger
	t testing.TB

	work sync.WaitGroup

	mu      sync.Mutex
	events  []surfaces.Event
	settled []string
	calls   []string // what providers were called with
	news    chan struct{}
}

func newHost(t testing.TB, change func(*Config)) *host {
	h := &host{t: t, news: make(chan struct{}, 1)}
	cfg := Config{Budget: NewBudget(surfaces.DefaultPrimitives), Caller: h, Go: h.work.Go, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	h.Ledger = NewLedger(cfg)
	t.Cleanup(func() { h.End(); h.work.Wait() })
	return h
}

func attended(c *Config) { c.Attended = true }

func (h *host) Event(e surfaces.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	select {
	case h.news <- struct{}{}:
	default:
	}
}

func (h *host) Settle(seq string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settled = append(h.settled, seq)
}

// told waits for the nth event, from 0.
func (h *host) told(n int) surfaces.Event {
	h.t.Helper()
	limit := time.After(patience)
	for {
		h.mu.Lock()
		if len(h.events) > n {
			defer h.mu.Unlock()
			return h.events[n]
		}
		h.mu.Unlock()
		select {
		case <-h.news:
		case <-limit:
			h.t.Fatalf("event %d did not come", n)
		}
	}
}

// provider gives functions that answer with what do gives.
func (h *host) provider(do func(ctx context.Context, name string, arguments json.RawMessage) (Value, error), functions ...Function) Provider {
	return provider{h, do, functions}
}

type provider struct {
	h         *host
	do        func(context.Context, string, json.RawMessage) (Value, error)
	functions []Function
}

func (p provider) Functions(context.Context) ([]Function, error) { return p.functions, nil }

func (p provider) Call(ctx context.Context, name string, arguments json.RawMessage) (Value, error) {
	p.h.mu.Lock()
	p.h.calls = append(p.h.calls, name+string(arguments))
	p.h.mu.Unlock()
	return p.do(ctx, name, arguments)
}

func (h *host) called() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.calls...)
}

func echo(_ context.Context, _ string, arguments json.RawMessage) (Value, error) {
	return Value{Result: arguments}, nil
}

// ask asks in an attempt and gives how to wait.
func (h *host) ask(attempt, seq int, name, data string) func() string {
	wait := h.Ask(surfaces.Use{CallID: "c", Actor: "a", Attempt: attempt, Seq: strconv.Itoa(seq), Name: name, Data: json.RawMessage(data)})
	return func() string {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		answer := wait(ctx)
		if answer == nil {
			h.t.Errorf("no answer to %d %s", seq, name)
		}
		return string(answer)
	}
}

// fails checks that an answer is an error of a type.
func (h *host) fails(answer, kind string) Error {
	h.t.Helper()
	var a struct{ Error Error }
	if err := json.Unmarshal([]byte(answer), &a); err != nil || a.Error.Type != kind || a.Error.Message == "" {
		h.t.Errorf("%s is no error of type %s", answer, kind)
	}
	return a.Error
}

// outcomes writes the record in short.
func (h *host) outcomes() string {
	var b strings.Builder
	for _, r := range h.Record() {
		fmt.Fprintf(&b, "%d %s %s", r.Seq, r.Name, r.Outcome)
		if r.Replayed {
			b.WriteString(" replayed")
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func TestTheCallerAnswers(t *testing.T) {
	h := newHost(t, attended)
	one, two := h.ask(1, 1, "fs.ls", `{"path":"/"}`), h.ask(1, 2, "fs.rm", `{}`)
	if e := h.told(0); e.Kind != surfaces.EventPrimitive || e.ID != "1" || e.Name != "fs.ls" || string(e.Data) != `{"path":"/"}` {
		t.Errorf("told %+v", e)
	}
	h.told(1)
	for seq, body := range map[string]string{"2": `{"error":"no such file"}`, "1": `{"result":["a"]}`} {
		if err := h.Answer(seq, []byte(body)); err != nil {
			t.Fatal(err)
		}
		if err := h.Answer(seq, []byte(body)); err != nil {
			t.Errorf("the same answer again: %v", err)
		}
	}
	if got := one(); got != `{"result":["a"]}` {
		t.Errorf("got %s", got)
	}
	if e := h.fails(two(), ErrorFailed); e.Message != "no such file" {
		t.Errorf("got %+v", e)
	}
	if h.Count() != 2 || h.outcomes() != "1 fs.ls ok; 2 fs.rm failed" || len(h.settled) != 2 {
		t.Errorf("%d uses: %s, settled %v", h.Count(), h.outcomes(), h.settled)
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	h := newHost(t, attended)
	waits := h.ask(1, 1, "fs.ls", ``)
	h.ask(1, 2, "fs.rm", ``)
	status := func(err error) int {
		var r *surfaces.Refusal
		if err == nil {
			return 0
		}
		if !errors.As(err, &r) || r.Code != surfaces.CodeInvalidArgument {
			t.Errorf("no refusal: %v", err)
			return -1
		}
		return r.HTTP
	}
	for _, c := range []struct {
		seq, body string
		status    int
	}{
		{"7", `{"result":1}`, 404}, {"x", `{"result":1}`, 404},
		{"1", `{}`, 422}, {"1", `{"result":1,"error":"x"}`, 422}, {"1", `[`, 422}, {"1", `7`, 422},
		{"1", `{"result":null}`, 0}, {"1", `{"result":2}`, 409}, {"1", `{"result":null}`, 0},
	} {
		if got := status(h.Answer(c.seq, []byte(c.body))); got != c.status {
			t.Errorf("%s for %s: %d, want %d", c.body, c.seq, got, c.status)
		}
	}
	if got := waits(); got != `{"result":null}` {
		t.Errorf("got %s", got)
	}
	h.End()
	if got := status(h.Answer("2", []byte(`{"result":1}`))); got != 409 {
		t.Errorf("an answer after the end: %d", got)
	}
	if got := status(h.Answer("1", []byte(`{"result":null}`))); got != 0 {
		t.Errorf("the first answer again, after the end: %d", got)
	}
	var none *Ledger
	if got := status(none.Answer("1", []byte(`{"result":1}`))); got != 404 {
		t.Errorf("no ledger: %d", got)
	}
}

func TestErrorsKeepTheirType(t *testing.T) {
	for sent, want := range map[string]Error{
		`"text"`:                                {ErrorFailed, "text"},
		`{"type":"quota","message":"too much"}`: {"quota", "too much"},
		`{"message":"m"}`:                       {ErrorFailed, "m"},
		`{"code":7}`:                            {ErrorFailed, `{"code":7}`},
		`null`:                                  {ErrorFailed, "null"},
		`""`:                                    {ErrorFailed, `""`},
		`{"type":"limit","message":"a","more":1}`: {"limit", "a"},
	} {
		o, err := answered([]byte(`{"error":` + sent + `}`))
		var got struct{ Error Error }
		if err != nil || json.Unmarshal(o.answer, &got) != nil || got.Error != want || o.word != want.Type {
			t.Errorf("%s: %s, %v", sent, o.answer, err)
		}
	}
}

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

func TestTheBudget(t *testing.T) {
	h := newHost(t, func(c *Config) { c.Budget = NewBudget(3) })
	h.cfg.Providers = map[string]Provider{"db": h.provider(echo, Function{Name: "db.get"})}
	for seq := 1; seq <= 5; seq++ {
		h.ask(1, 2*seq, "no.such", ``)() // what is refused costs nothing
		answer := h.ask(1, 2*seq+1, "db.get", `{}`)()
		if seq > 3 {
			h.fails(answer, ErrorLimit)
		} else if answer != `{"result":{}}` {
			t.Errorf("use %d: %s", seq, answer)
		}
	}
	if h.Count() != 3 || len(h.called()) != 3 {
		t.Errorf("%d uses, %v", h.Count(), h.called())
	}
}

// Calls that share a budget use it up together, and never more than it.
func TestASharedBudget(t *testing.T) {
	const limit = 50
	shared := NewBudget(limit)
	var hosts [4]*host
	for i := range hosts {
		hosts[i] = newHost(t, func(c *Config) { c.Budget = shared })
		hosts[i].cfg.Providers = map[string]Provider{"db": hosts[i].provider(echo, Function{Name: "db.get"})}
	}
	var all sync.WaitGroup
	for _, h := range hosts {
		all.Go(func() {
			for seq := 1; seq <= limit; seq++ {
				h.ask(1, seq, "db.get", `{}`)()
			}
		})
	}
	all.Wait()
	used := 0
	for _, h := range hosts {
		used += h.Count()
	}
	if used != limit {
		t.Errorf("%d uses of %d", used, limit)
	}
}

// A second attempt is given what the first was given, joins what is under way, and
// performs anew what differs.
func TestASecondAttempt(t *testing.T) {
	h := newHost(t, attended)
	release := make(chan struct{})
	h.cfg.Providers = map[string]Provider{"db": h.provider(func(ctx context.Context, name string, arguments json.RawMessage) (Value, error) {
		switch name {
		case "db.slow":
			<-release
		case "db.bad":
			return Value{}, &Error{"mine", "no"}
		}
		return echo(ctx, name, arguments)
	}, Function{Name: "db.get"}, Function{Name: "db.slow"}, Function{Name: "db.bad"})}

	h.ask(1, 1, "db.get", `{"a":1,"b":2}`)()
	h.ask(1, 2, "db.bad", `{}`)()
	h.ask(1, 3, "db.none", `{}`) // waits for the caller
	h.ask(1, 4, "db.slow", `{}`)
	h.ask(1, 5, "db.get", `{"old":1}`)()
	h.told(0)

	if got := h.ask(2, 1, "db.get", `{"b":2, "a":1}`)(); got != `{"result":{"a":1,"b":2}}` {
		t.Errorf("replayed %s", got)
	}
	h.fails(h.ask(2, 2, "db.bad", `{}`)(), "mine")
	asked, slow := h.ask(2, 3, "db.none", `{}`), h.ask(2, 4, "db.slow", `{}`)
	if got := h.ask(2, 5, "db.get", `{"new":1}`)(); got != `{"result":{"new":1}}` {
		t.Errorf("what differs gave %s", got)
	}
	close(release)
	if got := slow(); got != `{"result":{}}` {
		t.Errorf("what was under way gave %s", got)
	}
	if err := h.Answer("3", []byte(`{"result":3}`)); err != nil {
		t.Fatal(err)
	}
	if got := asked(); got != `{"result":3}` {
		t.Errorf("the caller's answer became %s", got)
	}
	if got := len(h.events); got != 1 {
		t.Errorf("the caller was asked %d times", got)
	}
	// The first attempt is over: what is still on its way from there is nobody's.
	h.fails(h.ask(1, 6, "db.get", `{}`)(), ErrorEnded)
	want := "1 db.get ok replayed; 2 db.bad mine replayed; 3 db.none ok replayed; 4 db.slow ok replayed; 5 db.get ok; 5 db.get ok"
	if h.outcomes() != want || h.Count() != 6 {
		t.Errorf("%d uses: %s", h.Count(), h.outcomes())
	}
	if n := len(h.called()); n != 5 { // get, bad, slow, get, get
		t.Errorf("performed %d: %v", n, h.called())
	}
}

// An answer that the caller sends for the first attempt's use is not taken for one to
// another use of the second attempt under the same sequence.
func TestAnAnswerToWhatWasAskedBefore(t *testing.T) {
	h := newHost(t, attended)
	h.ask(1, 1, "fs.ls", `{"path":"a"}`)
	wait := h.ask(2, 1, "fs.rm", `{"path":"b"}`)
	other := h.told(1).ID
	if other == "1" {
		t.Fatal("two uses were told under one sequence")
	}
	if err := h.Answer("1", []byte(`{"result":"of ls"}`)); err != nil {
		t.Fatal(err)
	}
	if err := h.Answer(other, []byte(`{"result":"of rm"}`)); err != nil {
		t.Fatal(err)
	}
	if got := wait(); got != `{"result":"of rm"}` {
		t.Errorf("got %s", got)
	}
}

// A use that is asked for again in the same attempt, as after a link that broke, is
// the same one.
func TestTheSameUseAgain(t *testing.T) {
	h := newHost(t, nil)
	release := make(chan struct{})
	h.cfg.Providers = map[string]Provider{"db": h.provider(func(context.Context, string, json.RawMessage) (Value, error) {
		<-release
		return Value{}, nil
	}, Function{Name: "db.put"})}
	first, again := h.ask(1, 1, "db.put", `{}`), h.ask(1, 1, "db.put", `{}`)
	close(release)
	if a, b, c := first(), again(), h.ask(1, 1, "db.put", `{}`)(); a != `{"result":null}` || a != b || b != c {
		t.Errorf("got %s, %s and %s", a, b, c)
	}
	if len(h.called()) != 1 || h.Count() != 1 || h.outcomes() != "1 db.put ok" {
		t.Errorf("performed %v: %s", h.called(), h.outcomes())
	}
}

// What was refused is judged again, and stands in the record once.
func TestARefusedUseIsJudgedAgain(t *testing.T) {
	h := newHost(t, nil)
	h.fails(h.ask(1, 1, "no.such", `{}`)(), ErrorUnknown)
	h.fails(h.ask(2, 1, "no.such", `{}`)(), ErrorUnknown)
	if h.outcomes() != "1 no.such unknown" {
		t.Errorf("got %s", h.outcomes())
	}
}

func TestTheRecordOfRefusedUsesIsBounded(t *testing.T) {
	h := newHost(t, nil)
	for seq := 1; seq <= KeepRefused+50; seq++ {
		h.fails(h.ask(1, seq, "no.such", `{}`)(), ErrorUnknown)
	}
	if n := len(h.Record()); n != KeepRefused || len(h.latest) != KeepRefused {
		t.Errorf("%d are recorded, %d known", n, len(h.latest))
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
	if h.Weight() > 5000 {
		t.Errorf("an ended ledger weighs %d", h.Weight())
	}
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
	if h.Weight() > KeepBytes+(1<<20) {
		t.Errorf("%d bytes are kept", h.Weight())
	}
	if got := h.ask(2, 1, "db.get", `{}`)(); len(got) < 15<<20 {
		t.Errorf("what was kept gave %.100s", got)
	}
	h.fails(h.ask(2, uses, "db.get", `{}`)(), ErrorForgotten)
	if len(h.called()) != uses {
		t.Errorf("performed %d times", len(h.called()))
	}
}

func TestFaultsAreToldWithoutTheirText(t *testing.T) {
	h := newHost(t, nil)
	h.cfg.Providers = map[string]Provider{"db": h.provider(func(context.Context, string, json.RawMessage) (Value, error) {
		return Value{}, errors.New("password 1234 was wrong")
	}, Function{Name: "db.get"}), "ill": ill{}}
	if e := h.fails(h.ask(1, 1, "db.get", `{}`)(), ErrorProvider); strings.Contains(e.Message, "1234") {
		t.Errorf("says %s", e.Message)
	}
	if e := h.fails(h.ask(1, 2, "ill.get", `{}`)(), ErrorProvider); !strings.Contains(e.Message, "ill") {
		t.Errorf("says %s", e.Message)
	}
}

type ill struct{}

func (ill) Functions(context.Context) ([]Function, error) {
	return nil, fmt.Errorf("a server: %w", &Error{ErrorProvider, "the server ill does not start"})
}
func (ill) Call(context.Context, string, json.RawMessage) (Value, error) { panic("called") }

func TestWhatIsShown(t *testing.T) {
	h := newHost(t, nil)
	h.cfg.Providers = map[string]Provider{"plot": h.provider(func(_ context.Context, name string, _ json.RawMessage) (Value, error) {
		d := surfaces.Display{MIME: "image/png", Data: "aGk="}
		if name == "plot.huge" {
			d.Data = strings.Repeat("a", MaxBytes+1)
		}
		return Value{Display: []surfaces.Display{d}}, nil
	}, Function{Name: "plot.one"}, Function{Name: "plot.huge"})}
	h.ask(1, 1, "plot.one", `{}`)()
	h.ask(1, 2, "plot.huge", `{}`)()
	h.ask(2, 1, "plot.one", `{}`)() // replayed, and not shown again
	if len(h.Display()) != 1 || len(h.events) != 2 || h.events[0].Kind != surfaces.EventDisplay || h.events[1].Name != "display_dropped" {
		t.Errorf("shown %d, told %+v", len(h.Display()), h.events)
	}
}

func TestDescribe(t *testing.T) {
	h := newHost(t, func(c *Config) {
		c.Offers = []surfaces.Offer{{Name: "me.get", Description: "gets", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "db.put", Description: "hidden"}}
	})
	h.cfg.Providers = map[string]Provider{
		"db":        h.provider(echo, Function{Name: "db.put", Description: "puts"}, Function{Name: "db.get"}),
		"functions": h.provider(echo, Function{Name: "functions.f", Signature: "(x)"}),
		"ill":       ill{},
	}
	for name, want := range map[string]string{
		"": "db.get db.put me.get", "db": "db.get db.put", "db.put": "db.put", "d": "", "me": "me.get", "db.putt": "",
		"functions": "functions.f", "functions.f": "functions.f", "functions.g": "", "nobody": "",
	} {
		answer := h.ask(1, 0, Describe, `{"name":`+strconv.Quote(name)+`}`)()
		var got struct {
			Result struct{ Functions []Function }
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range got.Result.Functions {
			names = append(names, f.Name)
			if f.Name == "db.put" && f.Description != "puts" || f.Name == "me.get" && string(f.Schema) != `{"type":"object"}` || f.Name == "functions.f" && f.Signature != "(x)" {
				t.Errorf("%q: %+v", name, f)
			}
		}
		if strings.Join(names, " ") != want || got.Result.Functions == nil {
			t.Errorf("%q: %s", name, answer)
		}
	}
	h.fails(h.ask(1, 0, Describe, `{"name":"ill"}`)(), ErrorProvider)
	h.fails(h.ask(1, 0, Describe, `[]`)(), ErrorInvalid)
	if h.Count() != 0 || len(h.Record()) != 0 {
		t.Error("a description was counted")
	}
}

// A provider that hangs hides nothing of the others, and a list of its own waits for it.
func TestDescribeBesideOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		hung := &hanging{}
		h.cfg.Providers = map[string]Provider{"db": h.provider(echo, Function{Name: "db.get"}), "hung": hung}
		began := time.Now()
		if answer := h.ask(1, 0, Describe, `{"name":""}`)(); !strings.Contains(answer, "db.get") {
			t.Errorf("told %s", answer)
		}
		if waited := time.Since(began); waited > 4*time.Second { // of the 5 that kernels wait
			t.Errorf("told after %v", waited)
		}
		wait := h.ask(1, 0, Describe, `{"name":"hung"}`)
		synctest.Wait()
		if n := hung.asked.Load(); n != 2 {
			t.Errorf("it was asked %d times", n)
		}
		h.End()
		h.fails(wait(), ErrorEnded)
	})
}

// hanging is a provider that tells nothing.
type hanging struct {
	Provider
	asked atomic.Int32
}

func (p *hanging) Functions(ctx context.Context) ([]Function, error) {
	p.asked.Add(1)
	<-ctx.Done()
	return nil, context.Cause(ctx)
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

// finder knows a function that it does not list.
type finder struct{ provider }

func (f finder) Find(_ context.Context, name string) (Function, bool, error) {
	return Function{Name: name}, name == "db.found", nil
}

func TestAProviderThatFinds(t *testing.T) {
	h := newHost(t, func(c *Config) { c.Unasked = ", and that is why" })
	left := make(chan time.Duration, 1)
	h.cfg.Providers = map[string]Provider{"db": finder{provider{h, func(ctx context.Context, _ string, _ json.RawMessage) (Value, error) {
		left <- Left(ctx)
		return Value{}, nil
	}, nil}}}
	wait := h.Ask(surfaces.Use{CallID: "c", Attempt: 1, Seq: "1", Name: "db.found", Left: time.Hour})
	if got := string(wait(t.Context())); got != `{"result":null}` {
		t.Error(got)
	}
	if got := <-left; got != time.Hour {
		t.Errorf("the provider is told %v", got)
	}
	if e := h.fails(h.ask(1, 2, "db.other", `{}`)(), ErrorUnknown); !strings.HasSuffix(e.Message, ", and that is why") {
		t.Error(e.Message)
	}
}
