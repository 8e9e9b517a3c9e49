package primitives

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
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
