package registry

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func addVenv(t tb, f *feed, text string) VenvOutcome {
	t.Helper()
	return do[VenvOutcome](t, f, AddVenv{Name: "x", Text: text, Digest: string(HashToken(text)), CreatedBy: "ada"})
}

func TestOneContentIsOneVenv(t *testing.T) {
	f := seeded(t)
	want(t, "first", addVenv(t, f, "one").ID, 1)
	again := addVenv(t, f, "one")
	want(t, "again", again.Result, VenvExists)
	want(t, "the same id", again.ID, 1)
	want(t, "another", addVenv(t, f, "two").ID, 2)
	want(t, "removed", do[VenvOutcome](t, f, RemoveVenv{ID: 2}).Result, VenvRemoved)
	want(t, "removed again", do[VenvOutcome](t, f, RemoveVenv{ID: 2}).Result, VenvNotFound)
	// A session or a disk may still know what 2 was.
	want(t, "an id is given out once", addVenv(t, f, "two").ID, 3)
	want(t, "also over a snapshot", do[VenvOutcome](t, f, RemoveVenv{ID: 3}).Result, VenvRemoved)
	f.m = restored(t, snapshotOf(t, f.m))
	want(t, "after it", addVenv(t, f, "two").ID, 4)
}

func TestVenvInUseIsNotRemoved(t *testing.T) {
	f := seeded(t)
	id := addVenv(t, f, "one").ID
	s := claim(t, f, surfaces.SessionKey{Actor: "ada", Language: surfaces.Python, Venv: id, ID: 0}, "")
	inUse := do[VenvOutcome](t, f, RemoveVenv{ID: id})
	want(t, "a session", inUse.Result, VenvInUse)
	want(t, "one", inUse.Sessions, 1)
	// A lost session keeps its key, so it keeps the environment too.
	do[MarkLostOutcome](t, f, MarkLost{Key: s.Key, Grant: s.Grant(), Reason: LossTimeout})
	want(t, "a lost session", do[VenvOutcome](t, f, RemoveVenv{ID: id}).Result, VenvInUse)
	do[CloseOutcome](t, f, CloseSession{Key: s.Key})
	want(t, "no environment", do[FunctionOutcome](t, f, put("f", 9)).Result, FunctionNoVenv)
	want(t, "stored", do[FunctionOutcome](t, f, put("f", id)).Result, FunctionStored)
	want(t, "a function", do[VenvOutcome](t, f, RemoveVenv{ID: id}).Functions, 1)
	do[FunctionOutcome](t, f, RemoveFunction{Name: "f"})
	want(t, "nothing", do[VenvOutcome](t, f, RemoveVenv{ID: id}).Result, VenvRemoved)
}

func TestFirstLockStays(t *testing.T) {
	f := seeded(t)
	id := addVenv(t, f, "one").ID
	record := func() Venv { v, _ := f.view().Venv(id); return v }
	do[VenvOutcome](t, f, RecordBuild{ID: id, Node: "n2"})
	want(t, "no lock yet", len(record().Lock), 0)
	do[VenvOutcome](t, f, RecordBuild{ID: id, Node: "n1", Lock: []byte("first")})
	want(t, "noted", do[VenvOutcome](t, f, RecordBuild{ID: id, Node: "n2", Lock: []byte("second")}).Result, BuildRecorded)
	want(t, "lock", string(record().Lock), "first")
	want(t, "built", fmt.Sprint(record().Built), "[n1 n2]")
	do[VenvOutcome](t, f, DropBuild{ID: id, Node: "n2"})
	want(t, "dropped", fmt.Sprint(record().Built), "[n1]")
	do[NodeOutcome](t, f, RemoveNode{ID: "n1", Stopped: 1})
	want(t, "of a removed node", len(record().Built), 0)
	want(t, "the lock outlives its builds", string(record().Lock), "first")
	want(t, "unknown", do[VenvOutcome](t, f, RecordBuild{ID: 9, Node: "n1"}).Result, VenvNotFound)
	for i := range maxBuilt + 9 {
		do[VenvOutcome](t, f, RecordBuild{ID: id, Node: NodeID(fmt.Sprint(i))})
	}
	want(t, "bounded", len(record().Built), maxBuilt)
}

func put(name string, venv int) PutFunction {
	return PutFunction{Name: name, Source: "def f(): ...", Venv: venv, Entry: "f", Digest: string(HashToken(name)), CreatedBy: "ada"}
}

