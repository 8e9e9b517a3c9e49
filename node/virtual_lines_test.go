package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusrun/locus/mesh/faultnet"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/placement/history"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// createSession creates the session s0 on a node.
func (v *virtual) createSession(id registry.NodeID) registry.Session {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n := v.at(id)
	out, err := n.registry.ClaimSession(ctx, registry.ClaimSession{
		Key: surfaces.SessionKey{Actor: "a", Language: surfaces.Python, ID: 1}, Name: "s0", Owner: id, Incarnation: n.life(),
	})
	if err != nil || out.Result != registry.Claimed {
		v.t.Fatalf("%+v, %v", out, err)
	}
	for _, n := range v.nodes {
		v.until("the session is known", func() bool { _, ok := n.registry.View().Session(out.Session.Key); return ok })
	}
	return out.Session
}

// appendToken runs a call in s0 that takes a number of steps.
func (v *virtual) appendToken(n *virtualNode, token string, steps int) surfaces.Result {
	res, err := n.exec(map[string]any{
		"language": "python", "state_mode": "stateful", "session_name": "s0", "timeout_s": 120,
		"code": fmt.Sprintf("append s0 %s %d", token, steps),
	})
	if err != nil {
		v.t.Error(err)
	}
	return res
}

// generationOf returns the generation of the state that answered, or empty.
func generationOf(res surfaces.Result) string {
	var seen [2]json.RawMessage
	var generation string
	if res.Code != nil || json.Unmarshal(res.Result, &seen) != nil || json.Unmarshal(seen[0], &generation) != nil {
		return ""
	}
	return generation
}

// An owner that is cut off during a call is frozen and answers nothing; if it is back too late
// it answers nothing that it had computed. That holds even where its code cannot be frozen:
// then the lease alone keeps it from answering.
func TestVirtualOwnerCutOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		loose bool
		steps int
	}{
		"it is held still":              {false, 2000},
		"it cannot be held still":       {true, 2000},
		"it ends while it is cut off":   {true, 500},
		"it ends and the code was held": {false, 500},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVirtual(t, 1)
				v.kernels.loose = c.loose
				v.grow(3)
				v.createSession("n3")
				old := generationOf(v.appendToken(v.at("n3"), "old", 0))
				result := make(chan surfaces.Result, 1)
				go func() { result <- v.appendToken(v.at("n3"), "running", c.steps) }()
				time.Sleep(time.Second)
				v.network.Isolate(hostOf("n3"))
				rebuilt := v.appendToken(v.at("n1"), "new", 0)
				if generation := generationOf(rebuilt); generation == "" || generation == old || rebuilt.StateLost.Loss == nil {
					t.Fatalf("got %s, want generation other than %v, a loss", brief(rebuilt), old)
				}
				time.Sleep(10 * time.Second)
				select {
				case res := <-result:
					t.Fatalf("an owner that was cut off answered %s", brief(res))
				default:
				}
				v.network.HealAll()
				res := <-result
				if generationOf(res) == old || res.StateLost.Loss == nil {
					t.Errorf("an owner that came back too late answered %s", brief(res))
				}
				if !c.loose {
					for _, wrong := range history.Check(nil, v.kernels.marks, time.Hour) {
						t.Error(wrong)
					}
				}
				v.checkServing()
			})
		})
	}
}

// A call that reaches a node between two of its incarnations does not run in an empty session
// under the old epoch.
func TestVirtualCallDuringARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, 1)
		v.grow(3)
		session := v.createSession("n3")
		old := generationOf(v.appendToken(v.at("n3"), "old", 0))
		v.network.Isolate(hostOf("n3"))
		key := surfaces.SessionKey{Actor: "a", Language: surfaces.Python, ID: 1}
		v.until("the session is lost", func() bool {
			s, _ := v.at("n1").registry.View().Session(key)
			return s.State == registry.SessionLost
		})
		n := v.at("n3")
		over := n.lease.Load()
		v.network.HealAll()
		<-over.Done()
		// Its sessions are ended, and it has no new incarnation yet.
		res := v.appendToken(n, "new", 0)
		if generation := generationOf(res); generation == old || res.StateLost.Loss == nil {
			t.Errorf("got %s, want generation other than %v, a loss", brief(res), old)
		}
		v.until("it has another life", n.mayServe)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if out := n.engine.Execute(ctx, attemptAt(session.Key, session.Epoch, "late")); out.Result.Code == nil && !out.Misrouted {
			t.Errorf("a call of the earlier life: %s", brief(out.Result))
		}
	})
}

// attemptAt is an attempt at a session under an epoch.
func attemptAt(key surfaces.SessionKey, epoch registry.Epoch, id string) surfaces.Attempt {
	call := surfaces.Call{Actor: "a", Request: surfaces.Request{
		Language: surfaces.Python, StateMode: surfaces.Stateful, Surface: surfaces.Local, Timeout: 10 * time.Second,
		Code: "append s0 " + id + " 0", OnLoss: surfaces.Retry,
	}, Session: &surfaces.SessionRef{Key: key, Name: "s0", Exists: true, Epoch: uint64(epoch)}}
	return surfaces.Attempt{Call: call, CallID: id, Actor: "a", Number: 1}
}

