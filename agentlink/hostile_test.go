package agentlink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// hostile is a machine that the test plays, with one call that was offered to it.
type hostile struct {
	town *town
	mesh *mesh.Mesh
	at   *mesh.Stream
	told chan surfaces.Result
}

// hostile attaches a machine, and starts the call c1 on it.
func (w *town) hostile(host surfaces.Host) *hostile {
	w.t.Helper()
	h := &hostile{town: w, mesh: w.bare("evil"), told: make(chan surfaces.Result, 1)}
	h.at = w.opens(h.mesh, methodAttach, hello{Protocol: protocol, Facts: Facts{Languages: []string{"python"}}})
	ctx, cancel := context.WithCancel(w.t.Context())
	var alive sync.WaitGroup
	alive.Go(func() {
		for beat := time.NewTicker(heartbeatEvery); ; {
			select {
			case <-beat.C:
				_ = send(h.at, nil) // its end is checked elsewhere
			case <-ctx.Done():
				beat.Stop()
				return
			}
		}
	})
	w.t.Cleanup(func() { cancel(); alive.Wait(); h.at.Cancel() })
	w.awaits("the machine is there", w.there("evil"))
	called := make(chan struct{})
	go func() {
		defer close(called)
		h.told <- w.hub.Execute(w.t.Context(), surfaces.Attempt{CallID: "c1", Actor: "ada", Number: 1, Host: host, Call: surfaces.Call{
			Actor: "ada", Linked: &surfaces.MachineItem{Name: "evil", Place: surfaces.UserMachine},
			Request: surfaces.Request{Code: "1", Language: surfaces.Python, StateMode: surfaces.Stateless, Surface: surfaces.UserMachine, Timeout: patience},
		}}).Result
	}()
	w.t.Cleanup(func() { <-called })
	w.awaits("the call is offered", func() bool {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		return w.hub.attached["evil"].offers["c1"]
	})
	return h
}

// claims opens a stream of the call, and returns the hub's reply.
func (h *hostile) claims() (*mesh.Stream, claimReply) {
	h.town.t.Helper()
	s := h.town.opens(h.mesh, methodCall, claim{CallID: "c1", Home: "n"})
	var open claimReply
	if err := receiveJSON(s, maxMessage, &open); err != nil {
		h.town.t.Fatal(err)
	}
	return s, open
}

func (h *hostile) says(s *mesh.Stream, items ...item) {
	h.town.t.Helper()
	for _, it := range items {
		if err := send(s, it.bytes()); err != nil {
			h.town.t.Fatal(err)
		}
	}
}

// result waits for the result of the call.
func (h *hostile) result() surfaces.Result {
	h.town.t.Helper()
	select {
	case res := <-h.told:
		return res
	case <-time.After(patience):
		h.town.t.Fatal("the call goes on")
	}
	return surfaces.Result{}
}

// serves checks that another machine still works.
func (w *town) serves() {
	w.t.Helper()
	w.runs(w.settle("laptop", time.Now()), quickly{})
	w.awaits("the other machine is there", w.there("laptop"))
	if res := w.call("laptop", "other"); string(res.Result) != "1" {
		w.t.Errorf("another machine's call gave %+v", res)
	}
}

func end(number uint64, result string) item {
	return item{kind: itemEnd, number: number, body: []byte(`{"status":"done","result":` + result + `}`)}
}

// done waits until the hub has acknowledged the result.
func done(s *mesh.Stream) error {
	for {
		var c control
		if err := receiveJSON(s, maxMessage, &c); err != nil || c.Done {
			return err
		}
	}
}