func TestFunctionsHaveVersions(t *testing.T) {
	f := seeded(t)
	want(t, "first", do[FunctionOutcome](t, f, put("f", 0)).Version, 1)
	second := put("f", 0)
	second.CreatedBy = "bob"
	want(t, "second", do[FunctionOutcome](t, f, second).Version, 2)
	got, _ := f.view().Function("f")
	want(t, "whose it is", got.CreatedBy, "ada")
	if got.CreatedAt >= got.UpdatedAt {
		t.Errorf("made at %d, changed at %d", got.CreatedAt, got.UpdatedAt)
	}
	want(t, "removed", do[FunctionOutcome](t, f, RemoveFunction{Name: "f"}).Version, 2)
	want(t, "again", do[FunctionOutcome](t, f, RemoveFunction{Name: "f"}).Result, FunctionNotFound)
}

func TestServersAreAnActorsOwn(t *testing.T) {
	f := seeded(t)
	do[CreateActorOutcome](t, f, CreateActor{Name: "adam", ID: "actor-2"})
	server := PutServer{Actor: "ada", Name: "files", Command: []string{"x"}, Env: map[string]string{"A": "B"}}
	want(t, "stored", do[ServerOutcome](t, f, server).Result, ServerStored)
	server.Allow = []string{"read"}
	want(t, "replaced", do[ServerOutcome](t, f, server).Result, ServerReplaced)
	server.Actor = "adam"
	want(t, "another's", do[ServerOutcome](t, f, server).Result, ServerStored)
	want(t, "one each", len(f.view().Servers("ada")), 1)
	server.Actor = "eve"
	want(t, "nobody's", do[ServerOutcome](t, f, server).Result, ServerNoActor)
	do[EndActorOutcome](t, f, EndActor{Name: "ada"})
	want(t, "of an actor that is over", len(f.view().Servers("ada")), 0)
	want(t, "the other's stays", len(f.view().Servers("adam")), 1)
	want(t, "removed", do[ServerOutcome](t, f, RemoveServer{Actor: "adam", Name: "files"}).Result, ServerRemoved)
	want(t, "again", do[ServerOutcome](t, f, RemoveServer{Actor: "adam", Name: "files"}).Result, ServerNotFound)
}

func TestLibraryIsBounded(t *testing.T) {
	f := seeded(t)
	for i := range MaxVenvs {
		addVenv(t, f, fmt.Sprint(i))
	}
	want(t, "environments", addVenv(t, f, "one more").Result, VenvLimit)
	want(t, "one that is there", addVenv(t, f, "0").Result, VenvExists)
	for i := range MaxFunctions {
		do[FunctionOutcome](t, f, put(fmt.Sprint("f", i), 0))
	}
	want(t, "functions", do[FunctionOutcome](t, f, put("more", 0)).Result, FunctionLimit)
	want(t, "a new version", do[FunctionOutcome](t, f, put("f0", 0)).Result, FunctionReplaced)
	for i := range MaxServers {
		do[ServerOutcome](t, f, PutServer{Actor: "ada", Name: fmt.Sprint("s", i), URL: "http://x"})
	}
	want(t, "servers", do[ServerOutcome](t, f, PutServer{Actor: "ada", Name: "more", URL: "http://x"}).Result, ServerLimit)
	want(t, "one in place of another", do[ServerOutcome](t, f, PutServer{Actor: "ada", Name: "s0", URL: "http://y"}).Result, ServerReplaced)
}

// The largest records must come through a command and a snapshot.
func TestLargestRecordsFit(t *testing.T) {
	f := seeded(t)
	text := strings.Repeat("<", MaxVenvText) // six bytes each as JSON
	want(t, "text", addVenv(t, f, text).Result, VenvAdded)
	lock := bytes.Repeat([]byte{0xff}, MaxLock)
	want(t, "lock", do[VenvOutcome](t, f, RecordBuild{ID: 1, Node: NodeID(strings.Repeat("n", maxText)), Lock: lock}).Result, BuildRecorded)
	source := put("f", 1)
	source.Source, source.Doc = strings.Repeat("x\n", MaxSource/2), strings.Repeat("d", maxDoc)
	want(t, "source", do[FunctionOutcome](t, f, source).Result, FunctionStored)
	for i := range maxBuilt {
		do[VenvOutcome](t, f, RecordBuild{ID: 1, Node: NodeID(fmt.Sprintf("%0*d", maxText, i))})
	}
	copied := restored(t, snapshotOf(t, f.m))
	want(t, "hash", copied.freeze().hash(), f.hash())
	v, _ := View{copied.now.Load()}.Venv(1)
	if !slices.Equal(v.Lock, lock) || v.Text != text {
		t.Error("the record came back changed")
	}
}