// A route that is older than what the owner knows is refused.
func TestVirtualOldRoutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, 1)
		v.grow(3)
		before := v.createSession("n3")
		v.appendToken(v.at("n1"), "a", 0)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		n1, n3 := v.at("n1"), v.at("n3")
		attempt := func(id string, epoch registry.Epoch) surfaces.Attempt { return attemptAt(before.Key, epoch, id) }
		// The session is rebuilt on the same incarnation, with a later epoch.
		rebuilt, err := n3.registry.RebuildSession(ctx, registry.RebuildSession{
			Key: before.Key, Expected: before.Epoch, Owner: "n3", Incarnation: n3.life(), Reason: "test",
		})
		if err != nil || rebuilt.Result != registry.Rebuilt {
			t.Fatalf("%+v, %v", rebuilt, err)
		}
		if out := n1.surfaceOf("n3", n3.life()).Execute(ctx, attempt("older", before.Epoch)); !out.Misrouted {
			t.Errorf("a route with an older epoch: %s", brief(out.Result))
		}
		if out := n1.surfaceOf("n2", v.at("n2").life()).Execute(ctx, attempt("elsewhere", rebuilt.Session.Epoch)); !out.Misrouted {
			t.Errorf("a route to who does not own the session: %s", brief(out.Result))
		}
		later := peer.Surface{Mesh: n1.mesh, Node: "n3", Incarnation: uint64(n3.life()) + 1, Fate: func(surfaces.Attempt) peer.Fate {
			return func() (*surfaces.LostAttempt, <-chan struct{}) { return nil, nil }
		}, Suspended: func() bool { return false }}
		stateless := attempt("later", 0)
		stateless.Call.Session, stateless.Call.StateMode = nil, surfaces.Stateless
		if out := later.Execute(ctx, stateless); !out.Misrouted {
			t.Errorf("a route to a life that is not: %s", brief(out.Result))
		}
		if out := n1.surfaceOf("n3", n3.life()).Execute(ctx, attempt("right", rebuilt.Session.Epoch)); out.Misrouted || out.Result.Code != nil {
			t.Errorf("the right route: %+v", out)
		}
		// The engine itself refuses an older epoch as well.
		if out := n3.engine.Execute(ctx, attempt("stale", before.Epoch)); out.Result.Code == nil && !out.Misrouted {
			t.Errorf("the engine ran %s", brief(out.Result))
		}
		ran := map[string]bool{}
		v.kernels.mu.Lock()
		for _, m := range v.kernels.marks {
			ran[m.Token] = true
		}
		v.kernels.mu.Unlock()
		for _, id := range []string{"older", "elsewhere", "later", "stale"} {
			if ran[id] {
				t.Errorf("%s ran", id)
			}
		}
	})
}

// A lease starts when its renewal is sent, however long the answer takes.
func TestVirtualLeaseCountsFromItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, 1)
		v.grow(3)
		v.network.SetDefaultLink(faultnet.Link{Delay: 100 * time.Millisecond})
		n := v.at("n3")
		lasts := n.cfg.Lease.TTL - n.cfg.Lease.Margin
		for phase := range 8 {
			v.until("it may serve", n.mayServe)
			time.Sleep(2*time.Second + time.Duration(phase)*70*time.Millisecond)
			v.network.Isolate(hostOf("n3"))
			time.Sleep(lasts + time.Millisecond)
			if n.mayServe() {
				t.Errorf("phase %d: a node that was cut off serves %s later", phase, lasts)
			}
			v.network.HealAll()
		}
	})
}

// A call for a session whose owner is unreachable, but may come back, is not sent to it. So
// when the owner is declared lost the caller is told that nothing ran, and when it is back in
// time the call runs there.
func TestVirtualCallForASessionThatIsHeld(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]bool{"the node comes back": true, "the node is lost": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVirtual(t, 1)
				v.grow(3)
				v.createSession("n3")
				before := generationOf(v.appendToken(v.at("n1"), "before", 0)) // so there is a connection, which still looks alive for a while
				v.network.Isolate(hostOf("n3"))
				v.until("n3 is unreachable", func() bool {
					n, _ := v.at("n1").registry.View().Node("n3")
					return n.State == registry.NodeUnreachable
				})
				if back {
					time.AfterFunc(500*time.Millisecond, v.network.HealAll)
				}
				res, err := v.at("n1").exec(map[string]any{
					"language": "python", "state_mode": "stateful", "session_name": "s0", "timeout_s": 10, "on_loss": "report", "code": "append s0 held 0",
				})
				if err != nil {
					t.Fatal(err)
				}
				if back && (generationOf(res) != before || res.StateLost.Loss != nil) {
					t.Errorf("the session is not what it was: %s", brief(res))
				}
				if !back && (res.Code == nil || *res.Code != surfaces.CodeOwnerUnreachable) {
					t.Errorf("what ran nothing is answered %s", brief(res))
				}
			})
		})
	}
}

