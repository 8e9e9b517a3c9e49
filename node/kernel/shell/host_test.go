package shell

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/node/kernel"
)

// host answers the primitives of one kernel's programs, as the node would:
//
//	say.back     gives its arguments
//	say.text     gives their "text"
//	say.nothing  gives null
//	say.no       fails
//	wait.long    is answered by nobody, and told on the channel waiting
type host struct {
	t       testing.TB
	k       kernel.Kernel
	waiting chan kernel.Event

	mu    sync.Mutex
	heard []kernel.Event
}

func newHost(s *seat) *host {
	return &host{t: s.b.t, k: s.k, waiting: make(chan kernel.Event, 16)}
}

const thereIs = `{"functions": [
	{"name": "say.back", "description": "Says it back.\nAll of it.", "schema": {"type": "object"}, "read_only": true},
	{"name": "say.no", "destructive": true}]}`

func (h *host) event(e kernel.Event) {
	h.mu.Lock()
	h.heard = append(h.heard, e)
	h.mu.Unlock()
	if e.Kind != kernel.EventPrimitive {
		h.t.Errorf("an event of kind %q", e.Kind)
	}
	if !json.Valid(e.Data) {
		h.t.Errorf("%s: the arguments are not JSON: %.100q", e.Name, e.Data)
	}
	switch e.Name {
	case "say.back":
		h.result(e.ID, string(e.Data))
	case "say.text":
		var said struct{ Text json.RawMessage }
		if err := json.Unmarshal(e.Data, &said); err != nil {
			h.t.Error(err)
		}
		h.result(e.ID, string(said.Text))
	case "say.nothing":
		h.result(e.ID, "null")
	case "say.much":
		h.result(e.ID, `"`+strings.Repeat("x", 17<<20)+`"`)
	case "functions.double":
		h.result(e.ID, `{"json": `+string(e.Data)+`}`)
	case "functions.pickled":
		h.result(e.ID, `{"pickle": "gASVAQ==", "python": "3.11"}`)
	case "wait.long":
		h.waiting <- e
	case "locus.describe":
		var asked struct{ Name string }
		if err := json.Unmarshal(e.Data, &asked); err != nil {
			h.t.Error(err)
		}
		if asked.Name == "" || asked.Name == "say" || asked.Name == "say.back" {
			h.result(e.ID, thereIs)
		} else {
			h.result(e.ID, `{"functions": []}`)
		}
	default:
		h.tell(e.ID, `{"error": {"type": "failed", "message": "it says no to `+e.Name+`"}}`)
	}
}

// waits gives the next question that nobody answers.
func (h *host) waits() kernel.Event {
	h.t.Helper()
	select {
	case e := <-h.waiting:
		return e
	case <-time.After(patience):
		h.t.Fatal("nobody asked")
		return kernel.Event{}
	}
}

func (h *host) result(id, value string) { h.tell(id, `{"result": `+value+`}`) }

func (h *host) tell(id, data string) {
	if err := h.k.Tell(kernel.Message{Kind: kernel.MessagePrimitive, ID: id, Data: json.RawMessage(data)}); err != nil {
		h.t.Error("tell:", err)
	}
}

// calls are the numbers of the calls that were heard, sorted.
func (h *host) calls() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	var numbers []int
	for _, e := range h.heard {
		if n, err := strconv.Atoi(e.ID); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// asks runs a program whose primitives are answered.
func (s *seat) asks(code string) (outcome, *host) {
	s.b.t.Helper()
	h := newHost(s)
	return s.program(kernel.Program{Code: code, Events: h.event}), h
}

func (s *seat) wantAsks(code, out string, status int) *host {
	s.b.t.Helper()
	o, h := s.asks(code)
	if o.failure != nil || o.out != out || o.code != status {
		s.b.t.Errorf("%.300q:\n gave %.500q, status %d, error %v, stderr %.500q\n want %.500q, status %d", code, o.out, o.code, o.failure, o.err, out, status)
	}
	return h
}

// modes gives a kernel of each kind.
func (b *bench) modes() map[string]*seat {
	s := b.session()
	c, _ := s.fork(kernel.Copy)
	f, _ := s.fork(kernel.Session)
	return map[string]*seat{"session": s, "copy": c, "fork": f, "one-shot": {b: b, k: b.start(kernel.OneShot)}}
}
