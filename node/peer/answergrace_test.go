package peer_test

import (
	"context"
	"testing"
	"time"

	"github.com/locusrun/locus/mesh/faultnet"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/surfaces"
)

// endless runs until it is stopped.
func endless(_ context.Context, _ surfaces.Attempt, stopped <-chan struct{}) surfaces.Outcome {
	<-stopped
	return done()
}

// A live node that does not end an attempt after its deadline is not waited for without
// bound.
func TestANodeThatDoesNotEndAnAttempt(t *testing.T) {
	const timeout = 2 * time.Second
	began := time.Now()
	bubble(t, endless, func(t *testing.T, p *pair, _ *faultnet.Network) {
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		out, _ := p.ask(ctx, call("answerGrace", timeout), nil)
		if took := time.Since(began); took < timeout+3*time.Second || took > timeout+5*time.Second {
			t.Errorf("the answer came after %s", took)
		}
		if out.Result.Code == nil || *out.Result.Code != surfaces.CodeOutcomeUnknown || out.Loss != nil {
			t.Errorf("got %+v, want Result.Code %v, no Loss", out, surfaces.CodeOutcomeUnknown)
		}
		p.local.stop("answerGrace")
	}, func(c *peer.ServerConfig) {
		c.CallState = func(string) (bool, time.Duration) { return false, max(timeout-time.Since(began), 0) }
	})
}

// An attempt whose clock stands still, because it is paused, is waited for.
func TestAPausedAttemptIsWaitedFor(t *testing.T) {
	bubble(t, func(context.Context, surfaces.Attempt, <-chan struct{}) surfaces.Outcome {
		time.Sleep(20 * time.Minute)
		return done()
	}, func(t *testing.T, p *pair, _ *faultnet.Network) {
		if out, _ := p.ask(t.Context(), call("paused", 2*time.Second), nil); out.Result.Status != surfaces.StatusDone {
			t.Errorf("got %+v, want Result.Status %v", out, surfaces.StatusDone)
		}
	}, func(c *peer.ServerConfig) {
		c.CallState = func(string) (bool, time.Duration) { return false, time.Millisecond }
	})
}

// A node that is starting, and does not know yet whether a call is its own, says by the
// call's deadline that nothing has run.
func TestANodeThatIsComingUp(t *testing.T) {
	const timeout = 2 * time.Second
	bubble(t, endless, func(t *testing.T, p *pair, _ *faultnet.Network) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		out, _ := p.ask(ctx, call("early", timeout), nil)
		if took := time.Since(began); took > timeout+time.Second {
			t.Errorf("the answer came after %s", took)
		}
		if !out.Misrouted || p.local.starts("early") != 0 {
			t.Errorf("got %+v after %d starts", out, p.local.starts("early"))
		}
	}, func(c *peer.ServerConfig) {
		c.IsLocal = func(ctx context.Context, _ peer.Route) bool { <-ctx.Done(); return false }
		c.CallState = func(string) (bool, time.Duration) { return false, 0 }
	})
}
