package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway"
)

// follower reads /v1/events and knows where it is.
type follower struct {
	at     string
	events chan gateway.MeshEvent
	leave  func()
}

// eventsAfter reads the events after an id; from now on without one. It returns when the node
// has said where the stream is, or without one when the first event is there.
func (w *world) eventsAfter(t *testing.T, after string) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req := w.newRequest(ctx, "GET", "/v1/events", nil)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := w.send(req)
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{at: after, events: make(chan gateway.MeshEvent, 10000)}
	positioned, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				if f.at == "" {
					f.at = id
					close(positioned)
				}
				f.at = id
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var ev gateway.MeshEvent
				if err := json.Unmarshal([]byte(data), &ev); err != nil {
					t.Errorf("the data of an event: %v: %.300s", err, data)
				}
				f.events <- ev
			}
		}
	}()
	f.leave = func() {
		cancel()
		<-ended
	}
	t.Cleanup(f.leave)
	if after == "" {
		select {
		case <-positioned:
		case <-ended:
			t.Fatal("the stream ended before its first event")
		}
	}
	return f
}

// hears reads until calls have ended, each once and on its node.
func (f *follower) hears(t *testing.T, want map[string]string) {
	t.Helper()
	left := maps.Clone(want)
	on := map[string]string{}
	for len(left) > 0 {
		ev := <-f.events
		var call struct {
			CallID string `json:"call_id"`
		}
		if ev.Kind == "dropped" {
			t.Fatalf("got %+v, want ev.Kind other than \"dropped\"", ev)
		}
		if ev.Kind != "call_ended" || json.Unmarshal(ev.Data, &call) != nil {
			continue
		}
		if on[call.CallID] != "" {
			t.Errorf("%s was told twice", call.CallID)
		}
		on[call.CallID] = ev.Node
		if node, ok := left[call.CallID]; ok && node != ev.Node {
			t.Errorf("%s was on %s, and it was told of %s", call.CallID, node, ev.Node)
		}
		delete(left, call.CallID)
	}
}

// A client that reconnects with the id of its last event gets the events that it missed, of
// every node, each once, and is told if some are no longer available.
func TestEventsOfAMeshAreResumed(t *testing.T) {
	t.Parallel()
	all := mesh(t, 3)
	f := all[0].eventsAfter(t, "")
	eventually(t, "all nodes are heard", func() bool { // once a call of a node is received, its events are
		for _, w := range all {
			ok(t, w.once("1"))
		}
		heard := map[string]bool{}
		for len(f.events) > 0 {
			heard[(<-f.events).Node] = true
		}
		return len(heard) == 3
	})
	f.leave()
	for len(f.events) > 0 {
		<-f.events
	}
	want := map[string]string{}
	for range 2 {
		for _, w := range all {
			want[ok(t, w.once("1")).CallID] = w.id()
		}
	}
	back := all[1].eventsAfter(t, f.at) // through another node
	back.hears(t, want)
	back.leave()

	// A restarted node does not know the events that it sent before.
	id, dir := all[2].id(), all[2].dir
	all[2].stop()
	start(t, dir, quick)
	again := all[0].eventsAfter(t, back.at)
	for {
		if ev := <-again.events; ev.Kind == "dropped" && ev.Node == id {
			if string(ev.Data) != `{"events":null}` {
				t.Errorf("got %s, want {\"events\":null}", ev.Data)
			}
			return
		}
	}
}
