package node_test

import (
	"sync"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// When most voters are gone, tools that need the registry report that it has no quorum, not an
// internal error.
func TestToolsWithoutAQuorum(t *testing.T) {
	t.Parallel()
	all := mesh(t, 3, patient)
	made := ok(t, all[0].keep("s", "x = 1"))
	own, others := owner(t, all, made)
	for _, w := range others {
		w.stop()
	}
	var asked sync.WaitGroup
	for tool, a := range map[string]args{
		"close_session": {"session_name": "s"},
		"fork_session":  {"session_name": "s", "new_name": "t"},
		"inspect_state": {},
	} {
		asked.Go(func() {
			var res surfaces.Result
			status := own.post("/v1/tools/"+tool, a, &res)
			if status != 503 || res.Code == nil || *res.Code != surfaces.CodeNoQuorum && *res.Code != surfaces.CodeOwnerUnreachable {
				t.Errorf("%s: status %d, want 503, %s", tool, status, show(res))
			}
		})
	}
	asked.Go(func() {
		var res surfaces.Result
		if status := own.post("/v1/tools/close_session", args{"session_name": "nobody"}, &res); status != 503 || res.Code == nil || *res.Code != surfaces.CodeNoQuorum {
			t.Errorf("close_session of what is not there: status %d, want 503, %s", status, show(res))
		}
	})
	asked.Wait()
}
