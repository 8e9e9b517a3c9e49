package primitives

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

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

// finder knows a function that it does not list.
type finder struct{ provider }

func (f finder) Find(_ context.Context, name string) (Function, bool, error) {
	return Function{Name: name}, name == "db.found", nil
}

func TestAProviderThatFinds(t *testing.T) {
	h := newHost(t, func(c *Config) { c.NoCallerReason = ", and that is why" })
	left := make(chan time.Duration, 1)
	h.cfg.Providers = map[string]Provider{"db": finder{provider{h, func(ctx context.Context, _ string, _ json.RawMessage) (Value, error) {
		left <- Remaining(ctx)
		return Value{}, nil
	}, nil}}}
	wait := h.Ask(surfaces.Use{CallID: "c", Attempt: 1, Seq: "1", Name: "db.found", Remaining: time.Hour})
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
