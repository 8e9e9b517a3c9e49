package node_test

import (
	"slices"
	"testing"

	"github.com/locusrun/locus/node"
)

// A call is one trace over all nodes that take part in it, and a part of its caller's trace.
func TestOneTraceThroughTwoNodes(t *testing.T) {
	t.Parallel()
	c := collect(t)
	all := mesh(t, 2, c.traced)
	own, others := owner(t, all, ok(t, all[0].keep("s", "x = 1")))
	away := others[0]
	own.put(args{"source": "async def twice(x):\n    return 2 * x\n"})

	res := ok(t, away.traced(anAgentsTrace, "01", args{"code": "await functions.twice(4)", "state_mode": "stateful", "session_name": "s"}))
	top := c.call(t, res.CallID)
	if top.trace != anAgentsTrace || top.parent != anAgentsSpan || top.node != away.id() {
		t.Fatalf("got %+v, want a span of node %s below the caller's own", top, away.id())
	}
	const inner = "primitive(execute_code(attempt(prepare queue run) place))"
	c.below(t, top, "execute_code(attempt(route(serve(prepare queue run))) place "+inner+" validate)")
	if s := c.one(t, top.trace, "serve"); s.node != own.id() {
		t.Errorf("what the owner does was told by %s", s.node)
	}

	// The caller's trace is not sampled, so no node records it.
	const silent = "1af7651916cd43dd8448eb211c80319c"
	ok(t, away.traced(silent, "00", args{"code": "x", "state_mode": "stateful", "session_name": "s"}))
	last := ok(t, away.keep("s", "x"))
	c.call(t, last.CallID)
	if spans := c.of(silent); len(spans) > 0 {
		t.Errorf("got %+v, want no span of a trace that is not sampled", spans)
	}
}

// A node without a collector propagates a trace, and starts none.
func TestATraceThroughANodeWithoutACollector(t *testing.T) {
	t.Parallel()
	c := collect(t)
	telling := 0
	all := mesh(t, 2, func(cfg *node.Config) {
		if telling++; telling == 2 {
			c.traced(cfg)
		}
	})
	quiet, traced := all[0], all[1]
	ok(t, traced.keep("warm", "1"))
	name := ""
	eventually(t, "a session is on the other node", func() bool {
		name += "s"
		return ok(t, quiet.keep(name, "x = 1")).Node == traced.id()
	})
	ok(t, quiet.traced(anAgentsTrace, "01", args{"code": "x", "state_mode": "stateful", "session_name": name}))
	eventually(t, "the owner's part is sent", func() bool {
		spans := c.of(anAgentsTrace)
		i := slices.IndexFunc(spans, func(s span) bool { return s.parent == anAgentsSpan })
		return i >= 0 && tree(spans, spans[i]) == "serve(prepare queue run)"
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.name == "serve" && s.trace != anAgentsTrace {
			t.Errorf("an attempt of a call without a trace has one: %+v", s)
		}
	}
}
