package registry

import (
	"fmt"
	"testing"
	"time"
)

func TestJoinTokenIsForOneKey(t *testing.T) {
	f := seeded(t)
	made := do[CreateTokenOutcome](t, f, CreateToken{ID: "t", Public: "k", Role: "node", NotAfter: 1 << 50, MaxUses: 1})
	want(t, "made", made.Result, TokenCreated)
	first := do[UseTokenOutcome](t, f, UseToken{ID: "t", Key: HashToken("a"), Node: "n7"})
	want(t, "first", first.Result, TokenUsed)
	want(t, "another key", do[UseTokenOutcome](t, f, UseToken{ID: "t", Key: HashToken("b"), Node: "n8"}).Result, TokenSpent)
	again := do[UseTokenOutcome](t, f, UseToken{ID: "t", Key: HashToken("a"), Node: "n9"})
	want(t, "the same key again", again.Result, TokenUsedBefore)
	want(t, "is given the same id", again.Use, first.Use)
	want(t, "revoked", do[RevokeTokenOutcome](t, f, RevokeToken{ID: "t"}).Result, TokenWithdrawn)
	want(t, "after that", do[UseTokenOutcome](t, f, UseToken{ID: "t", Key: HashToken("a"), Node: "n7"}).Result, TokenWithdrawn)

	// A token is forgotten a week after its end, when others are made.
	f.later = 1<<50 + weeks
	do[CreateTokenOutcome](t, f, CreateToken{ID: "u", Public: "k", Role: "node", NotAfter: f.later + 1, MaxUses: 1})
	want(t, "tokens", len(f.view().Tokens()), 1)
	// One without a real end is not.
	do[CreateTokenOutcome](t, f, CreateToken{ID: "v", Public: "k", Role: "node", NotAfter: 1<<63 - 1, MaxUses: 1})
	do[CreateTokenOutcome](t, f, CreateToken{ID: "w", Public: "k", Role: "node", NotAfter: f.later + 1, MaxUses: 1})
	want(t, "tokens", len(f.view().Tokens()), 3)
}

func TestJoinTokensAreBounded(t *testing.T) {
	f := seeded(t)
	for i := range MaxJoinTokens {
		do[CreateTokenOutcome](t, f, CreateToken{ID: fmt.Sprint(i), Public: "k", Role: "node", NotAfter: 1 << 50, MaxUses: 1})
	}
	over := CreateToken{ID: "over", Public: "k", Role: "node", NotAfter: 1 << 51, MaxUses: 1}
	want(t, "one too many", do[CreateTokenOutcome](t, f, over).Result, TooManyTokens)
	f.later = 1<<50 + 2*weeks
	want(t, "later", do[CreateTokenOutcome](t, f, over).Result, TokenCreated)
}

func TestDrainingNodeTakesNothingNew(t *testing.T) {
	f := seeded(t)
	s := claim(t, f, key("ada", 1), "x")
	want(t, "drain", do[NodeOutcome](t, f, DrainNode{ID: "n1", Draining: true}).Node.Draining, true)
	want(t, "new session", do[ClaimOutcome](t, f, ClaimSession{Key: key("ada", 2), Owner: "n1", Incarnation: 1}).Result, ClaimDraining)
	// What it has goes on, and is rebuilt in place when its process dies.
	rebuilt := do[RebuildOutcome](t, f, RebuildSession{Key: s.Key, Expected: s.Epoch, Owner: "n1", Incarnation: 1, Reason: LossProcessDied})
	want(t, "own session", rebuilt.Result, Rebuilt)
	other := do[ClaimOutcome](t, f, ClaimSession{Key: key("ada", 3), Owner: "n2", Incarnation: 1}).Session
	do[MarkLostOutcome](t, f, MarkLost{Key: other.Key, Grant: other.Grant(), Reason: LossProcessDied})
	taken := do[RebuildOutcome](t, f, RebuildSession{Key: other.Key, Expected: other.Epoch, Owner: "n1", Incarnation: 1})
	want(t, "another's session", taken.Result, RebuildDraining)
	do[RegisterOutcome](t, f, RegisterNode{ID: "n1"})
	n, _ := f.view().Node("n1")
	want(t, "after a restart", n.Draining, true)
}

func TestOperatorsLabelsStand(t *testing.T) {
	f := seeded(t)
	zone := func() string { n, _ := f.view().Node("n1"); return n.Labels["zone"] }
	want(t, "the node's own", zone(), "z")
	do[NodeOutcome](t, f, LabelNode{ID: "n1", Labels: map[string]string{"zone": "y"}})
	want(t, "the operator's", zone(), "y")
	do[RegisterOutcome](t, f, RegisterNode{ID: "n1", Labels: map[string]string{"zone": "z"}})
	want(t, "after a restart", zone(), "y")
	do[NodeOutcome](t, f, LabelNode{ID: "n1"})
	want(t, "given back", zone(), "")
	do[RegisterOutcome](t, f, RegisterNode{ID: "n1", Labels: map[string]string{"zone": "z"}})
	want(t, "the node's own again", zone(), "z")
	want(t, "nobody's", do[NodeOutcome](t, f, LabelNode{ID: "n9"}).Result, NodeUnknown)
}

