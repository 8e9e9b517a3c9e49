package primitives

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusrun/locus/surfaces"
)

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
