package placement

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

var someCandidate = rapid.Custom(func(t *rapid.T) Candidate {
	return Candidate{
		Incarnation: 1, Up: rapid.Bool().Draw(t, "up"), Draining: rapid.Bool().Draw(t, "draining"),
		Languages: rapid.SliceOfDistinct(rapid.SampledFrom([]string{"python", "bash"}), rapid.ID[string]).Draw(t, "languages"),
		Sessions:  rapid.IntRange(0, 5).Draw(t, "sessions"), MaxSessions: rapid.IntRange(0, 5).Draw(t, "max sessions"),
		Running: rapid.IntRange(0, 5).Draw(t, "running"), MaxRunning: rapid.IntRange(0, 5).Draw(t, "max running"),
		Labels:     rapid.SampledFrom([]map[string]string{nil, {"zone": "a"}, {"zone": "b", "disk": "fast"}}).Draw(t, "labels"),
		NoSessions: rapid.Bool().Draw(t, "no sessions"), NoCalls: rapid.Bool().Draw(t, "no calls"),
		Holds: rapid.IntRange(0, 2).Draw(t, "holds"), Built: rapid.Bool().Draw(t, "built"),
	}
})

// The chosen node fits and has room. If none is chosen, none fits or all that fit are full.
func TestChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(someCandidate, 0, 6).Draw(t, "nodes")
		for i := range nodes {
			nodes[i].ID = registry.NodeID(rune('a' + i))
		}
		w := Want{Language: surfaces.Python, Session: rapid.Bool().Draw(t, "session"), Self: "a"}
		w.Labels = rapid.SampledFrom([]map[string]string{nil, {"zone": "a"}, {"disk": "fast"}}).Draw(t, "wanted")
		got, unfit := Choose(w, nodes, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "draw") })
		fits, room, built, holds := 0, 0, false, 0
		for _, c := range nodes {
			if !c.fits(w) {
				continue
			}
			fits++
			if c.hasRoom(w) {
				room++
				built = built || c.Built
			}
		}
		for _, c := range nodes {
			if c.fits(w) && c.hasRoom(w) && c.Built == built {
				holds = max(holds, c.Holds)
			}
		}
		switch {
		case unfit == NoNode && fits > 0, unfit == NoRoom && (fits == 0 || room > 0):
			t.Fatalf("unfit %d with %d that fit, %d with room", unfit, fits, room)
		case unfit != 0:
			return
		case !got.fits(w) || !got.hasRoom(w) || w.Labels["zone"] == "a" && got.Labels["zone"] != "a":
			t.Fatalf("chose %+v", got)
		case got.Built != built || w.Session && got.Holds != holds:
			t.Fatalf("chose %+v where one is built: %v, holds %d", got, built, holds)
		}
		if self := nodes[0]; !w.Session && self.fits(w) && self.hasRoom(w) && self.Built == built && got.ID != "a" {
			t.Fatalf("a stateless call left a node with room for %s", got.ID)
		}
	})
}

func TestTheLessLoadedOfTwoIsChosen(t *testing.T) {
	node := func(id registry.NodeID, running, sessions int) Candidate {
		return Candidate{ID: id, Up: true, Languages: []string{"python"}, Running: running, Sessions: sessions}
	}
	w := Want{Language: surfaces.Python, Session: true, Self: "b"}
	first := func(int) int { return 0 }
	for _, c := range []struct {
		nodes []Candidate
		want  registry.NodeID
	}{
		{[]Candidate{node("a", 3, 0), node("b", 1, 0)}, "b"},
		{[]Candidate{node("a", 0, 2), node("b", 0, 3)}, "a"},
		{[]Candidate{node("a", 1, 1), node("b", 1, 1)}, "b"},
	} {
		if got, _ := Choose(w, c.nodes, first); got.ID != c.want {
			t.Errorf("chose %s of %+v", got.ID, c.nodes)
		}
	}
}