func TestServingNodeIsNotRemoved(t *testing.T) {
	f := seeded(t)
	s := claim(t, f, key("ada", 1), "x")
	want(t, "up", do[NodeOutcome](t, f, RemoveNode{ID: "n1"}).Result, NodeServing)
	do[MarkNodeOutcome](t, f, MarkNode{ID: "n1", Incarnation: 1, State: NodeUnreachable})
	want(t, "unreachable", do[NodeOutcome](t, f, RemoveNode{ID: "n1"}).Result, NodeServing)
	want(t, "another life stopped", do[NodeOutcome](t, f, RemoveNode{ID: "n1", Stopped: 2}).Result, NodeServing)
	gone := do[NodeOutcome](t, f, RemoveNode{ID: "n1", Stopped: 1})
	want(t, "stopped", gone.Result, NodeChanged)
	want(t, "sessions lost", gone.Lost, 1)
	lost, _ := f.view().Session(s.Key)
	want(t, "reason", lost.Loss.Reason, LossNodeRemoved)
	want(t, "again", do[NodeOutcome](t, f, RemoveNode{ID: "n1"}).Result, NodeUnknown)
	// A life is never given out twice.
	want(t, "the id comes back", do[RegisterOutcome](t, f, RegisterNode{ID: "n1"}).Incarnation, Incarnation(2))
	do[MarkNodeOutcome](t, f, MarkNode{ID: "n2", Incarnation: 1, State: NodeExpired})
	want(t, "expired", do[NodeOutcome](t, f, RemoveNode{ID: "n2"}).Result, NodeChanged)
}

func TestIdempotencyKeys(t *testing.T) {
	f := seeded(t)
	c := ReserveKey{Actor: "ada", Key: "k", Digest: "d", CallID: "call-1", Home: "n1"}
	want(t, "first", do[ReserveKeyOutcome](t, f, c).Result, KeyReserved)
	c.CallID, c.Home = "call-2", "n2"
	again := do[ReserveKeyOutcome](t, f, c)
	want(t, "same", again.Result, KeySame)
	want(t, "the first call stands", again.Reserved.CallID, "call-1")
	c.Digest = "e"
	want(t, "other arguments", do[ReserveKeyOutcome](t, f, c).Result, KeyConflict)
	f.later += Timestamp(24 * time.Hour)
	want(t, "a day later", do[ReserveKeyOutcome](t, f, c).Result, KeyReserved)
	do[EndActorOutcome](t, f, EndActor{Name: "ada"})
	want(t, "of an ended actor", len(f.view().tables().allReserved()), 0)
	want(t, "for an ended actor", do[ReserveKeyOutcome](t, f, c).Result, KeyNoActor)
}

// In a mesh with a node of the first release, keys are dropped as that release does.
func TestKeysAtLevelOne(t *testing.T) {
	f := seededAt(t, 1)
	c := ReserveKey{Actor: "ada", Digest: "d", CallID: "call", Home: "n1"}
	for i := range 1025 {
		c.Key = fmt.Sprint(i)
		want(t, c.Key, do[ReserveKeyOutcome](t, f, c).Result, KeyReserved)
	}
	want(t, "bounded", len(f.view().tables().allReserved()), 1024)
	_, there := f.view().ReservedKey("ada", "0")
	want(t, "the oldest is there", there, false)
	_, there = f.view().ReservedKey("ada", "1")
	want(t, "the next one is there", there, true)
}

// At the limit a new key is refused. Dropping an older one for it would let that one's call
// run twice.
func TestAKeyInForceIsNeverDroppedForAnother(t *testing.T) {
	f := seeded(t)
	do[CreateActorOutcome](t, f, CreateActor{Name: "bob", ID: "actor-2"})
	c := ReserveKey{Actor: "ada", Digest: "d", CallID: "call", Home: "n1"}
	first := f.later + Timestamp(1000*f.index)
	txn := f.m.db.Txn(true)
	for i := range MaxKeys {
		made := ReservedKey{Actor: c.Actor, Key: fmt.Sprint(i), Digest: c.Digest, CallID: c.CallID, Home: c.Home, At: first + Timestamp(i)}
		tables{txn}.put(tableKeys, &made)
	}
	txn.Commit()
	c.Key = "more"
	refused := do[ReserveKeyOutcome](t, f, c)
	want(t, "at the limit", refused.Result, KeyLimit)
	want(t, "the oldest key", refused.Reserved.Key, "0")
	want(t, "its time", refused.Reserved.At, first)
	c.Key = "0"
	want(t, "the oldest again", do[ReserveKeyOutcome](t, f, c).Result, KeySame)
	c.Actor = "bob"
	want(t, "another actor's", do[ReserveKeyOutcome](t, f, c).Result, KeyReserved)

	f.later += Timestamp(24 * time.Hour)
	c.Actor, c.Key = "ada", "more"
	want(t, "a day later", do[ReserveKeyOutcome](t, f, c).Result, KeyReserved)
	if left := len(f.view().tables().reservedBy("ada")); left > MaxKeys {
		t.Fatalf("%d keys are kept", left)
	}
}

func TestRecoveryOutdatesEverything(t *testing.T) {
	f := seeded(t)
	s := claim(t, f, key("ada", 1), "x")
	out := do[recoverOutcome](t, f, recoverMesh{})
	want(t, "outcome", out, recoverOutcome{Recovery: 1, Lost: 1})
	lost, _ := f.view().Session(s.Key)
	want(t, "reason", lost.Loss.Reason, LossMeshRecovered)
	want(t, "old life", do[ClaimOutcome](t, f, ClaimSession{Key: s.Key, Owner: "n1", Incarnation: 1}).Result, ClaimNotCurrent)
	life := do[RegisterOutcome](t, f, RegisterNode{ID: "n1"}).Incarnation
	if life <= lostLives {
		t.Fatalf("life %d may have been given out by the part of the log that is gone", life)
	}
	again := do[ClaimOutcome](t, f, ClaimSession{Key: s.Key, Owner: "n1", Incarnation: life})
	if again.Result != Claimed || again.Session.Epoch < 1<<recoveryShift {
		t.Fatalf("%+v", again)
	}
}
