package node_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/locusrun/locus/mesh/cables"
	"github.com/locusrun/locus/mesh/faultnet"
	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/gateway"
)

// soaking returns how many seeds LOCUS_SOAK asks for, 0 without it.
func soaking() int {
	n, _ := strconv.Atoi(os.Getenv("LOCUS_SOAK"))
	return n
}

// seeds returns the seeds to run: one, or as many as LOCUS_SOAK says, from LOCUS_SEED on.
func seeds() (all []uint64) {
	first, err := strconv.ParseUint(os.Getenv("LOCUS_SEED"), 10, 64)
	if err != nil {
		first = 1
	}
	for i := range max(1, soaking()) {
		all = append(all, first+uint64(i))
	}
	return all
}

// indexOf returns the index of a node's cable.
func indexOf(t testing.TB, all []*world, id string) int {
	t.Helper()
	i := slices.IndexFunc(all, func(w *world) bool { return w.id() == id })
	if i < 0 {
		t.Fatalf("no node is %q", id)
	}
	return i + 1
}

// A seed breaks the network in every way that is simulated, while clients call every node.
// What the clients saw is then checked.
func TestFaultsOfTheNetwork(t *testing.T) {
	for _, seed := range seeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			if soaking() == 0 {
				t.Parallel()
			}
			faultsOfTheNetwork(t, seed)
		})
	}
}

func faultsOfTheNetwork(t *testing.T, seed uint64) {
	all, wires := cabled(t, 3, seed)
	c := newClients(t, seed)
	c.run(all)
	random := rand.New(rand.NewPCG(seed, 2))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(random.Int64N(int64(most-least)))
	}
	for range rounds() {
		time.Sleep(between(300*time.Millisecond, 1500*time.Millisecond))
		owner, leader := leaders(t, all)
		w := cables.Direction(random.IntN(3))
		var what string
		switch random.IntN(5) {
		case 0, 1:
			what = fmt.Sprintf("the owner %d is cut off %s", owner, w)
			wires.Isolate(owner, w)
		case 2:
			what = fmt.Sprintf("the leader %d is cut off %s", leader, w)
			wires.Isolate(leader, w)
		case 3:
			what = fmt.Sprintf("the owner %d and the leader %d are cut off %s", owner, leader, w)
			wires.Isolate(owner, w)
			wires.Isolate(leader, w)
		case 4:
			what = "everything is bad"
			wires.Degrade(faultnet.Link{Delay: 10 * time.Millisecond, Jitter: 40 * time.Millisecond, Drop: 0.2, Duplicate: 0.1})
		}
		lasts := between(500*time.Millisecond, 6*time.Second)
		t.Logf("%s, for %s", what, lasts)
		time.Sleep(lasts)
		wires.Heal()
	}
	healthy(t, all)
	c.check()
}

// rounds is the number of faults in one run.
func rounds() int {
	if soaking() > 0 {
		return 12
	}
	return 4
}

// leaders returns the node that owns session s0, or any if there is none, and the leader.
func leaders(t *testing.T, all []*world) (owner, leader int) {
	t.Helper()
	eventually(t, "somebody leads", func() bool {
		leader = 0
		for i, w := range all {
			s := w.status()
			if s.Leader == s.Node {
				leader = i + 1
			}
		}
		return leader != 0
	})
	owner = 1
	for _, s := range all[leader-1].sessions(t) {
		if s.SessionName != nil && *s.SessionName == "s0" {
			owner = indexOf(t, all, s.Node)
		}
	}
	return owner, leader
}

// record returns what a node knows of the only session, and nothing if it does not know it
// yet.
func record(t *testing.T, w *world) (s gateway.SessionInfo) {
	t.Helper()
	for _, s = range w.sessions(t) {
	}
	return s
}

// patient detects a lost node soon, and gives it a long time to come back.
func patient(c *node.Config) { c.Lease.Grace = 30 * time.Second }

