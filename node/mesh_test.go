package node_test

import (
	"testing"

	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/gateway"
)

// joined starts a node that joins the mesh of w.
func (w *world) joined(change ...func(*node.Config)) *world {
	w.t.Helper()
	var token gateway.TokenInfo
	if status := w.post("/v1/tokens", args{"role": "node"}, &token); status != 200 {
		w.t.Fatalf("no token: status %d", status)
	}
	var at gateway.StatusInfo
	w.get("/v1/status", &at)
	change = append(change, func(c *node.Config) { c.Join, c.Token = at.Listen, token.Token })
	return start(w.t, w.t.(*testing.T).TempDir(), change...)
}

func TestThreeNodesAreOneMesh(t *testing.T) {
	a := start(t, t.TempDir())
	b := a.joined()
	c := b.joined()
	t.Log(a.url, b.url, c.url)
	t.Log(b.once("1+1").Result)
	r := a.keep("s", "x = 41")
	t.Log(r.Node, r.Error)
	r = b.keep("s", "x + 1")
	t.Log(r.Node, string(r.Result), r.Error)
	r = c.read("s", "x + 2")
	t.Log(r.Node, string(r.Result), r.Error)
}