// Idempotency keys are stored in the registry, which a node that is cut off cannot reach. Its
// caller is answered by the deadline all the same, as is another caller that uses the same
// key.
func TestVirtualDeadlineOfAKeyOnANodeThatIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, 1)
		v.grow(3)
		n := v.at("n3")
		var err error
		if n.keys, err = calls.OpenKeys(n.cfg.path("keys.db")); err != nil {
			t.Fatal(err)
		}
		v.until("it may serve", n.mayServe)
		v.network.Isolate(hostOf("n3"))
		const timeout = 2 * time.Second
		began := time.Now()
		var work sync.WaitGroup
		for range 2 {
			work.Go(func() {
				res, err := n.exec(map[string]any{
					"language": "python", "timeout_s": timeout.Seconds(), "idempotency_key": "k", "code": "append - a 1",
				})
				if took := time.Since(began); err != nil || took > timeout+1500*time.Millisecond {
					t.Errorf("the answer came after %s, %v", took, err)
				}
				if res.Code == nil || *res.Code != surfaces.CodeNoQuorum {
					t.Errorf("got %s, want Code %v", brief(res), surfaces.CodeNoQuorum)
				}
			})
		}
		work.Wait()
		v.network.HealAll()
	})
}

// The node that keeps the result of a key is cut off. Whoever uses the key is told to ask again
// while the node may be back, and only then that the outcome is unknown. It was unknown at
// once, although the same key had given the result before.
func TestVirtualKeyOfACallOnANodeThatIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, 1)
		v.grow(3)
		for _, id := range []registry.NodeID{"n2", "n3"} {
			n := v.at(id)
			var err error
			if n.keys, err = calls.OpenKeys(n.cfg.path("keys.db")); err != nil {
				t.Fatal(err)
			}
			v.until("it may serve", n.mayServe)
		}
		use := func(id registry.NodeID) surfaces.Result {
			res, err := v.at(id).exec(map[string]any{"language": "python", "timeout_s": 20, "idempotency_key": "k", "code": "append - a 1"})
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		first := use("n3")
		if again := use("n2"); first.Code != nil || again.Code != nil || again.CallID != first.CallID {
			t.Fatalf("got %s, then %s", brief(first), brief(again))
		}
		v.network.Isolate(hostOf("n3"))
		if res := use("n2"); res.Code == nil || *res.Code != surfaces.CodeOwnerUnreachable {
			t.Errorf("while it may be back: %s", brief(res))
		}
		v.until("the node is lost", func() bool {
			n, ok := v.at("n2").registry.View().Node("n3")
			return ok && n.State == registry.NodeExpired
		})
		if res := use("n2"); res.Code == nil || *res.Code != surfaces.CodeOutcomeUnknown || res.CallID != first.CallID {
			t.Errorf("when it is lost: %s", brief(res))
		}
		v.network.HealAll()
		v.until("the result is found", func() bool { res := use("n2"); return res.Code == nil && res.CallID == first.CallID })
	})
}

// A node that is cut off holds the outcome of an attempt that its caller never received, and
// that was lost for all others. It is not taken for the outcome of the call.
func TestVirtualOutcomeOnANodeThatIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := newVirtual(t, 1)
		v.grow(3)
		v.createSession("n3")
		result := make(chan surfaces.Result, 1)
		go func() {
			res, err := v.at("n1").exec(map[string]any{
				"language": "python", "state_mode": "stateful", "session_name": "s0", "timeout_s": 60, "code": "append s0 a 30",
			})
			if err != nil {
				t.Error(err)
			}
			result <- res
		}()
		time.Sleep(100 * time.Millisecond)
		v.network.Isolate(hostOf("n3"))
		res := <-result
		if res.Code != nil || res.Attempts != 2 || res.StateLost.Loss == nil {
			t.Fatalf("got %s, want no Code, Attempts 2, a loss", brief(res))
		}
		who := gateway.Caller{Actor: "a"}
		if first := v.at("n3").recordHere("a", res.CallID); first == nil || !first.Ended() || first.Result().Attempts != 1 {
			t.Fatal("the first attempt did not end there")
		}
		e, err := v.at("n3").Execution(context.Background(), who, res.CallID)
		var refusal *surfaces.Refusal
		if !errors.As(err, &refusal) || refusal.Code != surfaces.CodeOwnerUnreachable {
			t.Errorf("got %v, %v", e, err)
		}
		v.network.HealAll()
		v.until("the call is found there", func() bool {
			e, err := v.at("n3").Execution(context.Background(), who, res.CallID)
			return err == nil && e != nil && e.Result().Attempts == 2
		})
	})
}
