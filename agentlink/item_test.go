package agentlink

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// Any bytes from a machine are either rejected or parsed, and what was parsed can be
// encoded again to the same bytes.
func FuzzItem(f *testing.F) {
	for _, it := range []item{
		{kind: itemStarted, number: 1}, {kind: itemStdout, number: 2, offset: 7, body: []byte("text")}, {kind: itemStderr, number: 1 << 40, body: []byte{0xff}},
		{kind: itemEvent, number: 3, body: []byte(`{"kind":"notify"}`)}, {kind: itemUse, number: 4, body: []byte(`{"seq":"1"}`)},
		{kind: itemEnd, number: 5, body: []byte(`{}`)},
	} {
		f.Add(it.encode())
	}
	f.Add([]byte{})
	f.Add([]byte{itemStdout, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		it, err := decodeItem(b)
		if err != nil {
			return
		}
		back, err := decodeItem(it.encode())
		if err != nil || back.kind != it.kind || back.number != it.number || back.offset != it.offset || !bytes.Equal(back.body, it.body) {
			t.Fatalf("read %+v, wrote and read again %+v, %v", it, back, err)
		}
	})
}

// heard is a sink that records what it receives.
type heard struct {
	output  map[string]string
	skipped int64
	events  []surfaces.Event
}

func (h *heard) Output(stream string, p []byte) { h.output[stream] += string(p) }
func (h *heard) Event(e surfaces.Event)         { h.events = append(h.events, e) }
func (h *heard) Skip(_ string, n int64)         { h.skipped += n }
func (h *heard) kinds() (kinds []string) {
	for _, e := range h.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func flying(late func(string, surfaces.Result) bool) (*hubCall, *heard) {
	h := &heard{output: map[string]string{}}
	hub := NewHub(HubConfig{Node: "n", LateResult: late})
	return &hubCall{
		hub: hub, attempt: surfaces.Attempt{CallID: "c", Number: 1, Sink: h}, next: 1, received: map[string]int64{}, done: make(chan struct{}),
	}, h
}

// FuzzTake passes items of a hostile machine to a hubCall: there is no panic, at most one
// result, and nothing in it that a machine cannot know.
func FuzzTake(f *testing.F) {
	good, err := json.Marshal(surfaces.Result{Status: surfaces.StatusDone, Result: json.RawMessage("1"), CallID: "other", Node: "forged", SessionCreated: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(item{kind: itemEnd, number: 9, body: good}.bytes(), item{kind: itemStdout, number: 1, offset: 1 << 50, body: []byte("x")}.bytes())
	f.Add(item{kind: itemEvent, number: 1, body: []byte(`{"kind":"display"}`)}.bytes(), item{kind: itemEnd, number: 2, body: []byte(`{"code":"session_lost","error":"x"}`)}.bytes())
	f.Fuzz(func(t *testing.T, a, b []byte) {
		fl, _ := flying(nil)
		for _, raw := range [][]byte{a, b, a, b} {
			it, err := decodeItem(raw)
			if err != nil {
				continue
			}
			if it.kind == itemUse {
				if _, err := fl.ask(it); err != nil {
					continue
				}
				continue
			}
			if _, err := fl.accept(it); err != nil {
				continue
			}
		}
		if r := fl.result; r != nil {
			if r.CallID != "c" || r.Node != "n" || r.SessionCreated || r.StateLost.Loss != nil || r.Code != nil && !slices.Contains(machineCodes, *r.Code) {
				t.Fatalf("a machine has said %+v", r)
			}
		}
	})
}

func (it item) bytes() []byte { return it.encode() }

func TestACallAcceptsEachItemOnce(t *testing.T) {
	f, h := flying(nil)
	take := func(it item) {
		t.Helper()
		if _, err := f.accept(it); err != nil {
			t.Fatal(err)
		}
	}
	take(item{kind: itemStarted, number: 1})
	take(item{kind: itemStdout, number: 2, offset: 0, body: []byte("one ")})
	take(item{kind: itemStdout, number: 2, offset: 0, body: []byte("one ")}) // again, on another stream
	take(item{kind: itemStdout, number: 5, offset: 10, body: []byte("two")}) // what was between is gone
	if h.output[surfaces.StreamStdout] != "one two" || h.skipped != 6 || len(h.events) != 1 {
		t.Fatalf("got %+v", h)
	}
	body := []byte(`{"status":"done","result":7,"files":[{"name":"out/ok","data":"eA=="},{"name":"../evil","data":"eA=="},{"name":"out/../../evil","data":"eA=="}]}`)
	take(item{kind: itemEnd, number: 6, body: body})
	take(item{kind: itemEnd, number: 7, body: []byte(`{"status":"done","result":8}`)})
	if string(f.result.Result) != "7" || len(f.result.Files) != 1 || f.result.Files[0].SHA256 == "" || len(f.result.Notice) != 1 {
		t.Fatalf("got %+v", f.result)
	}
}

func TestAMachineCannotReportWhatItCannotKnow(t *testing.T) {
	for _, body := range []string{
		`{"status":"running"}`, `{"status":"done","code":"session_lost","error":"x"}`, `{"status":"refused"}`, `{"code":"timeout"}`, `{}`,
	} {
		f, _ := flying(nil)
		if _, err := f.accept(item{kind: itemEnd, number: 1, body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
		if f.result.Code == nil || *f.result.Code != surfaces.CodeOutcomeUnknown {
			t.Errorf("%s came out as %+v", body, f.result)
		}
	}
	for _, it := range []item{
		{kind: itemEvent, body: []byte(`{"kind":"primitive","id":"1"}`)}, {kind: itemEvent, body: []byte(`{"kind":"display"}`)},
		{kind: itemEvent, body: []byte(`{"kind":"placed"}`)}, {kind: itemEvent, body: []byte(`nonsense`)}, {kind: itemEnd, body: []byte(`[]`)},
	} {
		f, h := flying(nil)
		it.number = 1
		if _, err := f.accept(it); err == nil {
			t.Errorf("%s was taken as %v", it.body, h.kinds())
		}
	}
}

// A result that comes after Execute has returned is delivered late, once, together with the
// output before it.
func TestALateResultIsDeliveredOnce(t *testing.T) {
	var late []string
	f, h := flying(func(callID string, res surfaces.Result) bool {
		late = append(late, callID+" "+string(res.Result))
		return true
	})
	res := f.giveUp(true, "gone")
	if *res.Code != surfaces.CodeOutcomeUnknown {
		t.Fatalf("got %+v", res)
	}
	for range 2 {
		for _, it := range []item{{kind: itemStdout, number: 1, body: []byte("printed")}, {kind: itemEnd, number: 2, body: []byte(`{"status":"done","result":1}`)}} {
			if _, err := f.accept(it); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(late) != 1 || late[0] != "c 1" || h.output[surfaces.StreamStdout] != "printed" || len(h.events) != 0 {
		t.Fatalf("got %v, and the caller %+v", late, h)
	}
}

// Nothing large is kept of a call that is over, however it ended.
func TestEndedCallsHoldNothingLarge(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 1<<20)
	result, err := json.Marshal(surfaces.Result{Status: surfaces.StatusDone, Files: []surfaces.File{surfaces.NewFile("out/long", long)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, late := range []bool{false, true} {
		var told surfaces.Result
		f, _ := flying(func(_ string, res surfaces.Result) bool { told = res; return true })
		f.attempt.Call.Code, f.attempt.Call.Files = string(long), []surfaces.File{{Name: "long", Data: long}}
		if late {
			f.giveUp(true, "gone")
		}
		if _, err := f.accept(item{kind: itemEnd, number: 1, body: result}); err != nil {
			t.Fatal(err)
		}
		if !late {
			told = f.takeResult()
		}
		if len(told.Files) != 1 || !bytes.Equal(told.Files[0].Data, long) {
			t.Errorf("late %v: the result is %+v", late, told)
		}
		if c := f.attempt.Call; f.result == nil || len(f.result.Files) > 0 || c.Code != "" || len(c.Files) > 0 {
			t.Errorf("late %v: it holds its program or its result", late)
		}
	}
}
