package calls

import (
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// What programs make drives out nobody's results, and is bounded itself.
func TestNestedCallsHaveTheirOwnBounds(t *testing.T) {
	table := NewTable()
	begin := func(parent string) *Record {
		return table.Begin(NewID(), surfaces.Call{Actor: "a", Parent: parent}, func(string) {})
	}
	callers := begin("")
	table.End(callers, surfaces.Result{}, func(bool) {})
	var inner []*Record
	for range MaxEnded + MaxEndedNested {
		r := begin(callers.ID)
		table.End(r, surfaces.Result{}, func(bool) {})
		inner = append(inner, r)
	}
	if table.Get("a", callers.ID) == nil {
		t.Error("the call of a caller was driven out")
	}
	if last := len(inner) - MaxEndedNested; table.Get("a", inner[last].ID) == nil || table.Get("a", inner[last-1].ID) != nil {
		t.Error("not the latest are kept")
	}
	if running, total := table.Counts(); running != 0 || total != int64(1+len(inner)) {
		t.Errorf("%d running of %d", running, total)
	}
	heavy := begin(callers.ID)
	heavy.Call.Stdin = string(make([]byte, MaxEndedNestedBytes))
	table.End(heavy, surfaces.Result{}, func(bool) {})
	if list := table.List("a"); len(list) != 2 {
		t.Errorf("%d calls are kept beside one that is over the bound", len(list))
	}
}

func TestChildren(t *testing.T) {
	table := NewTable()
	begin := func() *Record { return table.Begin(NewID(), surfaces.Call{}, func(string) {}) }
	parent, one, two := begin(), begin(), begin()
	if parent.AddChild(one) {
		t.Error("a call is paused that nobody has paused")
	}
	parent.SetPaused(true)
	if !parent.AddChild(two) || !parent.Paused() {
		t.Error("the child of a paused call is not to be paused")
	}
	parent.RemoveChild(one)
	if list := parent.Children(); len(list) != 1 || list[0] != two {
		t.Errorf("children %v", list)
	}
}
