package node

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusrun/locus/mesh/faultnet"
	"github.com/locusrun/locus/placement/history"
	"github.com/locusrun/locus/registry"
)

// virtualSeeds returns the seeds to run, from LOCUS_SEED on.
func virtualSeeds(usual int) (all []uint64) {
	first, err := strconv.ParseUint(os.Getenv("LOCUS_SEED"), 10, 64)
	if err != nil {
		first = 1
	}
	if n, err := strconv.Atoi(os.Getenv("LOCUS_SOAK")); err == nil {
		usual *= n
	}
	for i := range usual {
		all = append(all, first+uint64(i))
	}
	return all
}

// A whole mesh keeps its promises to the clients of all nodes, while a seed breaks the network
// and crashes nodes.
func TestAMeshInVirtualTime(t *testing.T) {
	for _, seed := range virtualSeeds(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { inVirtualTime(t, seed) })
		})
	}
}

func inVirtualTime(t *testing.T, seed uint64) {
	v := newVirtual(t, seed)
	random := v.random
	nodes := 3 + 2*random.IntN(2)
	v.grow(nodes)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := 1; i <= nodes; i++ {
		own := rand.New(rand.NewPCG(seed, uint64(100+i)))
		clients.Go(func() { v.client(registry.NodeID(fmt.Sprint("n", i)), i, own, stop) })
	}
	some := func() registry.NodeID { return registry.NodeID(fmt.Sprint("n", 1+random.IntN(nodes))) }
	for range 8 {
		time.Sleep(time.Duration(300+random.IntN(2000)) * time.Millisecond)
		victim := v.victim(some)
		lasts := time.Duration(300+random.IntN(7000)) * time.Millisecond
		down := false
		switch random.IntN(7) {
		case 0, 1:
			v.network.Isolate(hostOf(victim))
		case 2, 3: // one way
			for i := 1; i <= nodes; i++ {
				if other := registry.NodeID(fmt.Sprint("n", i)); other == victim {
					continue
				} else if random.IntN(2) == 0 {
					v.network.CutOneWay(hostOf(victim), hostOf(other))
				} else {
					v.network.CutOneWay(hostOf(other), hostOf(victim))
				}
			}
		case 4:
			v.network.SetDefaultLink(faultnet.Link{Delay: 5 * time.Millisecond, Jitter: 60 * time.Millisecond, Drop: 0.2, Duplicate: 0.1})
		case 5:
			v.network.Isolate(hostOf(victim))
			v.network.Isolate(hostOf(some()))
		case 6:
			v.down(victim)
			down = true
		}
		time.Sleep(lasts)
		v.network.HealAll()
		v.network.SetDefaultLink(faultnet.Link{Delay: time.Millisecond})
		if down {
			v.join(v.up(victim))
		}
	}
	close(stop)
	clients.Wait()
	v.judgeAll(seed)
	v.checkServing()
}

// victim returns the owner of a session, the leader, or any node.
func (v *virtual) victim(some func() registry.NodeID) registry.NodeID {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, n := range v.nodes {
		if n.registry.Leading() && v.random.IntN(2) == 0 {
			return id
		}
	}
	if n := v.nodes["n1"]; n != nil {
		if all := n.registry.View().SessionsOf("a"); len(all) > 0 {
			return all[v.random.IntN(len(all))].Owner
		}
	}
	return some()
}

func (v *virtual) judgeAll(seed uint64) {
	v.t.Helper()
	v.kernels.mu.Lock()
	defer v.kernels.mu.Unlock()
	answered := 0
	for _, h := range v.calls {
		if h.Outcome == history.Answered {
			answered++
		}
	}
	v.t.Logf("%d calls, %d answered: %v", len(v.calls), answered, v.codes)
	wrong := history.Check(v.calls, v.kernels.marks, time.Hour)
	for _, w := range wrong {
		v.t.Errorf("seed %d: %s", seed, w)
	}
	if len(wrong) > 0 && testing.Verbose() {
		for _, h := range v.calls {
			v.t.Logf("%d..%d %s %s once=%v %s", h.Invoked/1e6, h.Returned/1e6, h.Session, h.Token, h.Once, h.Text)
		}
	}
	if answered < 50 {
		v.t.Errorf("seed %d: only %d calls were answered", seed, answered)
	}
}
