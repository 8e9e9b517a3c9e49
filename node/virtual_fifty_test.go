package node

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/locusrun/locus/registry"
)

// Fifty whole nodes become one mesh: all have the same view, five of them vote, every node
// answers calls of a session on another, and all agree on a node that dies and returns.
func TestFiftyNodesBecomeOneMesh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const nodes = 50
		v := newVirtual(t, 1)
		v.grow(nodes)
		all := func(what string, holds func(registry.View) bool) {
			t.Helper()
			for _, n := range v.nodes {
				v.until(fmt.Sprintf("%s, as %s knows it", what, n.id), func() bool { return holds(n.registry.View()) })
			}
		}
		up := func(wanted int) func(registry.View) bool {
			return func(view registry.View) bool {
				up := 0
				for _, n := range view.Nodes() {
					if n.State == registry.NodeUp {
						up++
					}
				}
				return up == wanted
			}
		}
		all("every node is up", up(nodes))
		leaders := 0
		for _, n := range v.nodes {
			if n.registry.Leading() {
				leaders++
			}
		}
		if leaders != 1 {
			t.Errorf("%d nodes lead, want 1", leaders)
		}

		v.createSession("n37")
		for _, n := range v.nodes {
			if res := v.appendToken(n, string(n.id), 1); res.Code != nil || res.Node != "n37" {
				t.Errorf("a call at %s: %s", n.id, brief(res))
			}
		}

		v.down("n20")
		all("one node is gone", up(nodes-1))
		v.join(v.up("n20"))
		all("it is back", up(nodes))
	})
}
