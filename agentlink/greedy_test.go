package agentlink

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// A machine's first message on a stream is bounded: a longer one is not buffered, because a
// machine may open many streams.
func TestAMachinesFirstMessageIsBounded(t *testing.T) {
	w := newTown(t)
	m := w.bare("evil")
	for _, method := range []string{methodAttach, methodCall, methodRenew, methodLeave} {
		s, err := m.StreamAt(t.Context(), w.mesh.Addr().String(), method)
		if err != nil {
			t.Fatal(err)
		}
		// More is to follow, and never comes.
		if err := s.Send(append([]byte{1}, make([]byte, maxFirst+1)...)); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		var told *mesh.Error
		if _, err := s.Receive(); !errors.As(err, &told) {
			t.Errorf("%s: it is told %v", method, err)
		}
		s.Cancel()
	}
	w.serves()
}

// Of many large results at a time, a node buffers only as many as one machine may send. The
// others are accepted when the machine sends them again.
func TestManyLargeResultsAtATime(t *testing.T) {
	w := newTown(t)
	h := w.hostile(nil)
	const calls = maxLargeMessages + 1
	results := make(chan surfaces.Result, calls)
	ids := make([]string, calls)
	for i := range calls {
		ids[i] = fmt.Sprint("large", i)
		called := make(chan struct{})
		go func() {
			defer close(called)
			results <- w.call("evil", ids[i])
		}()
		t.Cleanup(func() { <-called })
		w.awaits("the call is offered", func() bool {
			w.hub.mu.Lock()
			defer w.hub.mu.Unlock()
			return w.hub.attached["evil"].offers[ids[i]]
		})
	}
	result := end(1, `"`+strings.Repeat("x", 3*mesh.MaxFrame)+`"`)
	parts := [][]byte{}
	for b := result.bytes(); len(b) > 0; {
		n := min(len(b), mesh.MaxFrame-1)
		mark := byte(1)
		if n == len(b) {
			mark = 0
		}
		parts = append(parts, append([]byte{mark}, b[:n]...))
		b = b[n:]
	}
	claims := func(id string) *mesh.Stream {
		s := w.opens(h.mesh, methodCall, claim{CallID: id, Home: "n"})
		t.Cleanup(s.Cancel)
		var open claimReply
		if err := receiveJSON(s, maxMessage, &open); err != nil {
			t.Fatal(err)
		}
		return s
	}
	type heard struct {
		id  string
		err error
	}
	told := make(chan heard, calls)
	streams := map[string]*mesh.Stream{}
	for _, id := range ids {
		s := claims(id)
		streams[id] = s
		for _, part := range parts[:2] {
			if err := s.Send(part); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		go func() { told <- heard{id, done(s)} }()
	}
	var first heard
	for late := time.Now().Add(patience / 2); first.id == ""; time.Sleep(time.Millisecond) {
		w.hub.mu.Lock()
		taken := w.hub.large["evil"]
		w.hub.mu.Unlock()
		select {
		case first = <-told:
		default:
			if taken > maxLargeMessages || time.Now().After(late) {
				t.Fatalf("%d large results have begun, %d of them have room, and none is refused", calls, taken)
			}
		}
	}
	if !isCode(first.err, codeLater) {
		t.Fatalf("the first that is told anything is told %v", first.err)
	}
	delete(streams, first.id)
	for id, s := range streams {
		for _, part := range parts[2:] {
			if err := s.Send(part); err != nil {
				t.Fatalf("%s: %v", id, err)
			}
		}
	}
	for range streams {
		if got := <-told; got.err != nil {
			t.Fatalf("%s: %v", got.id, got.err)
		}
	}
	h.says(claims(first.id), result)
	for range calls {
		if res := <-results; res.Code != nil || len(res.Result) != 3*mesh.MaxFrame+2 {
			t.Errorf("got %v with %d bytes", res.Error, len(res.Result))
		}
	}
	w.awaits("all places are free", func() bool {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		return len(w.hub.large) == 0
	})
	w.serves()
}
