package registry

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

func (w world) tend() command {
	id := w.node()
	switch rapid.IntRange(0, 4).Draw(w.t, "tend") {
	case 0:
		return DrainNode{ID: id, Draining: rapid.IntRange(0, 2).Draw(w.t, "draining") == 0}
	case 1:
		labels := rapid.SampledFrom([]map[string]string{nil, {"zone": "a"}, {"zone": "b", "gpu": ""}}).Draw(w.t, "labels")
		return LabelNode{ID: id, Labels: labels}
	case 2:
		return RemoveNode{ID: id, Stopped: rapid.SampledFrom([]Incarnation{0, 0, 0, w.life(id)}).Draw(w.t, "stopped")}
	}
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(w.t, what) }
	again := ReserveKey{Actor: w.actor(), Key: pick("key", "k", "l"), Digest: pick("digest", "1", "2"), CallID: pick("call", "x", "y"), Home: id}
	// A key that is taken is what is worth asking for again: by chance alone it comes
	// too seldom.
	var taken [][2]string
	for by := range w.m.rest.keys {
		taken = append(taken, by)
	}
	if len(taken) > 0 && rapid.IntRange(0, 2).Draw(w.t, "again") > 0 {
		slices.SortFunc(taken, func(a, b [2]string) int { return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1])) })
		by := rapid.SampledFrom(taken).Draw(w.t, "taken")
		again.Actor, again.Key = by[0], by[1]
	}
	return again
}

func (w world) trust() command {
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(w.t, what) }
	id := pick("token", "a", "a", "a", "b")
	now := Timestamp(1000)
	for _, j := range w.m.rest.tokens {
		now = max(now, j.CreatedAt)
	}
	end := now + rapid.SampledFrom([]Timestamp{1, 1 << 40, weeks}).Draw(w.t, "end")
	switch rapid.IntRange(0, 11).Draw(w.t, "trust") {
	case 0, 1:
		role := pick("role", "node", "link", "vm")
		return CreateToken{ID: id, Public: "key", Role: role, Owner: w.actor(), NotAfter: end, MaxUses: rapid.IntRange(1, 2).Draw(w.t, "uses")}
	case 2, 3, 4, 5, 10, 11:
		use := UseToken{ID: id, Key: HashToken(pick("spki", "1", "2", "3", "4")), Node: w.node()}
		// By chance alone a token that lives is used too seldom, and a spent one hardly ever.
		var live []string
		for id, j := range w.m.rest.tokens {
			if j.RevokedAt == 0 && j.NotAfter > now+1<<30 {
				live = append(live, id)
			}
		}
		if slices.Sort(live); len(live) > 0 && rapid.IntRange(0, 2).Draw(w.t, "live") > 0 {
			use.ID = pick("live token", live...)
		}
		return use
	case 6:
		return RevokeToken{ID: id}
	case 7:
		return RevokeIdentity{URI: pick("uri", "u", "v"), Until: end}
	case 8:
		generation := uint64(max(0, int(w.m.rest.trust.Generation)-rapid.IntRange(0, 1).Draw(w.t, "behind")))
		return SetTrust{Generation: generation, Phase: pick("phase", "steady", "both"), Roots: [][]byte{[]byte(pick("root", "r", "s"))}}
	}
	generation := uint64(max(0, int(w.m.rest.gossip.Generation)-rapid.IntRange(0, 1).Draw(w.t, "behind")))
	return SetGossipKeys{Generation: generation, Keys: [][]byte{[]byte(pick("key", "r", "s"))}}
}

func compareRest(t tb, v View, m *model) {
	t.Helper()
	if len(v.Nodes()) != len(m.nodes) {
		t.Fatalf("%d nodes, the model has %d", len(v.Nodes()), len(m.nodes))
	}
	got := newRest()
	for _, j := range v.Tokens() {
		got.tokens[j.ID] = j
	}
	for _, r := range v.tables().revocations() {
		got.revoked[r.URI] = *r
		if !v.Revoked(r.URI) {
			t.Fatalf("%s is listed, and not revoked", r.URI)
		}
	}
	for _, k := range v.tables().allReserved() {
		got.keys[[2]string{k.Actor, k.Key}] = *k
	}
	got.trust, got.gossip, got.shelf = v.Trust(), v.GossipKeys(), m.rest.shelf
	for _, machine := range v.Machines() {
		got.machines[machine.ID] = machine
	}
	if !reflect.DeepEqual(got, m.rest) {
		t.Fatalf("the rest\n got %+v\nwant %+v", got, m.rest)
	}
	compareLibrary(t, v, m)
}
