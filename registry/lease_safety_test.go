package registry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// While any node holds a valid lease, no log says that its incarnation has ended, whatever is
// cut, delayed or paused. So no session can be served twice.
func TestAnEndedLifeHasNoValidLease(t *testing.T) {
	for seed := range *histories {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { leasesAreSafe(t, rand.New(rand.NewPCG(seed, 11))) })
		})
	}
}

func leasesAreSafe(t *testing.T, random *rand.Rand) {
	m := newMesh(t, func(c *Config) {
		c.Lease = FastLease()
		c.Lease.HoldFor = 3 * time.Second
	})
	m.grow(4)
	m.until("voters", func() bool { return m.voters(m.nodes["n1"]) == 3 })
	m.net.mu.Lock()
	m.net.delay = jitter(40 * time.Millisecond)
	m.net.lose = func(_, _ NodeID) bool { return rand.IntN(6) == 0 }
	m.net.mu.Unlock()

	var mu sync.Mutex
	lives := map[NodeID]*tenant{}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	expired := 0
	for id, r := range m.nodes {
		// As the daemon does: a life that is over is followed by a new one.
		all.Go(func() {
			for ctx.Err() == nil {
				node, err := r.RegisterNode(ctx, RegisterNode{ID: id})
				if err != nil {
					continue
				}
				n := &tenant{r: r, life: node.Incarnation}
				n.lease = r.KeepLease(ctx, n.life, LeaseEvents{})
				mu.Lock()
				lives[id] = n
				mu.Unlock()
				<-n.lease.Done()
			}
		})
	}
	// The watcher looks at every log at every moment at which something can happen.
	check := func() {
		mu.Lock()
		defer mu.Unlock()
		for id, n := range lives {
			if !n.lease.Valid() {
				continue
			}
			for by, r := range m.nodes {
				node, ok := r.View().Node(id)
				if ok && (node.Incarnation > n.life || node.Incarnation == n.life && node.State == NodeExpired) {
					t.Errorf("%s knows %s as %s in life %d, while its lease for life %d is valid", by, id, node.State, node.Incarnation, n.life)
				}
			}
		}
	}
	for _, r := range m.nodes {
		all.Go(func() {
			for {
				v := r.View()
				check()
				for _, n := range v.Nodes() {
					if n.State == NodeExpired {
						mu.Lock()
						expired++
						mu.Unlock()
					}
				}
				select {
				case <-v.Changed():
				case <-time.After(37 * time.Millisecond):
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for range 30 {
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		victim := NodeID(fmt.Sprint("n", 1+random.IntN(4)))
		if leader := m.leader(); leader != "" && random.IntN(3) == 0 {
			victim = leader
		}
		other := NodeID(fmt.Sprint("n", 1+random.IntN(4)))
		switch random.IntN(3) {
		case 0:
			m.net.isolate(victim, true)
		case 1:
			m.net.set(victim, other, true)
		case 2:
			m.net.set(other, victim, true)
		}
		time.Sleep(time.Duration(200+random.IntN(8000)) * time.Millisecond)
		m.net.isolate(victim, false)
	}
	cancel()
	all.Wait()
	if expired == 0 {
		t.Error("no life was ever declared over: nothing was tried")
	}
	m.net.mu.Lock()
	m.net.delay, m.net.lose = nil, nil
	m.net.mu.Unlock()
	m.stop()
}
