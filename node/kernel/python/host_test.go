package python_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/locusrun/locus/node/kernel"
)

// host answers what programs ask, as a node would.
type host struct {
	t    testing.TB
	tell func(kernel.Message) error
	// answer gives the outcome of a request; nil gives the arguments back.
	answer func(e kernel.Event) any

	mu    sync.Mutex
	asked []kernel.Event
	work  sync.WaitGroup
}

func newHost(t testing.TB, s *session) *host {
	h := &host{t: t, tell: s.Tell}
	t.Cleanup(h.work.Wait)
	return h
}

func result(v any) map[string]any { return map[string]any{"result": v} }

func failure(kind, message string) map[string]any {
	return map[string]any{"error": map[string]any{"type": kind, "message": message}}
}

func (h *host) events(e kernel.Event) {
	if e.Kind != kernel.EventPrimitive {
		return
	}
	h.mu.Lock()
	h.asked = append(h.asked, e)
	h.mu.Unlock()
	outcome := any(result(e.Data))
	if h.answer != nil {
		if outcome = h.answer(e); outcome == nil {
			return // never
		}
	}
	data, err := json.Marshal(outcome)
	if err != nil {
		h.t.Error(err)
		return
	}
	h.work.Go(func() {
		if err := h.tell(kernel.Message{Kind: kernel.MessagePrimitive, ID: e.ID, Data: data}); err != nil {
			h.t.Error(err)
		}
	})
}

// names gives what was asked so far, as ID NAME DATA.
func (h *host) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for _, e := range h.asked {
		names = append(names, fmt.Sprintf("%s %s %s", e.ID, e.Name, e.Data))
	}
	return names
}

func (h *host) run(s *session, code string) outcome {
	h.t.Helper()
	return s.program(kernel.Program{Code: code, Events: h.events})
}

// expect runs code whose result must be the JSON text.
func (h *host) expect(s *session, code, want string) {
	h.t.Helper()
	o := h.run(s, code)
	if o.Exception != nil || o.result() != want {
		h.t.Fatalf("%.300q gave %.500s, want %s; %s", code, o.result(), want, o.exception().Traceback)
	}
}
