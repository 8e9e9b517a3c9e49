package node_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/locusrun/locus/mesh/cables"
	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/gateway"
)

// plug connects node i's configuration to the cables.
func plug(c *cables.Cables, i int) func(*node.Config) {
	return func(conf *node.Config) {
		conf.ListenAddr, conf.Advertise = c.Listen(i).String(), c.Advertise(i).String()
		conf.Labels = map[string]string{"cable": strconv.Itoa(i)}
	}
}

// cabled starts the nodes of one mesh, connected by cables. World i-1 is node i.
func cabled(t testing.TB, nodes int, seed uint64, change ...func(*node.Config)) ([]*world, *cables.Cables) {
	t.Helper()
	c, err := cables.New(nodes, seed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	change = append([]func(*node.Config){quick}, change...)
	all := []*world{start(t, t.TempDir(), append(change, plug(c, 1))...)}
	for i := 2; i <= nodes; i++ {
		all = append(all, all[0].joined(t.TempDir(), append(change, plug(c, i))...))
	}
	voting(t, all)
	// On a loaded machine the members may elect a new leader after they have joined.
	eventually(t, "the mesh takes what is written", func() bool { return all[0].keep("settled", "1").Code == nil })
	eventually(t, "and goes on doing so", func() bool {
		var closed gateway.Closed
		return all[0].post("/v1/tools/close_session", args{"session_name": "settled"}, &closed) == 200
	})
	return all, c
}

// voting waits until the expected number of nodes vote, and gives all worlds one actor.
func voting(t testing.TB, all []*world) {
	t.Helper()
	healthy(t, all)
	for _, w := range all[1:] {
		w.token = all[0].token
	}
}

// healthy waits until the expected number of nodes vote.
func healthy(t testing.TB, all []*world) {
	t.Helper()
	want := min((len(all)-1)|1, 5)
	if len(all) < 3 {
		want = 1
	}
	for _, w := range all {
		eventually(t, fmt.Sprint(want, " nodes vote"), func() bool {
			voters := 0
			for _, n := range w.nodes() {
				if n.Voter && n.State == "up" {
					voters++
				}
			}
			return voters == want
		})
	}
}
