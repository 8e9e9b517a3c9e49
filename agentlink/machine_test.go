package agentlink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/locusrun/locus/surfaces"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOwnersPolicyAndAnswersAreFollowed(t *testing.T) {
	q := Question{CallID: "c", Actor: "ada", Language: "python", Code: "1"}
	asked := 0
	answers := func(r Reply) AskOwner {
		return func(context.Context, Question) (Reply, error) { asked++; return r, nil }
	}
	away := func(ctx context.Context, _ Question) (Reply, error) { <-ctx.Done(); return ReplyNo, ctx.Err() }
	for name, row := range map[string]struct {
		policy Policy
		ask    AskOwner
		paused bool
		want   surfaces.Code
		asked  int // over two calls
	}{
		"allow":               {Policy{Consent: ConsentAllow}, nil, false, "", 0},
		"allow another":       {Policy{Consent: ConsentAllow, Languages: []string{"bash"}}, nil, false, surfaces.CodeConsentDenied, 0},
		"deny":                {Policy{Consent: ConsentDeny}, nil, false, surfaces.CodeConsentDenied, 0},
		"paused":              {Policy{Consent: ConsentAllow}, nil, true, surfaces.CodeConsentDenied, 0},
		"once, twice":         {Policy{Consent: ConsentAsk}, answers(ReplyOnce), false, "", 2},
		"the task":            {Policy{Consent: ConsentAsk}, answers(ReplyTask), false, "", 1},
		"no":                  {Policy{Consent: ConsentAsk}, answers(ReplyNo), false, surfaces.CodeConsentDenied, 2},
		"nonsense":            {Policy{Consent: ConsentAsk}, answers("maybe"), false, surfaces.CodeConsentDenied, 2},
		"nobody there":        {Policy{Consent: ConsentAsk}, away, false, surfaces.CodeConsentTimeout, 0},
		"no such consent":     {Policy{Consent: "perhaps"}, answers(ReplyNo), false, surfaces.CodeConsentDenied, 2},
		"asks within allowed": {Policy{Consent: ConsentAsk, Languages: []string{"bash"}}, answers(ReplyOnce), false, surfaces.CodeConsentDenied, 0},
	} {
		asked = 0
		g := newGate(row.policy, row.ask, func() bool { return row.paused })
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if row.want != surfaces.CodeConsentTimeout {
				ctx = t.Context()
			}
			refusal := g.allows(ctx, q)
			cancel()
			if (refusal == nil) != (row.want == "") || refusal != nil && refusal.Code != row.want {
				t.Errorf("%s: got %+v, want %q", name, refusal, row.want)
			}
		}
		if asked != row.asked {
			t.Errorf("%s: the owner was asked %d times, want %d", name, asked, row.asked)
		}
	}
}

// The consent for one actor's task does not apply to another actor's.
func TestConsentToATaskIsForOneActor(t *testing.T) {
	var asked []string
	g := newGate(Policy{Consent: ConsentAsk}, func(_ context.Context, q Question) (Reply, error) {
		asked = append(asked, q.Actor)
		return ReplyTask, nil
	}, func() bool { return false })
	for _, actor := range []string{"ada", "ada", "bob", "ada", "bob"} {
		if refusal := g.allows(t.Context(), Question{Actor: actor}); refusal != nil {
			t.Fatal(refusal)
		}
	}
	if strings.Join(asked, " ") != "ada bob" {
		t.Fatalf("asked for %v", asked)
	}
}

// A call that waits for its turn to ask the owner ends at its own deadline.
func TestAQuestionDoesNotWaitBeyondItsCall(t *testing.T) {
	put, answered := make(chan struct{}), make(chan struct{})
	g := newGate(Policy{Consent: ConsentAsk}, func(context.Context, Question) (Reply, error) {
		close(put)
		<-answered
		return ReplyOnce, nil
	}, func() bool { return false })
	first := make(chan *surfaces.Refusal, 1)
	go func() { first <- g.allows(context.Background(), Question{Actor: "ada"}) }()
	<-put
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if refusal := g.allows(ctx, Question{Actor: "bob"}); refusal == nil || refusal.Code != surfaces.CodeConsentTimeout {
		t.Fatalf("got %+v", refusal)
	}
	close(answered)
	if refusal := <-first; refusal != nil {
		t.Fatal(refusal)
	}
}