// An owner that was cut off, and is back within its lease and grace, has lost nothing, and no
// loss is reported.
func TestAnOwnerThatIsBackInTime(t *testing.T) {
	t.Parallel()
	all, wires := cabled(t, 3, 1, patient)
	made := ok(t, all[0].keep("s", "x = [1]"))
	own, others := owner(t, all, made)
	wires.Isolate(indexOf(t, all, made.Node), cables.Both)
	eventually(t, "the owner is missed", func() bool { return record(t, others[0]).State == "unreachable" })
	answers := make(chan string, 2)
	for _, w := range []*world{own, others[0]} {
		go func() {
			res := w.exec(args{"code": "x.append(2); len(x)", "state_mode": "stateful", "session_name": "s", "timeout_s": 60})
			answers <- fmt.Sprintf("%s %d %v", res.Result, res.Attempts, res.StateLost.Loss)
		}()
	}
	code(t, others[1].exec(args{"code": "x", "state_mode": "read_only", "session_name": "s", "timeout_s": 1}), "owner_unreachable")
	wires.Heal()
	got := []string{<-answers, <-answers}
	slices.Sort(got)
	if want := []string{"2 1 <nil>", "3 1 <nil>"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for _, w := range all {
		res := ok(t, w.read("s", "x"))
		if string(res.Result) != "[1,2,2]" || res.StateLost.Loss != nil {
			t.Fatalf("got %s, want Result \"[1,2,2]\", no loss", show(res))
		}
	}
}

// An owner that was cut off for too long never answers from its old state again.
func TestAnOwnerThatIsBackTooLate(t *testing.T) {
	t.Parallel()
	all, wires := cabled(t, 3, 1)
	made := ok(t, all[0].keep("s", "x = ['old']"))
	own, others := owner(t, all, made)
	before := record(t, own).Epoch
	wires.Isolate(indexOf(t, all, made.Node), cables.Both)
	rebuilt := ok(t, others[0].exec(args{"code": "x = ['new'] + (x if 'x' in globals() else [])", "state_mode": "stateful", "session_name": "s", "timeout_s": 60}))
	if rebuilt.StateLost.Loss == nil || rebuilt.Node == made.Node || rebuilt.StateLost.Loss.Epoch != uint64(before) {
		t.Fatalf("got %s, want Node other than %v, loss epoch %v", show(rebuilt), made.Node, uint64(before))
	}
	// The old owner does not know this yet, and still must not answer.
	for _, mode := range []string{"stateful", "read_only"} {
		code(t, own.exec(args{"code": "x", "state_mode": mode, "session_name": "s", "timeout_s": 1}), "owner_unreachable")
	}
	wires.Heal()
	for _, mode := range []string{"read_only", "stateful"} {
		res := own.exec(args{"code": "x", "state_mode": mode, "session_name": "s", "timeout_s": 60})
		if mode == "read_only" && res.Code != nil && *res.Code == "session_lost" {
			continue // with the old state, whose loss may still be reported
		}
		ok(t, res)
		if string(res.Result) != `["new"]` || res.StateLost.Loss != nil || res.Node != rebuilt.Node {
			t.Fatalf("got %s, want Result [\"new\"], no loss, Node %v", show(res), rebuilt.Node)
		}
	}
	if after := record(t, others[1]).Epoch; after <= before {
		t.Fatalf("the epoch went from %d to %d", before, after)
	}
}

// A path between nodes whose MTU shrinks, as when a tunnel replaces it, still carries large
// messages, over the connections that existed before.
func TestAPathWhoseMTUShrinks(t *testing.T) {
	t.Parallel()
	all, wires := cabled(t, 3, 1)
	const draw = "import random; x = random.randbytes(50_000).hex(); print(x)" // hardly compressible
	_, others := owner(t, all, ok(t, all[0].keep("s", draw)))
	text := make([]byte, 50_000)
	random := rand.New(rand.NewPCG(1, 7))
	for i := range text {
		text[i] = byte(random.Uint32())
	}
	large := fmt.Sprintf("%s; len('%x')", draw, text)
	exchange := func(w *world) {
		t.Helper()
		res := w.exec(args{"code": large, "state_mode": "stateful", "session_name": "s", "timeout_s": 8})
		if value(t, res, "100000"); len(res.Stdout) != 100_001 {
			t.Fatalf("%d bytes were printed", len(res.Stdout))
		}
	}
	for _, w := range others {
		exchange(w) // which discovers the path's MTU
	}
	wires.Degrade(faultnet.Link{MaxPacket: 1200})
	for _, w := range others {
		exchange(w)
	}
}
