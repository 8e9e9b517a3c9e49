package registry

import (
	"maps"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func (w world) shelf() command {
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(w.t, what) }
	// Ids run away from a few when environments come and go, so the latest are drawn.
	id := max(1, w.m.rest.shelf.lastVenv-rapid.IntRange(0, 3).Draw(w.t, "back"))
	server := pick("server", "s", "s", "s", "t")
	text := pick("text", "a", "b", "c")
	switch rapid.IntRange(0, 14).Draw(w.t, "library") {
	case 0, 1:
		return AddVenv{Name: "n" + text, Text: text, Digest: string(HashToken(text)), CreatedBy: w.actor()}
	case 2, 3:
		return RemoveVenv{ID: id}
	case 4, 5:
		return RecordBuild{ID: id, Node: w.node(), Lock: []byte(pick("lock", "", "1", "2"))}
	case 6:
		return DropBuild{ID: id, Node: w.node()}
	case 7, 8:
		venv := rapid.SampledFrom([]int{0, id}).Draw(w.t, "venv")
		return PutFunction{Name: pick("function", "f", "g"), Source: text, Venv: venv, Entry: "f", Digest: string(HashToken(text)), CreatedBy: w.actor()}
	case 9, 10:
		return RemoveFunction{Name: pick("function", "f", "g")}
	case 11, 12:
		return PutServer{Actor: w.actor(), Name: server, Command: []string{text}}
	}
	return RemoveServer{Actor: w.actor(), Name: server}
}

// libraryResults are those that random commands about the library must come to.
var libraryResults = []string{"venv:added", "venv:exists", "venv:removed", "venv:in_use", "venv:not_found", "venv:noted",
	"function:stored", "function:replaced", "function:no_venv", "function:removed", "function:not_found",
	"server:stored", "server:replaced", "server:no_actor", "server:removed", "server:not_found"}

func TestLibraryAgreesWithTheModel(t *testing.T) {
	untilSeen(t, libraryResults, func(t *rapid.T, saw func(outcome any)) {
		f, m := newFeed(), newModel()
		do[initOutcome](t, f, initCluster{ID: "mesh", Level: level})
		for _, c := range []command{RegisterNode{ID: "n1"}, RegisterNode{ID: "n2"}, CreateActor{Name: "ada", ID: "id"}} {
			run(t, f, m, c)
		}
		for range 100 {
			w := world{t, m}
			c := w.shelf()
			if rapid.IntRange(0, 19).Draw(t, "other") == 0 {
				c = rapid.SampledFrom([]command{EndActor{Name: "ada"}, CreateActor{Name: "ada", ID: "id"},
					RemoveNode{ID: "n2", Stopped: w.life("n2")}, RegisterNode{ID: "n2"}}).Draw(t, "which")
			}
			saw(run(t, f, m, c))
			compare(t, f.view(), m)
		}
	})
}

func compareLibrary(t tb, v View, m *model) {
	t.Helper()
	got := newLibrary()
	got.lastVenv = v.tables().cluster().LastVenv
	for _, e := range v.Venvs() {
		got.venvs[e.ID] = e
	}
	for _, f := range v.Functions() {
		got.functions[f.Name] = f
	}
	for _, s := range v.tables().servers() {
		got.servers[[2]string{s.Actor, s.Name}] = *s
	}
	if !reflect.DeepEqual(got, m.rest.shelf) {
		t.Fatalf("the library\n got %+v\nwant %+v", got, m.rest.shelf)
	}
	for actor := range maps.Keys(m.actors) {
		for _, s := range v.Servers(actor) {
			if want, ok := m.rest.shelf.servers[[2]string{actor, s.Name}]; !ok || !reflect.DeepEqual(s, want) {
				t.Fatalf("%s has %+v, want %+v", actor, s, want)
			}
		}
	}
}
