package gateway

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

// scripted makes calls that write three lines and wait to be finished.
func scripted(f *fake) chan *fakeCall {
	started := make(chan *fakeCall, 100)
	f.onStart = func(c *fakeCall) {
		c.say("stdout", `{"text":"one\n"}`, 4)
		c.say("notice", "{\"kind\":\"k\",\n \"text\":\"t\"}", 4)
		c.say("stderr", `{"text":"two\n"}`, 8)
		started <- c
	}
	return started
}

func namesOf(list []event) string {
	var names []string
	for _, e := range list {
		names = append(names, e.name+"@"+e.id)
	}
	return strings.Join(names, " ")
}

func TestStreamOrder(t *testing.T) {
	f := newFake()
	started := scripted(f)
	_, srv := serve(t, f, nil)
	s := openEvents(t, request(t, "POST", srv.URL+execute, program("1"), streaming))
	c := <-started
	// Each event arrives by itself, while the call still runs.
	for _, want := range []string{"started", "stdout", "notice", "stderr"} {
		e, ok := s.next()
		if !ok || e.name != want {
			t.Fatalf("event %+v, want %s", e, want)
		}
		if !json.Valid([]byte(e.data)) {
			t.Errorf("data of %s: %q", e.name, e.data)
		}
	}
	c.say("stdout", `{"text":"three"}`, 13)
	if e, _ := s.next(); e.name != "stdout" || e.id != "13" {
		t.Fatalf("event %+v", e)
	}
	c.finish()
	rest := s.all()
	if len(rest) != 1 || rest[0].name != "result" || rest[0].id != "13" {
		t.Fatalf("rest %+v", rest)
	}
	if r := decodeResult(t, rest[0].data); r.Status != surfaces.StatusDone || r.CallID != c.id {
		t.Errorf("result %+v", r)
	}
	if a := c.abandonments(); a != nil {
		t.Errorf("abandoned %v", a)
	}
}

func TestResume(t *testing.T) {
	f := newFake()
	started := scripted(f)
	_, srv := serve(t, f, nil)
	_, body := send(t, request(t, "POST", srv.URL+execute, `{"language":"python","code":"1","background":true}`))
	if r := decodeResult(t, body); r.Status != surfaces.StatusRunning {
		t.Fatalf("a background call answered %s", body)
	}
	c := <-started
	c.finish()
	at := srv.URL + "/v1/executions/" + c.id
	for _, tt := range []struct{ query, last, want string }{
		{"", "", "started@0 stdout@4 notice@4 stderr@8 result@8"},
		{"?from=0", "", "started@0 stdout@4 notice@4 stderr@8 result@8"},
		{"?from=4", "", "started@0 notice@4 stderr@8 result@8"},
		{"", "4", "started@0 notice@4 stderr@8 result@8"},
		{"?from=0", "8", "started@0 notice@4 result@8"}, // what a browser sends when it reconnects
	} {
		r := request(t, "GET", at+tt.query, "", header("Last-Event-ID", tt.last))
		if tt.query == "" {
			streaming(r)
		}
		if got := namesOf(openEvents(t, r).all()); got != tt.want {
			t.Errorf("from %q, last %q: %s, want %s", tt.query, tt.last, got, tt.want)
		}
	}
	resp, body := send(t, request(t, "GET", at, ""))
	if r := decodeResult(t, body); resp.StatusCode != 200 || r.Status != surfaces.StatusDone {
		t.Errorf("plain: %d %s", resp.StatusCode, body)
	}
}

func TestBackgroundStreamReturnsAtOnce(t *testing.T) {
	f := newFake()
	started := scripted(f)
	_, srv := serve(t, f, nil)
	list := openEvents(t, request(t, "POST", srv.URL+execute, `{"language":"python","code":"1","b\u0061ckground":true}`, streaming)).all()
	if len(list) != 1 || list[0].name != "result" || decodeResult(t, list[0].data).Status != surfaces.StatusRunning {
		t.Errorf("events %+v", list)
	}
	if a := (<-started).abandonments(); a != nil {
		t.Errorf("abandoned %v", a)
	}
}

func TestHeartbeat(t *testing.T) {
	f := newFake()
	started := scripted(f)
	_, srv := serve(t, f, func(c *Config) { c.Heartbeat = 20 * time.Millisecond })
	s := openEvents(t, request(t, "POST", srv.URL+execute, program("1"), streaming))
	c := <-started
	for range 4 {
		s.next()
	}
	line, err := s.in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, ":") {
		t.Fatalf("%q %v instead of a comment", line, err)
	}
	c.finish()
	if list := s.all(); len(list) != 1 {
		t.Errorf("events %+v", list)
	}
}

// A Service that fails in the middle of a stream still gives it a last event.
func TestBrokenStream(t *testing.T) {
	f := newFake()
	f.onStart = func(c *fakeCall) { c.broken = errors.New("secret detail") }
	log := &logBook{}
	_, srv := serve(t, f, func(c *Config) { c.Log = log.logger() })
	list := openEvents(t, request(t, "POST", srv.URL+execute, program("1"), streaming)).all()
	if len(list) != 2 || list[1].name != "result" {
		t.Fatalf("events %+v", list)
	}
	r := decodeResult(t, list[1].data)
	if r.Code == nil || *r.Code != surfaces.CodeInternal || r.CallID == "" {
		t.Errorf("result %+v", r)
	}
	if strings.Contains(list[1].data, "secret") {
		t.Error("a fault of ours is told to the caller")
	}
	eventually(t, "the log has it", func() bool { return strings.Contains(log.text(), "secret detail") })
}

func TestEvents(t *testing.T) {
	f := newFake()
	f.events = func(ctx context.Context, emit func(MeshEvent) error) error {
		for i := range int64(3) {
			if err := emit(MeshEvent{ID: fmt.Sprint("n.1.", i+1), Seq: i + 1, Kind: "call_started", Data: json.RawMessage(fmt.Sprintf(`{"i":%d}`, i))}); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}
	g, srv := serve(t, f, nil)
	s := openEvents(t, request(t, "GET", srv.URL+"/v1/events", ""))
	for i := range 3 {
		e, _ := s.next()
		if e.name != "call_started" || e.id != fmt.Sprint("n.1.", i+1) || !strings.Contains(e.data, fmt.Sprintf(`{"i":%d}`, i)) {
			t.Errorf("event %+v", e)
		}
	}
	g.Close()
	if rest := s.all(); len(rest) != 0 {
		t.Errorf("after the door closed: %+v", rest)
	}
}
