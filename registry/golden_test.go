package registry

import (
	"encoding/hex"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/locusrun/locus/surfaces"
)

// What version 1 wrote must be readable for ever: testdata/log-1 has one command
// of every kind in hexadecimal, testdata/snapshot-1 the state after them. When
// this test fails the format has changed. Raise its version, keep reading the old
// one, and add files; do not replace these.
const goldenHash = "20d481196ce9e47149aa5962b8375417bfe8c19d8149764660fa069b0ea20d44"

var writeGolden = flag.Bool("write-golden", false, "write the files of a new version")

func goldenCommands() []command {
	k := surfaces.SessionKey{Actor: "ada", Language: surfaces.Bash, ID: 1}
	venv := surfaces.SessionKey{Actor: "ada", Language: surfaces.Python, Venv: 3, ID: 0}
	return []command{
		initCluster{ID: "mesh", Level: 1},
		RegisterNode{ID: "n1", Name: "one", Addr: "[::1]:7", Labels: map[string]string{"zone": "z<é>"}, Voter: true},
		RegisterNode{ID: "n2", Name: "two"},
		CreateActor{Name: "ada", ID: "a-1", Token: HashToken("one")},
		CreateActor{Name: "bob", ID: "a-2"},
		AddActorToken{Name: "ada", Token: HashToken("two")},
		RevokeActorToken{Name: "ada", Token: HashToken("one")},
		ClaimSession{Key: k, Name: "x", Owner: "n1", Incarnation: 1},     // 8
		ClaimSession{Key: venv, Name: "y", Owner: "n2", Incarnation: 1},  // 9
		MarkLost{Key: k, Grant: Grant{"n1", 1, 8}, Reason: LossTimeout},  // 10
		RebuildSession{Key: k, Expected: 8, Owner: "n1", Incarnation: 1}, // 11
		AckLoss{Key: k, Grant: Grant{"n1", 1, 11}, Lost: 8},
		TouchSessions{Owner: "n1", Incarnation: 1, Touches: []Touch{{Key: k, Epoch: 11, LastUsedAt: 1 << 60, Calls: 9}}},
		RenameSession{Key: k, Name: "z", Expected: 11},
		MarkNode{ID: "n2", Incarnation: 1, State: NodeUnreachable},
		ClaimSession{Key: key("ada", 5), Owner: "n1", Incarnation: 1},
		CloseSession{Key: key("ada", 5), Grant: Grant{"n1", 1, 16}},
		EndActor{Name: "bob"},
		RegisterNode{ID: "n3", HTTP: "[::1]:8", Version: "1.2", Languages: []string{"python", "bash"},
			Capacity: Capacity{MaxSessions: 9, CPUs: 1.5, MemoryBytes: 1 << 30}},
		CreateActor{Name: "root", ID: "a-3", Operator: true},
		CreateToken{ID: "t", Public: "AAAA", Role: "vm", NotAfter: 1 << 60, MaxUses: 2, Labels: map[string]string{"a": "b"}, Owner: "o", Issuer: "i"},
		CreateToken{ID: "u", Public: "BBBB", Role: "node", NotAfter: 1 << 60, MaxUses: 1},
		UseToken{ID: "t", Key: HashToken("spki"), Node: "n9"},
		RevokeToken{ID: "u"},
		RevokeIdentity{URI: "locus://mesh/node/n8", Until: 1 << 61},
		SetTrust{Phase: "steady", Roots: [][]byte{{1, 2, 3}}},
		SetGossipKeys{Keys: [][]byte{[]byte("0123456789abcdef")}},
		DrainNode{ID: "n1", Draining: true},
		LabelNode{ID: "n1", Labels: map[string]string{"zone": "y"}},
		ReserveKey{Actor: "ada", Key: "once", Digest: "d", CallID: "c", Home: "n1"},
		RemoveNode{ID: "n3", Stopped: 1},
		recoverMesh{},
		RegisterNode{ID: "n2"},
		ClaimSession{Key: key("ada", 6), Owner: "n2", Incarnation: 1 + 1<<20 + 1},
		ReserveKey{Actor: "ada", Key: "twice", Digest: "d", CallID: "c", Home: "n1"},
		AddVenv{Name: "ml", Text: "[project]\nname = \"ml\"\n", Digest: string(HashToken("ml")), CreatedBy: "ada"},
		AddVenv{Name: "web", Text: "[project]", Digest: string(HashToken("web")), CreatedBy: "ada"},
		RecordBuild{ID: 1, Node: "n1", Lock: []byte{1, 2, 3}},
		RecordBuild{ID: 1, Node: "n2", Lock: []byte{4}},
		DropBuild{ID: 1, Node: "n1"},
		RemoveVenv{ID: 2},
		PutFunction{Name: "f", Source: "async def f(a): ...", Venv: 1, Entry: "f", Signature: "(a)", Doc: "F.", Async: true,
			Needs: []string{"g"}, Digest: string(HashToken("f")), CreatedBy: "ada"},
		PutFunction{Name: "g", Source: "def g(): ...", Entry: "g", Digest: string(HashToken("g")), CreatedBy: "ada"},
		RemoveFunction{Name: "g"},
		PutServer{Actor: "ada", Name: "files", Command: []string{"mcp", "-v"}, Env: map[string]string{"A": "B"}, Allow: []string{"read"}},
		PutServer{Actor: "ada", Name: "web", URL: "https://x", Headers: map[string]string{"H": "v"}},
		PutServer{Actor: "ada", Name: "gone", URL: "https://x"},
		RemoveServer{Actor: "ada", Name: "gone"},
		CreateToken{ID: "v", Public: "CCCC", Role: "link", NotAfter: 1 << 60, MaxUses: 2, Owner: "ada"},
		UseToken{ID: "v", Key: HashToken("laptop"), Node: "m1"},
		UseToken{ID: "v", Key: HashToken("desk"), Node: "m2"},
		LinkMachine{ID: "m1", Token: "v", Name: "laptop"},
		LinkMachine{ID: "m2", Token: "v", Name: "laptop"},
		ConnectMachine{ID: "m1", Hub: "n2", HubIncarnation: 1 + 1<<20 + 1, Facts: MachineFacts{OS: "linux", Arch: "amd64", Version: "1", Languages: []string{"sh"}, Consent: "asks"}},
		DisconnectMachine{ID: "m1", Hub: "n9", HubIncarnation: 1},
		UnlinkMachine{ID: "m2", URI: "locus://mesh/link/m2", Until: 1 << 61},
	}
}

