package primitives

import (
	"sync"
	"testing"
)

func TestTheBudget(t *testing.T) {
	h := newHost(t, func(c *Config) { c.Budget = NewBudget(3) })
	h.cfg.Providers = map[string]Provider{"db": h.provider(echo, Function{Name: "db.get"})}
	for seq := 1; seq <= 5; seq++ {
		h.ask(1, 2*seq, "no.such", ``)() // what is refused costs nothing
		answer := h.ask(1, 2*seq+1, "db.get", `{}`)()
		if seq > 3 {
			h.fails(answer, ErrorLimit)
		} else if answer != `{"result":{}}` {
			t.Errorf("use %d: %s, want {\"result\":{}}", seq, answer)
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
