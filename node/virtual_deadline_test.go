package node

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// The registry writes that a call needs, before its code runs and after, do not keep its
// caller waiting beyond the deadline if the registry is unreachable.
func TestVirtualDeadlineWithoutTheRegistry(t *testing.T) {
	t.Parallel()
	lost := registry.LossReason("test")
	for name, c := range map[string]struct {
		before func(ctx context.Context, n *virtualNode, s registry.Session) error
		call   string
		want   []surfaces.Code // nil: it is answered, with the loss
	}{
		"that the caller was told of a loss": {func(ctx context.Context, n *virtualNode, s registry.Session) error {
			_, err := n.registry.RebuildSession(ctx, registry.RebuildSession{Key: s.Key, Expected: s.Epoch, Owner: n.id, Incarnation: n.life(), Reason: lost})
			return err
		}, "append s0 a 5", nil},
		"that a lost session is rebuilt": {func(ctx context.Context, n *virtualNode, s registry.Session) error {
			_, err := n.registry.MarkLost(ctx, registry.MarkLost{Key: s.Key, Reason: lost, Grant: s.Grant()})
			return err
		}, "append s0 a 5", []surfaces.Code{surfaces.CodeOwnerUnreachable, surfaces.CodeNoQuorum}},
		"that there is a session": {func(ctx context.Context, n *virtualNode, s registry.Session) error {
			_, err := n.registry.CloseSession(ctx, registry.CloseSession{Key: s.Key, Expected: s.Epoch})
			return err
		}, "append s0 a 5", []surfaces.Code{surfaces.CodeOwnerUnreachable, surfaces.CodeNoQuorum}},
		"that the process died": {func(context.Context, *virtualNode, registry.Session) error { return nil },
			"die", []surfaces.Code{surfaces.CodeKilled, surfaces.CodeOutcomeUnknown}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVirtual(t, 1)
				v.grow(3)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				n, session := v.at("n3"), v.createSession("n3")
				if err := c.before(ctx, n, session); err != nil {
					t.Fatal(err)
				}
				v.until("it may serve", n.mayServe)
				v.network.Isolate(hostOf("n3"))
				const timeout = time.Second
				began := time.Now()
				res, err := n.exec(map[string]any{
					"language": "python", "state_mode": "stateful", "session_name": "s0", "timeout_s": timeout.Seconds(), "code": c.call,
				})
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > timeout+1500*time.Millisecond {
					t.Errorf("the answer came after %s: %s", took, brief(res))
				}
				switch {
				case c.want == nil && (res.Code != nil || res.StateLost.Loss == nil):
					t.Errorf("want an answer that tells of the loss, got %s", brief(res))
				case c.want != nil && (res.Code == nil || !slices.Contains(c.want, *res.Code)):
					t.Errorf("want one of %s, got %s", c.want, brief(res))
				}
				v.network.HealAll()
				v.checkServing()
			})
		})
	}
}

// A caller is answered soon after its deadline even if the node that runs the call is cut off,
// and even if the caller itself is connected to that node. The outcome of the call can be read
// there once it is known.
func TestVirtualDeadlineOnANodeThatIsCutOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		door    registry.NodeID
		timeout time.Duration
		away    time.Duration
		outcome surfaces.Code // in the end
	}{
		"the caller is elsewhere": {"n1", time.Second, 10 * time.Second, surfaces.CodeOutcomeUnknown},
		"the caller is there":     {"n3", 3 * time.Second, 10 * time.Second, surfaces.CodeKilled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVirtual(t, 1)
				v.grow(3)
				v.createSession("n3")
				began := time.Now()
				result := make(chan surfaces.Result, 1)
				go func() {
					res, err := v.at(c.door).exec(map[string]any{
						"language": "python", "state_mode": "stateful", "session_name": "s0", "timeout_s": c.timeout.Seconds(), "code": "append s0 a 100000",
					})
					if err != nil {
						t.Error(err)
					}
					result <- res
				}()
				time.Sleep(200 * time.Millisecond)
				v.network.Isolate(hostOf("n3"))
				time.AfterFunc(c.away, v.network.HealAll)
				res := <-result
				if took := time.Since(began); took > c.timeout+1500*time.Millisecond {
					t.Errorf("the answer came after %s", took)
				}
				if res.Code == nil || *res.Code != surfaces.CodeOutcomeUnknown {
					t.Errorf("got %s, want Code %v", brief(res), surfaces.CodeOutcomeUnknown)
				}
				time.Sleep(c.away + 20*time.Second)
				if res := v.at(c.door).calls.Find(res.CallID).Result(); res.Code == nil || *res.Code != c.outcome {
					t.Errorf("in the end it is said to be %s", brief(res))
				}
			})
		})
	}
}
