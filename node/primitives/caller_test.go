package primitives

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

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
	if got, want := one(), `{"result":["a"]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if e := h.fails(two(), ErrorFailed); e.Message != "no such file" {
		t.Errorf("got %+v, want Message \"no such file\"", e)
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
	if got, want := waits(), `{"result":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
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
	if got, want := wait(), `{"result":"of rm"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
