package node_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/locusrun/locus/mesh/netlab"
	"github.com/locusrun/locus/surfaces"
)

// labMesh is a mesh of three nodes, each a process on a virtual host of its own.
func labMesh(t *testing.T, profile string) ([]*processWorld, []*netlab.Host) {
	t.Helper()
	lab := netlab.New(t)
	hosts := []*netlab.Host{lab.Host(), lab.Host(), lab.Host()}
	return processesOn(t, hosts, profile), hosts
}

// cuts are the ways in which a host is disconnected.
var cuts = []struct {
	name string
	do   func(*netlab.Host)
}{
	{"cut off", (*netlab.Host).Cut},
	{"deaf", (*netlab.Host).BlockInbound},
	{"mute", (*netlab.Host).BlockOutbound},
}

// Owners and leaders are cut off for longer than their leases, in one direction and in both,
// while clients call every node. What the clients saw is then checked.
func TestFaultsOfARealNetwork(t *testing.T) {
	all, hosts := labMesh(t, "quick")
	c := newClients(t, seeds()[0])
	c.run(worlds(all))
	for i := range 2 * len(cuts) {
		owner, leader := leaders(t, worlds(all))
		who, name := owner, "the owner"
		if i%2 == 1 {
			who, name = leader, "the leader"
		}
		cut := cuts[i/2]
		t.Logf("%s, which is node %d, is %s; the leader is %d", name, who, cut.name, leader)
		cut.do(hosts[who-1])
		time.Sleep(4500 * time.Millisecond) // the length of the fault: more than lease and grace
		hosts[who-1].Heal()
		healthy(t, worlds(all))
	}
	c.check()
	// All nodes agree on the owner of each session.
	var first []string
	for i, w := range all {
		eventually(t, "the nodes agree on the owners", func() bool {
			var now []string
			for _, s := range w.sessions(t) {
				now = append(now, fmt.Sprint(*s.SessionName, s.Node, s.Epoch, s.State == "lost"))
			}
			slices.Sort(now)
			if i == 0 {
				first = now
			}
			return slices.Equal(now, first) && len(now) > 0
		})
	}
	t.Log(first)
}

// An owner that is reachable again in time has lost nothing, whichever way it was cut off, and
// no loss is reported. A caller that did not wait got a true answer.
func TestAnOwnerOnARealNetworkIsBackInTime(t *testing.T) {
	all, hosts := labMesh(t, "patient")
	made := ok(t, all[0].keep("s", "x = []"))
	own := named(t, all, made.Node)
	others := []*processWorld{all[(own+1)%3], all[(own+2)%3]}
	add := func(w *processWorld, token string, timeout int) surfaces.Result {
		return w.exec(args{"code": fmt.Sprintf("x.append(%q)", token), "state_mode": "stateful", "session_name": "s", "timeout_s": timeout})
	}
	for _, cut := range cuts {
		cut.do(hosts[own])
		for _, w := range others {
			eventually(t, "the owner is missed", func() bool { return record(t, w.world).State == "unreachable" })
		}
		answers := make(chan surfaces.Result, 2)
		go func() { answers <- add(all[own], cut.name+" here", 60) }()
		go func() { answers <- add(others[0], cut.name+" there", 60) }()
		hasty := add(others[1], cut.name+" in haste", 1)
		hosts[own].Heal()
		for range 2 {
			if res := ok(t, <-answers); res.StateLost.Loss != nil || res.Attempts != 1 || res.Node != made.Node {
				t.Fatalf("%s: got %s, want no loss, Attempts 1, Node %v", cut.name, show(res), made.Node)
			}
		}
		for _, w := range all {
			res := ok(t, w.read("s", "x"))
			var x []string
			if err := json.Unmarshal(res.Result, &x); err != nil || res.StateLost.Loss != nil || res.Node != made.Node {
				t.Fatalf("%s: got %s", cut.name, show(res))
			}
			for token, may := range map[string][]int{" here": {1}, " there": {1}, " in haste": mayHaveRun(t, hasty)} {
				n := 0
				for _, had := range x {
					if had == cut.name+token {
						n++
					}
				}
				if !slices.Contains(may, n) {
					t.Errorf("%s%s ran %d times, of which its caller was told %v: %v", cut.name, token, n, may, x)
				}
			}
		}
	}
}

// mayHaveRun returns how often a call can have run whose caller did not wait for its end.
func mayHaveRun(t *testing.T, res surfaces.Result) []int {
	t.Helper()
	switch {
	case res.Code == nil:
		return []int{1}
	case *res.Code == surfaces.CodeOwnerUnreachable:
		return []int{0}
	case *res.Code == surfaces.CodeOutcomeUnknown || *res.Code == surfaces.CodeTimeout:
		return []int{0, 1}
	}
	t.Errorf("unexpected answer %s", show(res))
	return nil
}