func TestPauseIsAFile(t *testing.T) {
	dir := t.TempDir()
	if Paused(dir) {
		t.Fatal("paused at first")
	}
	for range 2 {
		if err := Pause(dir); err != nil || !Paused(dir) {
			t.Fatalf("not paused: %v", err)
		}
	}
	for range 2 {
		if err := Resume(dir); err != nil || Paused(dir) {
			t.Fatalf("not resumed: %v", err)
		}
	}
}

func TestAFullBufferKeepsTheEnd(t *testing.T) {
	w := newJob("c", "home", nil, func(error) {})
	wait := w.Ask(surfaces.Use{Seq: "1", Name: "a.b", Data: json.RawMessage("{}")})
	for i := range 100_000 {
		w.Output(surfaces.StreamStdout, fmt.Appendf(nil, "line %d of what is printed here\n", i))
		if i%1000 == 0 {
			w.itemsFrom(0, false) // as when it went out: later output cannot join what is on its way
		}
	}
	w.Event(surfaces.Event{Kind: surfaces.EventNotify, Text: "half"})
	w.Event(surfaces.Event{Kind: surfaces.EventClarification, Text: "not for a machine"})
	w.finish(surfaces.Result{Status: surfaces.StatusDone})
	list := w.itemsFrom(0, true)
	if w.bytes > maxBufferedBytes+mergeLimit || len(list) > maxBufferedItems {
		t.Fatalf("%d bytes in %d items are held", w.bytes, len(list))
	}
	if list[0].kind != itemUse || list[len(list)-1].kind != itemEnd || list[len(list)-2].kind != itemEvent {
		t.Fatal("what has to be kept is not")
	}
	total := int64(0)
	for i := range list {
		if i > 0 && list[i].number <= list[i-1].number {
			t.Fatalf("item %d comes after %d", list[i].number, list[i-1].number)
		}
		if list[i].kind == itemStdout {
			total = list[i].offset + int64(len(list[i].body))
		}
	}
	if total != w.offsets[surfaces.StreamStdout] {
		t.Fatalf("the last output ends at %d of %d", total, w.offsets[surfaces.StreamStdout])
	}
	w.settle(answer{Use: list[0].number, Answer: json.RawMessage(`{"result":1}`)})
	if got := wait(t.Context()); string(got) != `{"result":1}` {
		t.Fatalf("got %s", got)
	}
	if list = w.itemsFrom(list[len(list)-1].number+1, true); len(list) != 0 {
		t.Fatalf("a use that was answered is asked again: %+v", list)
	}
}

// The journal of a killed agent is reported correctly.
func TestJournalOfAKilledAgent(t *testing.T) {
	j := journal{t.TempDir()}
	done := newJob("call_done", "home", nil, func(error) {})
	done.Output(surfaces.StreamStdout, []byte("said"))
	for _, id := range []string{"call_done", "call_running", "call_home"} {
		if err := j.writeStarted(id, "home"); err != nil {
			t.Fatal(err)
		}
	}
	done.finish(surfaces.Result{Status: surfaces.StatusDone, Result: json.RawMessage("1")})
	if err := errors.Join(j.writeResult(done), j.remove("call_home"), j.remove("call_home")); err != nil {
		t.Fatal(err)
	}
	left, err := j.load()
	if err != nil || len(left) != 2 {
		t.Fatalf("%d are left, %v", len(left), err)
	}
	for _, w := range left {
		f, h := flying(nil)
		f.next = 3 // the home has heard some of it
		for _, it := range w.itemsFrom(1, true) {
			back, err := decodeItem(it.encode())
			if err == nil {
				_, err = f.accept(back)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		switch {
		case w.home != "home" || w.needsProgram():
			t.Fatalf("got %+v", w)
		case w.callID == "call_running" && (f.result == nil || *f.result.Code != surfaces.CodeOutcomeUnknown):
			t.Fatalf("what ran is told as %+v", f.result)
		case w.callID == "call_done" && len(h.output) != 0:
			t.Fatalf("what was heard is told again: %+v", h)
		}
	}
}

func TestLogIsRotatedAndReadWhole(t *testing.T) {
	dir := t.TempDir()
	d, err := openMachineLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	code := strings.Repeat("x", MaxLoggedCode)
	const entries = 600 // over two files
	for i := range entries {
		if err := d.write(Entry{CallID: fmt.Sprint("c", i), What: "asked", Code: code}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	n, last := 0, ""
	if err := ReadLog(dir, func(e Entry) error { n++; last = e.CallID; return nil }); err != nil || last != fmt.Sprint("c", entries-1) || n < 200 || n == entries {
		t.Fatalf("%d entries up to %s, %v", n, last, err)
	}
}
