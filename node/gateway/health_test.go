package gateway

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

func TestHealth(t *testing.T) {
	f := newFake()
	f.ready = func(context.Context) error { return errors.New("secret detail") }
	g, srv := serve(t, f, nil)
	if resp, body := send(t, request(t, "GET", srv.URL+"/healthz", "", header("Authorization", ""))); resp.StatusCode != 200 || strings.TrimSpace(body) != `{"ok":true}` {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	resp, body := send(t, request(t, "GET", srv.URL+"/readyz", "", header("Authorization", "")))
	if resp.StatusCode != 503 || strings.Contains(body, "secret") {
		t.Errorf("%d %s, want status 503, body without \"secret\"", resp.StatusCode, body)
	}
	decodeResult(t, body)
	g.Close()
	if resp, body = send(t, request(t, "GET", srv.URL+"/readyz", "")); resp.StatusCode != 503 || !strings.Contains(body, "shutting down") {
		t.Errorf("%d %s, want status 503, body with \"shutting down\"", resp.StatusCode, body)
	}
}

func TestUnhealthyWithAReason(t *testing.T) {
	f := newFake()
	f.live = func(context.Context) error {
		return &surfaces.Refusal{Code: surfaces.CodeInternal, Message: "the disk is full"}
	}
	_, srv := serve(t, f, nil)
	if resp, body := send(t, request(t, "GET", srv.URL+"/healthz", "")); resp.StatusCode != 503 || !strings.Contains(body, "disk is full") {
		t.Errorf("%d %s, want status 503, body with \"disk is full\"", resp.StatusCode, body)
	}
}

// However many ask, one check runs.
func TestProbeRunsOnce(t *testing.T) {
	var p probe
	var runs atomic.Int32
	hold := make(chan struct{})
	check := func(context.Context) error {
		runs.Add(1)
		<-hold
		return nil
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := p.check(context.Background(), check); err != nil {
				t.Error(err)
			}
		})
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	eventually(t, "the check runs", func() bool { return runs.Load() == 1 })
	if err := p.check(gone, check); !errors.Is(err, context.Canceled) {
		t.Errorf("one who left got %v", err)
	}
	close(hold)
	all.Wait()
	if err := p.check(context.Background(), func(context.Context) error { return errors.New("new") }); err != nil || runs.Load() != 1 {
		t.Errorf("a fresh answer was not used: %v, %d runs", err, runs.Load())
	}
}

func TestProbeOfAPanic(t *testing.T) {
	var p probe
	if err := p.check(context.Background(), func(context.Context) error { panic("x") }); err == nil {
		t.Error("a panic is no failure")
	}
}

// A check that does not heed its deadline holds up nobody for ever.
func TestProbeThatHangs(t *testing.T) {
	p := probe{timeout: 20 * time.Millisecond}
	hold := make(chan struct{})
	if err := p.check(context.Background(), func(context.Context) error { <-hold; return nil }); !errors.Is(err, errHangs) {
		t.Errorf("got %v", err)
	}
	close(hold)
	eventually(t, "it answers again", func() bool {
		return p.check(context.Background(), func(context.Context) error { return nil }) == nil
	})
}