// A message that does not end uses a bounded part of the node's memory, and the call can
// still succeed.
func TestAMessageWithoutAnEndIsCut(t *testing.T) {
	w := newTown(t)
	h := w.hostile(nil)
	part := append([]byte{1}, make([]byte, mesh.MaxFrame-1)...)
	for method, most := range map[string]int{methodCall: maxMessage, methodAttach: maxSmall} {
		s := h.at
		if method == methodCall {
			s, _ = h.claims()
		}
		var err error
		for sent := 0; err == nil && sent <= most; sent += mesh.MaxFrame - 1 {
			err = s.Send(part) // it may be cut off before it has said all
		}
		var told *mesh.Error
		for err = nil; err == nil; { // what it was told before
			_, err = s.Receive()
		}
		if errors.Is(err, io.EOF) || errors.As(err, &told) && told.Code == codeForgotten {
			t.Errorf("%s: it was told %v", method, err)
		}
		s.Cancel()
	}
	s, _ := h.claims()
	defer s.Cancel()
	h.says(s, end(1, "7"))
	if res := h.result(); string(res.Result) != "7" {
		t.Errorf("got %+v", res)
	}
	w.serves()
}

// One result is accepted, whatever streams it comes by, and however often.
func TestAResultIsTakenOnce(t *testing.T) {
	w := newTown(t)
	h := w.hostile(nil)
	s, _ := h.claims()
	h.says(s, end(1, "1"), end(2, "2"), end(1, "3"))
	if res := h.result(); string(res.Result) != "1" {
		t.Fatalf("got %+v", res)
	}
	if err := done(s); err != nil {
		t.Fatal(err)
	}
	s.Cancel()
	for n := range uint64(10) {
		again, open := h.claims()
		if open.Program != nil || open.Next != 2 {
			t.Errorf("it is given %+v", open)
		}
		_ = send(again, end(n+1, "4").bytes()) // nobody listens
		if err := done(again); err != nil {
			t.Error(err)
		}
		again.Cancel()
	}
	w.mu.Lock()
	late := len(w.late)
	w.mu.Unlock()
	if late != 0 {
		t.Errorf("%d results came late", late)
	}
	w.serves()
}

// generous is a host whose answers are large.
type generous struct{}

func (generous) Ask(surfaces.Use) func(context.Context) json.RawMessage {
	return func(context.Context) json.RawMessage {
		return json.RawMessage(`{"result":"` + strings.Repeat("x", maxSmall) + `"}`)
	}
}

// A machine that uses primitives and does not read the answers delays neither the end of
// its call nor other machines.
func TestAMachineThatDoesNotReadItsAnswers(t *testing.T) {
	w := newTown(t)
	h := w.hostile(generous{})
	s, _ := h.claims()
	defer s.Cancel()
	for n := range uint64(100) {
		h.says(s, item{kind: itemUse, number: n + 1, body: fmt.Appendf(nil, `{"seq":"%d","name":"a.b"}`, n+1)})
	}
	h.says(s, end(101, "5"))
	if res := h.result(); string(res.Result) != "5" {
		t.Errorf("got %+v", res)
	}
	w.serves()
}

// silent is a host that does not answer.
type silent struct{}

func (silent) Ask(surfaces.Use) func(context.Context) json.RawMessage {
	return func(ctx context.Context) json.RawMessage { <-ctx.Done(); return nil }
}

func TestRequestsOfAMachineAreBounded(t *testing.T) {
	w := newTown(t)
	h := w.hostile(silent{})
	s, _ := h.claims()
	var err error
	for n := uint64(1); err == nil; n++ {
		if err = send(s, item{kind: itemUse, number: n, body: fmt.Appendf(nil, `{"seq":"%d","name":"a.b"}`, n)}.bytes()); n > 100*openUses {
			t.Fatalf("%d uses wait", n)
		}
	}
	s.Cancel()
	again, open := h.claims()
	defer again.Cancel()
	h.says(again, end(open.Next, "6"))
	if res := h.result(); string(res.Result) != "6" {
		t.Errorf("got %+v", res)
	}
	w.serves()
}

