package registry

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
)

// act is one step of a history, on one key: a claim, a close, or a fresh read.
type act struct {
	key          int
	claim, close bool
}

type saw struct {
	epoch Epoch // of the session that was made, closed, read or in the way
	owned bool  // a claim was answered that the key is owned
}

// registerModel is one session, which can be claimed while it does not exist, and closed while
// it does.
var registerModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[int][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(act).key
			by[k] = append(by[k], op)
		}
		var all [][]porcupine.Operation
		for _, ops := range by {
			all = append(all, ops)
		}
		return all
	},
	Init: func() any { return Epoch(0) },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(Epoch), input.(act), output.(saw)
		switch {
		case in.claim && out.owned:
			return now != 0 && now == out.epoch, now
		case in.claim:
			return now == 0, out.epoch
		case in.close:
			return now == out.epoch, Epoch(0) // closing what is not there answers 0
		}
		return now == out.epoch, now
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v -> %+v", input, output)
	},
}

// Any node's commands and fresh reads are linearizable, while nodes are cut off,
// replies are lost and the lead changes hands.
func TestHistoriesAreLinearizable(t *testing.T) {
	for seed := range *histories {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { linearizable(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

// histories is how many seeds the tests of this kind try. Which goroutine runs when
// is not in the seed's hand, so a failure may need more runs to come again.
var histories = flag.Uint64("histories", 3, "seeds for each test of many nodes under faults")

func linearizable(t *testing.T, random *rand.Rand) {
	// No lease is kept here, so none may be missed.
	m := newMesh(t, func(c *Config) { c.Lease.TTL = time.Hour })
	m.grow(4)
	m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
	life := m.peopled()
	m.net.mu.Lock()
	m.net.delay = jitter(20 * time.Millisecond)
	m.net.lose = func(_, _ NodeID) bool { return rand.IntN(5) == 0 }
	m.net.mu.Unlock()

	var mu sync.Mutex
	var history []porcupine.Operation
	began := time.Now()
	over := make(chan struct{})
	var clients sync.WaitGroup
	for client, id := range []NodeID{"n1", "n2", "n3", "n4"} {
		r, own := m.nodes[id], rand.New(rand.NewPCG(random.Uint64(), 1))
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				case <-time.After(time.Duration(own.IntN(400)) * time.Millisecond):
				}
				in := act{key: own.IntN(2) + 1}
				switch own.IntN(3) {
				case 0:
					in.claim = true
				case 1:
					in.close = true
				}
				call := time.Since(began)
				out, ok := perform(t, r, in, life)
				if !ok {
					continue // it surely changed nothing
				}
				op := porcupine.Operation{ClientId: client, Input: in, Output: out, Call: int64(call), Return: int64(time.Since(began))}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	for range 12 {
		time.Sleep(time.Duration(500+random.IntN(2500)) * time.Millisecond)
		victim := NodeID(fmt.Sprint("n", 1+random.IntN(4)))
		switch random.IntN(3) {
		case 0:
			m.net.isolate(victim, true)
		case 1: // one way only
			for other := range m.nodes {
				if other != victim {
					m.net.set(victim, other, true)
				}
			}
		case 2:
			if leader := m.leader(); leader != "" {
				m.net.isolate(leader, true)
				victim = leader
			}
		}
		time.Sleep(time.Duration(500+random.IntN(5000)) * time.Millisecond)
		m.net.isolate(victim, false)
	}
	close(over)
	clients.Wait()
	if len(history) < 50 {
		t.Fatalf("only %d operations", len(history))
	}
	if got := porcupine.CheckOperationsTimeout(registerModel, history, patient); got != porcupine.Ok {
		for _, op := range history {
			t.Logf("%d [%s %s] %s", op.ClientId, time.Duration(op.Call), time.Duration(op.Return), registerModel.DescribeOperation(op.Input, op.Output))
		}
		t.Fatalf("not linearizable: %s", got)
	}
	m.net.mu.Lock()
	m.net.delay, m.net.lose = nil, nil
	m.net.mu.Unlock()
	m.stop()
}

// peopled gives node n1 a life and makes the actor ada.
func (m *mesh) peopled() Incarnation {
	m.t.Helper()
	node, err := m.nodes["n1"].RegisterNode(within60(m.t), RegisterNode{ID: "n1"})
	if err != nil {
		m.t.Fatal(err)
	}
	if _, err := m.nodes["n1"].CreateActor(within60(m.t), CreateActor{Name: "ada", ID: "id"}); err != nil {
		m.t.Fatal(err)
	}
	return node.Incarnation
}

// perform does one act to its end: what is unknown is sent again under its request
// id until it is known.
func perform(t *testing.T, r *Registry, in act, life Incarnation) (out saw, ok bool) {
	ctx := context.Background()
	request := NewRequestID()
	for perhaps := false; ; time.Sleep(50 * time.Millisecond) {
		var err error
		switch {
		case in.claim:
			c := ClaimSession{Key: key("ada", in.key), Owner: "n1", Incarnation: life}
			c.Request = request
			var got ClaimOutcome
			got, err = r.ClaimSession(ctx, c)
			out = saw{epoch: got.Session.Epoch, owned: got.Result == AlreadyOwned}
			if err == nil && got.Result != Claimed && got.Result != AlreadyOwned {
				t.Errorf("claim: %+v", got)
			}
		case in.close:
			c := CloseSession{Key: key("ada", in.key)}
			c.Request = request
			var got CloseOutcome
			got, err = r.CloseSession(ctx, c)
			out = saw{epoch: got.Session.Epoch}
		default:
			var v View
			if v, err = r.Fresh(ctx); err == nil {
				s, _ := v.Session(key("ada", in.key))
				out = saw{epoch: s.Epoch}
			}
		}
		switch {
		case err == nil:
			return out, true
		case errors.Is(err, ErrUnknownOutcome):
			perhaps = true
		case !errors.Is(err, ErrUnavailable):
			t.Errorf("%+v: %v", in, err)
			return saw{}, false
		case !perhaps:
			return saw{}, false
		}
	}
}
