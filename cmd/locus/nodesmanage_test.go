package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// drainedNode is a node whose number of sessions falls with each request.
type drainedNode struct {
	*fakeNode
	lists []string
	next  atomic.Int32
}

func (n *drainedNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/nodes" {
		i := min(int(n.next.Add(1))-1, len(n.lists)-1)
		_, _ = w.Write([]byte(`{"nodes":[` + n.lists[i] + `]}`)) // a failure is the client's to report
		return
	}
	n.fakeNode.ServeHTTP(w, r)
}

func nodeWith(sessions, rest string) string {
	return `{"id":"node-2a","state":"up","draining":true,"sessions":` + sessions + rest + `}`
}

func TestDrainWaits(t *testing.T) {
	for name, row := range map[string]struct {
		lists  []string
		status int
		out    string
		err    string
	}{
		"until none are left": {
			[]string{nodeWith("2", ""), nodeWith("2", ""), nodeWith("1", ""), nodeWith("0", "")}, 0,
			"node-2a takes no new sessions; none are left\n", "locus: node-2a: 2 are left\nlocus: node-2a: 1 is left\n",
		},
		"until it is gone": {
			[]string{nodeWith("2", ""), nodeWith("2", `,"state":"expired"`)}, 0,
			"node-2a takes no new sessions; 2 are left\n", "locus: node-2a: 2 are left\n",
		},
		"not for who undoes it": {
			[]string{nodeWith("2", ""), nodeWith("2", `,"draining":false`)}, 2, "", "somebody has undone the draining of node-2a",
		},
		"not for who removes it": {[]string{nodeWith("2", ""), `{"id":"n1"}`}, 2, "", `there is no node "node-2a"`},
	} {
		t.Run(name, func(t *testing.T) {
			n := &drainedNode{fakeNode: &fakeNode{answers: answers()}, lists: row.lists}
			s := commandOn(t, n)
			status := s.a.run(t.Context(), []string{"nodes", "drain", "node-2a", "--wait"})
			if status != row.status || s.out.String() != row.out || !strings.Contains(s.err.String(), row.err) {
				t.Errorf("status %d, %q, %q", status, s.out.String(), s.err.String())
			}
		})
	}
}

func TestNodeNamesCanBeAbbreviated(t *testing.T) {
	for text, want := range map[string]string{
		"node-2a": "", "2": "", "node-2": "",
		"node-": `could be node-1f or node-2a`, "node-2ab": "there is no node", "a": "there is no node", "": "there is no node",
	} {
		s := command(t, &fakeNode{answers: answers()}, "")
		status := s.a.run(t.Context(), []string{"nodes", "undrain", text})
		if (status == 0) != (want == "") || !strings.Contains(s.err.String(), want) {
			t.Errorf("%q: status %d: %s", text, status, s.err.String())
		}
	}
}

func TestRemovalAsksForConfirmation(t *testing.T) {
	for _, row := range []struct {
		stdin  string
		typed  bool
		status int
		want   string
	}{
		{"y\n", true, 0, "Take node-1f, unreachable with 1 session, out of the mesh for good? [y/N]"},
		{"\n", true, 2, "nothing was done"},
		{"", true, 2, "nothing was done"},
		{"y\n", false, 2, "give --yes"},
	} {
		n := &fakeNode{answers: answers()}
		s := command(t, n, row.stdin)
		s.a.typed = row.typed
		status := s.a.run(t.Context(), []string{"nodes", "remove", "node-1f"})
		removed := strings.Contains(strings.Join(n.requests(), " "), "DELETE")
		if status != row.status || removed != (status == 0) || !strings.Contains(s.err.String(), row.want) {
			t.Errorf("%+v: status %d, removed %v: %s", row, status, removed, s.err.String())
		}
	}
}

func TestRevokingAnUnknownName(t *testing.T) {
	s := command(t, &fakeNode{answers: answers()}, "")
	if status := s.a.run(t.Context(), []string{"token", "revoke", "nobody"}); status != 2 || !strings.Contains(s.err.String(), `neither an actor nor a join token "nobody"`) {
		t.Errorf("status %d, want 2: %s", status, s.err.String())
	}
}
