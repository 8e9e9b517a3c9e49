package agentlink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// A machine whose certificate expired while it was suspended proves that it has the key,
// and gets a new one; a machine that was unlinked meanwhile does not.
func TestACertificateThatExpiredDuringSuspensionIsReplaced(t *testing.T) {
	w := newTown(t)
	dir := w.settle("laptop", time.Now().Add(-20*24*time.Hour))
	ended := w.runs(dir, quickly{})
	w.awaits("the machine is there", w.there("laptop"))
	if res := w.call("laptop", "c1"); string(res.Result) != "1" {
		t.Fatalf("got %+v", res)
	}
	kept, err := certs.LoadCredentials(dir)
	if err != nil || time.Now().After(kept.Leaf().NotAfter) {
		t.Fatalf("the new certificate is not kept: %v", err)
	}
	select {
	case err := <-ended:
		t.Fatalf("the agent ended with %v", err)
	default:
	}

	gone := w.settle("gone", time.Now().Add(-20*24*time.Hour))
	w.change(func() { delete(w.machines, "gone") })
	select {
	case err := <-w.runs(gone, quickly{}):
		if !errors.Is(err, ErrUnlinked) {
			t.Fatalf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on though it is not linked any more")
	}
	if _, err := os.Stat(filepath.Join(gone, "credentials.pem")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("it keeps its key: %v", err)
	}
}

// A call that is offered repeatedly is started once.
func TestARepeatedOfferStartsNothing(t *testing.T) {
	w := newTown(t)
	dir := w.settle("laptop", time.Now())
	w.runs(dir, quickly{})
	w.awaits("the machine is there", w.there("laptop"))
	if res := w.call("laptop", "c1"); string(res.Result) != "1" {
		t.Fatalf("got %+v", res)
	}
	for range 10 {
		w.hub.mu.Lock()
		delete(w.hub.attached["laptop"].offers, "c1") // as another node would, that has not offered it yet
		w.hub.mu.Unlock()
		w.hub.offerLocal("laptop", offer{CallID: "c1", Home: "n", Program: &program{Language: surfaces.Python, Code: "1", Timeout: patience}})
	}
	if res := w.call("laptop", "c2"); string(res.Result) != "1" {
		t.Fatalf("got %+v", res)
	}
	starts := 0
	if err := ReadLog(dir, func(e Entry) error {
		if e.CallID == "c1" && e.What == "asked" {
			starts++
		}
		return nil
	}); err != nil || starts != 1 {
		t.Fatalf("it was started %d times, %v", starts, err)
	}
}

// A machine that was suspended past the end of a call asks for the program. It does not get
// it, and then it is known that nothing ran.
func TestAMachineThatAsksTooLateRunsNothing(t *testing.T) {
	w := newTown(t)
	m := w.bare("laptop")
	at := w.opens(m, methodAttach, hello{Protocol: protocol, Facts: Facts{Languages: []string{"python"}}})
	defer at.Cancel()
	w.awaits("the machine is there", w.there("laptop"))
	if res := w.callFor("laptop", "c1", time.Millisecond); res.Code == nil || *res.Code != surfaces.CodeOutcomeUnknown {
		t.Fatalf("got %+v", res)
	}
	for range 2 {
		s := w.opens(m, methodCall, claim{CallID: "c1", Home: "n", Need: true})
		var open claimReply
		if err := receiveJSON(s, maxMessage, &open); !isCode(err, codeForgotten) {
			t.Fatalf("got %+v, %v", open, err)
		}
		s.Cancel()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if res, ok := w.late["c1"]; !ok || *res.Code != surfaces.CodeMachineUnreachable {
		t.Fatalf("it is said to be %+v", res)
	}
}

// The program of a call that could end during an undetected suspension is not sent with the
// offer: the machine has to ask for it.
func TestABriefCallIsAskedFor(t *testing.T) {
	w := newTown(t)
	at := w.opens(w.bare("laptop"), methodAttach, hello{Protocol: protocol, Facts: Facts{Languages: []string{"python"}}})
	defer at.Cancel()
	var hi welcome
	if err := receiveJSON(at, maxSmall, &hi); err != nil {
		t.Fatal(err)
	}
	w.awaits("the machine is there", w.there("laptop"))
	for id, limit := range map[string]time.Duration{"brief": shortCall, "long": time.Hour} {
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			w.callIn(ctx, "laptop", id, limit)
		}()
		var o offer
		if err := receiveJSON(at, maxMessage, &o); err != nil {
			t.Fatal(err)
		}
		if o.CallID != id || (o.Program != nil) != (id == "long") {
			t.Errorf("got %+v", o)
		}
		cancel()
		<-over
	}
}

// A machine whose connection lives but that sends no heartbeats counts as disconnected, and
// is told so.
func TestAMachineWithoutSignsOfLifeIsAway(t *testing.T) {
	w := newTown(t)
	at := w.opens(w.bare("laptop"), methodAttach, hello{Protocol: protocol})
	defer at.Cancel()
	var hi welcome
	if err := receiveJSON(at, maxSmall, &hi); err != nil {
		t.Fatal(err)
	}
	for range 3 { // not while it gives some
		if err := send(at, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := receive(at, maxSmall); !isCode(err, codeSilent) {
		t.Fatalf("got %v", err)
	}
	w.awaits("the machine is away", func() bool { return !w.there("laptop")() })
	if res := w.call("laptop", "c1"); res.Code == nil || *res.Code != surfaces.CodeMachineUnreachable {
		t.Fatalf("got %+v", res)
	}
}

// BenchmarkOneShot measures a whole call through the link with an empty program, against
// two round trips of 64 bytes over the same kind of connection.
func BenchmarkOneShot(b *testing.B) {
	w := newTown(b)
	w.runs(w.settle("laptop", time.Now()), quickly{})
	w.awaits("the machine is there", w.there("laptop"))
	w.change(func() { w.machines["bare"] = Machine{ID: "bare"} })
	bare, err := mesh.Open(mesh.Config{Conn: loopback(b), Credentials: w.credentials(certs.RoleLink, "bare", time.Now()), DialOnly: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	message := make([]byte, 64)
	var calls, trips []time.Duration
	n := 0
	for b.Loop() {
		n++
		began := time.Now()
		s, err := bare.StreamAt(b.Context(), w.mesh.Addr().String(), "echo")
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Send(message); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Receive(); err != nil {
			b.Fatal(err)
		}
		s.Cancel()
		trips = append(trips, time.Since(began))
		began = time.Now()
		if res := w.call("laptop", fmt.Sprint("call_", n)); string(res.Result) != "1" {
			b.Fatalf("got %+v", res)
		}
		calls = append(calls, time.Since(began))
	}
	slices.Sort(calls)
	slices.Sort(trips)
	c, r := calls[len(calls)/2], trips[len(trips)/2]
	b.ReportMetric(float64(c.Nanoseconds())/1e3, "call-us")
	b.ReportMetric(float64(r.Nanoseconds())/1e3, "round-trip-us")
	b.ReportMetric(float64(c)/float64(2*r), "of-two-trips")
}
