package peer_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/mesh/faultnet"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/surfaces"
)

// following runs a test in which the asker follows a call of the owner. find is what the
// owner does to find the call's record.
func following(t *testing.T, find func(*calls.Record) *calls.Record, test func(t *testing.T, p *pair, r *calls.Record)) {
	t.Helper()
	var record atomic.Pointer[calls.Record]
	bubble(t, endless, func(t *testing.T, p *pair, _ *faultnet.Network) {
		record.Store(calls.NewRecord("call", surfaces.Call{Actor: "a"}, func() {}))
		test(t, p, record.Load())
	}, func(c *peer.ServerConfig) {
		c.Find = func(string, string) *calls.Record { return find(record.Load()) }
	})
}

// A call that says nothing for long is followed for as long as its node answers.
func TestALongSilentCallIsFollowed(t *testing.T) {
	same := func(r *calls.Record) *calls.Record { return r }
	following(t, same, func(t *testing.T, p *pair, r *calls.Record) {
		go func() {
			time.Sleep(20 * time.Minute)
			r.Finish(surfaces.Result{Status: surfaces.StatusDone})
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		res, err := peer.Follow(ctx, p.asker, "owner", "a", "call", calls.NewRecord("call", surfaces.Call{Actor: "a"}, func() {}))
		if err != nil || res.Status != surfaces.StatusDone {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// A node that is connected, and answers nothing about a call, is not waited for without bound.
func TestANodeThatIsStuckIsNotFollowedForever(t *testing.T) {
	var stuck atomic.Bool
	var release chan struct{}
	find := func(r *calls.Record) *calls.Record {
		if stuck.Load() {
			<-release
		}
		return r
	}
	for name, from := range map[string]time.Duration{"from the beginning": 0, "after a while": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			stuck.Store(from == 0)
			following(t, find, func(t *testing.T, p *pair, _ *calls.Record) {
				release = make(chan struct{})
				defer close(release)
				began := time.Now()
				time.AfterFunc(from, func() { stuck.Store(true) })
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				_, err := peer.Follow(ctx, p.asker, "owner", "a", "call", calls.NewRecord("call", surfaces.Call{Actor: "a"}, func() {}))
				var unreachable *mesh.UnreachableError
				if !errors.As(err, &unreachable) || ctx.Err() != nil {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
				if took := time.Since(began); took < from || took > from+time.Minute {
					t.Errorf("it was given up after %s", took)
				}
			})
		})
	}
}