// A machine that is attached but does not read gets a bounded number of offers, and no
// caller waits for it.
func TestAMachineThatDoesNotReadItsOffers(t *testing.T) {
	w := newTown(t)
	h := w.hostile(nil)
	o := offer{Home: "n", Program: &program{Language: surfaces.Python, Code: strings.Repeat("x", inlineProgram)}}
	began, n := time.Now(), 0
	for full := false; !full; {
		for said := (offerReply{}); !said.Busy; n++ {
			if n > 10_000 {
				t.Fatal("it is offered more and more")
			}
			o.CallID = fmt.Sprint("more", n)
			said = w.hub.offerLocal("evil", o)
		}
		// The connection may have taken some offers since. Then the queue is filled again.
		res := w.callFor("evil", fmt.Sprint("late", n), 10*time.Millisecond)
		full = res.Code != nil && *res.Code == surfaces.CodeNoCapacity
		if !full && time.Since(began) > patience {
			t.Fatalf("one more call gave %+v", res)
		}
	}
	s, _ := h.claims()
	defer s.Cancel()
	h.says(s, end(1, "8"))
	if res := h.result(); string(res.Result) != "8" {
		t.Errorf("got %+v", res)
	}
	w.serves()
	w.hub.Disconnect("evil")
	w.awaits("the machine is away", func() bool { return !w.hub.Has("evil") })
}

// FuzzMachine sends arbitrary frames by each method of the link: the hub answers or refuses
// them, and its call ends with a result of the call or not at all.
func FuzzMachine(f *testing.F) {
	f.Add(byte(0), []byte("\x00{\"protocol\":1}"), []byte("\x00{\"languages\":[\"x\"]}"))
	f.Add(byte(1), []byte("\x00{\"call_id\":\"c1\",\"home\":\"n\",\"need\":true}"), []byte("\x00\x06\x01{\"status\":\"done\",\"node\":\"forged\"}"))
	f.Add(byte(1), []byte("\x00{\"call_id\":\"c1\",\"home\":\"elsewhere\"}"), []byte("\x01\x05\x01"))
	f.Add(byte(2), []byte("\x00{\"spki\":\"AAAA\"}"), []byte{})
	f.Add(byte(3), []byte("\x01"), []byte("\x07"))
	w := newTown(f)
	m := w.bare("evil")
	w.runs(w.settle("laptop", time.Now()), quickly{})
	w.awaits("the other machine is there", w.there("laptop"))
	calls := 0
	f.Fuzz(func(t *testing.T, method byte, first, second []byte) {
		if len(first) > mesh.MaxFrame || len(second) > mesh.MaxFrame {
			t.Skip("longer than a frame")
		}
		w.t = t
		w.change(func() {
			w.machines["evil"] = Machine{ID: "evil", Name: "evil", Actor: "ada", Place: surfaces.UserMachine}
		}) // it may have left
		fl, _ := flying(func(string, surfaces.Result) bool { return true })
		fl.hub, fl.machine, fl.claimed, fl.stopping = w.hub, Machine{ID: "evil"}, make(chan struct{}), make(chan struct{})
		fl.attempt.CallID = "c1"
		w.hub.mu.Lock()
		w.hub.calls["c1"] = fl
		w.hub.mu.Unlock()
		s, err := m.StreamAt(t.Context(), w.mesh.Addr().String(), []string{methodAttach, methodCall, methodRenew, methodLeave}[method%4])
		if err != nil {
			t.Fatal(err)
		}
		for _, frame := range [][]byte{first, second} {
			_ = s.Send(frame) // whether it is taken is the hub's to say
		}
		_ = s.CloseSend()
		for err == nil {
			_, err = s.Receive()
		}
		s.Cancel()
		fl.mu.Lock()
		r := fl.result
		fl.mu.Unlock()
		if r != nil && (r.CallID != "c1" || r.Node != "n") {
			t.Fatalf("a machine has said %+v", r)
		}
		if calls++; calls%100 == 1 {
			if res := w.call("laptop", fmt.Sprint("other", calls)); string(res.Result) != "1" {
				t.Fatalf("another machine's call gave %+v", res)
			}
		}
	})
}
