package node_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// The caller's node, the session's owner and the node with the function's environment are
// three different ones, and each of them accepts steering.
func TestFunctionsThroughAMesh(t *testing.T) {
	all := mesh(t, 3)
	own, others := owner(t, all, ok(t, all[0].keep("s", "x = 1")))
	caller, builder := others[0], others[1]
	id := builder.venv("[project]\nname = \"shared\"\nversion = \"1\"\ndependencies = []\n")
	var built gateway.VenvInfo
	if status := builder.post(fmt.Sprintf("/v1/venvs/%d/build", id), args{}, &built); status != 200 {
		t.Fatalf("build: status %d, want 200", status)
	}
	eventually(t, "the caller's node knows who has built it", func() bool {
		var info gateway.VenvInfo
		caller.get(fmt.Sprintf("/v1/venvs/%d", id), &info)
		return slices.Contains(info.Built, builder.id())
	})
	own.put(args{"venv_id": id, "source": "import sys\nasync def sf_where(x):\n    return [sys.prefix, x]"})
	own.put(args{"venv_id": id, "source": "def sf_ticks():\n    import time\n    print('inside', flush=True)\n    while True:\n        print('tick', flush=True)\n        time.sleep(0.001)"})
	res := caller.keep("s", "x = await functions.sf_where((1, 'x' * 1_000_000)); [x[0], len(x[1][1])]")
	if ok(t, res); res.Node != own.id() || !strings.HasSuffix(string(res.Result), ",1000000]") {
		t.Fatalf("got %.300s, want Node %v, Result ending in \",1000000]\"", show(res), own.id())
	}
	if list := caller.children(res.CallID); len(list) != 1 || caller.result(list[0].CallID).Node != builder.id() {
		t.Fatalf("got %+v, want one call, on node %s", list, builder.id())
	}
	for _, at := range all {
		parent, child := caller.startInFunction(t, "await functions.sf_ticks()")
		size := func() int { return len(caller.result(child).Stdout) }
		at.steer(t, parent, "pause", nil)
		before := standsStill(t, size)
		at.steer(t, parent, "resume", nil)
		eventually(t, "output goes on", func() bool { return size() > before })
		at.steer(t, parent, "stop", nil)
		code(t, caller.ended(t, parent), surfaces.CodeStopped)
		if inner := code(t, caller.ended(t, child), surfaces.CodeStopped); inner.Node != builder.id() {
			t.Errorf("got %s, want node %s", show(inner), builder.id())
		}
	}
}
