package primitives

import (
	"context"
	"encoding/json"
	"testing"
)

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

	if got, want := h.ask(2, 1, "db.get", `{"b":2, "a":1}`)(), `{"result":{"a":1,"b":2}}`; got != want {
		t.Errorf("replayed %s, want %s", got, want)
	}
	h.fails(h.ask(2, 2, "db.bad", `{}`)(), "mine")
	asked, slow := h.ask(2, 3, "db.none", `{}`), h.ask(2, 4, "db.slow", `{}`)
	if got, want := h.ask(2, 5, "db.get", `{"new":1}`)(), `{"result":{"new":1}}`; got != want {
		t.Errorf("what differs gave %s, want %s", got, want)
	}
	close(release)
	if got, want := slow(), `{"result":{}}`; got != want {
		t.Errorf("what was under way gave %s, want %s", got, want)
	}
	if err := h.Answer("3", []byte(`{"result":3}`)); err != nil {
		t.Fatal(err)
	}
	if got, want := asked(), `{"result":3}`; got != want {
		t.Errorf("the caller's answer became %s, want %s", got, want)
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
	for seq := 1; seq <= MaxRefused+50; seq++ {
		h.fails(h.ask(1, seq, "no.such", `{}`)(), ErrorUnknown)
	}
	if n := len(h.Record()); n != MaxRefused || len(h.latest) != MaxRefused {
		t.Errorf("%d are recorded, %d known", n, len(h.latest))
	}
}