func TestFormatsAreUnchanged(t *testing.T) {
	f := newFeed()
	var lines []string
	kinds := map[kind]bool{}
	for i, c := range goldenCommands() {
		lines = append(lines, hex.EncodeToString(entry(t, uint64(i+1), c).Data))
		kinds[c.kind()] = true
		do[any](t, f, c)
	}
	for k := range specs {
		if want := k.since() == 1; kinds[k] != want { // a new kind is of a new level, and of new files
			t.Errorf("kind %d is in the files: %v, want %v", k, kinds[k], want)
		}
	}
	if *writeGolden {
		for name, content := range map[string][]byte{"log-1": []byte(strings.Join(lines, "\n") + "\n"), "snapshot-1": snapshotOf(t, f.m)} {
			if err := os.WriteFile("testdata/"+name, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}

	log, err := os.ReadFile("testdata/log-1")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "what this version writes", strings.Join(lines, "\n"), strings.TrimSpace(string(log)))
	old := newFeed()
	for i, line := range strings.Fields(string(log)) {
		data, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		if answer := old.m.Apply(&raft.Log{Index: uint64(i + 1), Data: data}).(reply); answer.verdict != accepted {
			t.Fatalf("line %d: verdict %d", i+1, answer.verdict)
		}
	}
	hash := old.hash()
	want(t, "hash after the log", hex.EncodeToString(hash[:]), goldenHash)

	snapshot, err := os.ReadFile("testdata/snapshot-1")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "hash of the snapshot", restored(t, snapshot).freeze().hash(), hash)
}
