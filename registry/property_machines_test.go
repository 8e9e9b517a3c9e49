package registry

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func (w world) machines() command {
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(w.t, what) }
	token := pick("token", "a", "a", "b")
	id := pick("machine", "n1", "n2", "n3")
	for _, u := range w.m.rest.tokens[token].Uses {
		id = string(u.Node) // by chance alone too few have joined
	}
	if known := slices.Sorted(maps.Keys(w.m.rest.machines)); len(known) > 0 && rapid.Bool().Draw(w.t, "known") {
		id = rapid.SampledFrom(known).Draw(w.t, "which")
	}
	hub := w.node()
	switch rapid.IntRange(0, 7).Draw(w.t, "machines") {
	case 0, 1, 2:
		return LinkMachine{ID: id, Token: token, Name: pick("name", "x", "x", "y")}
	case 3, 4:
		return ConnectMachine{ID: id, Hub: hub, HubIncarnation: w.life(hub), Facts: MachineFacts{OS: pick("os", "linux", "darwin")}}
	case 5, 6:
		part := DisconnectMachine{ID: id, Hub: hub, HubIncarnation: w.life(hub)}
		if have := w.m.rest.machines[id]; have.Hub != "" && rapid.Bool().Draw(w.t, "own") {
			part.Hub, part.HubIncarnation = have.Hub, have.HubIncarnation
		}
		return part
	}
	return UnlinkMachine{ID: id, URI: "locus://mesh/link/" + id, Until: 1 << 61}
}

var machineResults = []string{"machine:linked", "machine:exists", "machine:no_token", "machine:no_actor", "machine:noted",
	"machine:stale", "machine:unlinked", "machine:unknown"}

func TestMachinesAgreeWithTheModel(t *testing.T) {
	untilSeen(t, machineResults, func(t *rapid.T, saw func(outcome any)) {
		f, m := newFeed(), newModel()
		do[initOutcome](t, f, initCluster{ID: "mesh", Level: level})
		for _, c := range []command{RegisterNode{ID: "n1"}, RegisterNode{ID: "n2"}, CreateActor{Name: "ada", ID: "id"}} {
			run(t, f, m, c)
		}
		for range 100 {
			w := world{t, m}
			c := w.machines()
			switch rapid.IntRange(0, 9).Draw(t, "other") {
			case 0, 1:
				c = w.trust()
			case 2:
				c = rapid.SampledFrom([]command{EndActor{Name: "ada"}, CreateActor{Name: "ada", ID: "id"},
					MarkNode{ID: "n2", Incarnation: w.life("n2"), State: NodeUnreachable}, RegisterNode{ID: "n2"}}).Draw(t, "which")
			}
			saw(run(t, f, m, c))
			compare(t, f.view(), m)
			for _, machine := range f.view().Machines() {
				n := m.nodes[machine.Hub]
				held := machine.Hub != "" && n.State == NodeUp && n.Incarnation == machine.HubIncarnation
				if f.view().MachineConnected(machine) != held {
					t.Fatalf("%+v is held: %v, by node %+v", machine, !held, n)
				}
			}
		}
	})
}

func TestMachinesAreTheirOwners(t *testing.T) {
	f := seeded(t)
	do[CreateTokenOutcome](t, f, CreateToken{ID: "t", Public: "k", Role: "link", NotAfter: 1 << 60, MaxUses: MaxTokenUses, Owner: "ada"})
	do[UseTokenOutcome](t, f, UseToken{ID: "t", Key: HashToken("1"), Node: "m1"})
	do[UseTokenOutcome](t, f, UseToken{ID: "t", Key: HashToken("2"), Node: "m2"})
	link := func(id, name string) MachineOutcome {
		return do[MachineOutcome](t, f, LinkMachine{ID: id, Token: "t", Name: name})
	}
	want(t, "linked", link("m1", "laptop").Machine.Name, "laptop")
	want(t, "again", link("m1", "other").Machine.Name, "laptop")
	want(t, "a name that is taken", link("m2", "laptop").Machine.Name, "laptop-2")
	want(t, "who has not joined", link("m3", "x").Result, MachineNoToken)
	want(t, "theirs", len(f.view().MachinesOf("ada")), 2)
	want(t, "nobody else's", len(f.view().MachinesOf("ad")), 0)

	gone := do[MachineOutcome](t, f, UnlinkMachine{ID: "m2", URI: "locus://mesh/link/m2", Until: 1 << 60})
	want(t, "unlinked", gone.Result, MachineUnlinked)
	want(t, "revoked", f.view().Revoked("locus://mesh/link/m2"), true)
	do[EndActorOutcome](t, f, EndActor{Name: "ada"})
	want(t, "of an actor that is over", len(f.view().Machines()), 0)
	// Whoever bears the name later is somebody else.
	do[CreateActorOutcome](t, f, CreateActor{Name: "ada", ID: "later"})
	want(t, "of the one before", link("m1", "x").Result, MachineNoToken)
	want(t, "a new machine", do[UseTokenOutcome](t, f, UseToken{ID: "t", Key: HashToken("3"), Node: "m3"}).Result, TokenWithdrawn)
}

// An actor and a token for its machine may be written by nodes whose clocks differ a lot: the
// log decides which was first.
func TestMachinesBelongToTheirOwnersDespiteClockSkew(t *testing.T) {
	f := seeded(t)
	f.later = Timestamp(time.Hour)
	do[CreateActorOutcome](t, f, CreateActor{Name: "eve", ID: "e"})
	f.later = 0
	do[CreateTokenOutcome](t, f, CreateToken{ID: "t", Public: "k", Role: "link", NotAfter: 1 << 60, MaxUses: 1, Owner: "eve"})
	do[UseTokenOutcome](t, f, UseToken{ID: "t", Key: HashToken("1"), Node: "m1"})
	want(t, "linked", do[MachineOutcome](t, f, LinkMachine{ID: "m1", Token: "t", Name: "laptop"}).Result, MachineLinked)
}
