package registry

import (
	"fmt"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestClaimMakesOneOwnerPerKey(t *testing.T) {
	f := seeded(t)
	s := claim(t, f, key("ada", 1), "loader")
	want(t, "epoch", s.Epoch, Epoch(f.index))
	want(t, "state", s.State, SessionLive)

	again := do[ClaimOutcome](t, f, ClaimSession{Key: s.Key, Owner: "n2", Incarnation: 1})
	want(t, "second claim", again, ClaimOutcome{Result: AlreadyOwned, Session: s})
	stale := do[ClaimOutcome](t, f, ClaimSession{Key: s.Key, Expected: s.Epoch + 1, Owner: "n2", Incarnation: 1})
	want(t, "claim of another epoch", stale.Result, ClaimStale)
	absent := do[ClaimOutcome](t, f, ClaimSession{Key: key("ada", 9), Expected: 1, Owner: "n2", Incarnation: 1})
	want(t, "claim of an epoch of nothing", absent.Result, ClaimStale)

	// The same id in another language or environment is another session.
	shell, venv := s.Key, s.Key
	shell.Language, venv.Venv = surfaces.Bash, 3
	claim(t, f, shell, "")
	claim(t, f, venv, "")
	want(t, "sessions", len(f.view().SessionsOf("ada")), 3)
}

func TestClaimNeedsALivingOwnerAndActor(t *testing.T) {
	f := seeded(t)
	for name, c := range map[string]struct {
		claim ClaimSession
		want  ClaimResult
	}{
		"unknown node":  {ClaimSession{Key: key("ada", 1), Owner: "n9", Incarnation: 1}, ClaimNotCurrent},
		"earlier life":  {ClaimSession{Key: key("ada", 1), Owner: "n1", Incarnation: 7}, ClaimNotCurrent},
		"unknown actor": {ClaimSession{Key: key("bob", 1), Owner: "n1", Incarnation: 1}, ClaimNoActor},
	} {
		want(t, name, do[ClaimOutcome](t, f, c.claim).Result, c.want)
	}
	do[MarkNodeOutcome](t, f, MarkNode{ID: "n1", Incarnation: 1, State: NodeUnreachable})
	want(t, "unreachable node", do[ClaimOutcome](t, f, ClaimSession{Key: key("ada", 1), Owner: "n1", Incarnation: 1}).Result, ClaimNotCurrent)
	do[EndActorOutcome](t, f, EndActor{Name: "ada"})
	want(t, "ended actor", do[ClaimOutcome](t, f, ClaimSession{Key: key("ada", 1), Owner: "n2", Incarnation: 1}).Result, ClaimNoActor)
}

func TestNamesLeadToOneKey(t *testing.T) {
	f := seeded(t)
	do[CreateActorOutcome](t, f, CreateActor{Name: "bob", ID: "actor-2"})
	one, two := claim(t, f, key("ada", 1), "x"), claim(t, f, key("ada", 2), "y")
	claim(t, f, key("bob", 1), "x") // another actor's names are its own

	taken := do[ClaimOutcome](t, f, ClaimSession{Key: key("ada", 3), Name: "x", Owner: "n1", Incarnation: 1})
	want(t, "claim", taken, ClaimOutcome{Result: NameTaken, Session: one})
	rename := do[RenameOutcome](t, f, RenameSession{Key: two.Key, Name: "x"})
	want(t, "rename", rename, RenameOutcome{Result: RenameTaken, Session: one})
	want(t, "rename to itself", do[RenameOutcome](t, f, RenameSession{Key: one.Key, Name: "x"}).Result, Renamed)

	want(t, "rename away", do[RenameOutcome](t, f, RenameSession{Key: one.Key}).Result, Renamed)
	want(t, "rename to a freed name", do[RenameOutcome](t, f, RenameSession{Key: two.Key, Name: "x"}).Result, Renamed)
	got, ok := f.view().SessionByName("ada", "x")
	want(t, "name leads somewhere", ok, true)
	want(t, "name leads to", got.Key, two.Key)
	_, ok = f.view().SessionByName("ada", "y")
	want(t, "old name leads somewhere", ok, false)

	// A lost session keeps its name, a closed one gives it back.
	do[MarkLostOutcome](t, f, MarkLost{Key: two.Key, Grant: two.Grant(), Reason: LossProcessDied})
	want(t, "name of a lost session", do[RenameOutcome](t, f, RenameSession{Key: one.Key, Name: "x"}).Result, RenameTaken)
	differs := do[ClaimOutcome](t, f, ClaimSession{Key: two.Key, Name: "z", Owner: "n1", Incarnation: 1})
	want(t, "take over under another name", differs.Result, NameDiffers)
	do[CloseOutcome](t, f, CloseSession{Key: two.Key})
	want(t, "name of a closed session", do[RenameOutcome](t, f, RenameSession{Key: one.Key, Name: "x"}).Result, Renamed)
}

func TestLimitCountsAllButThePlan(t *testing.T) {
	f := seeded(t)
	claim(t, f, key("ada", 0), "")
	var sessions []Session
	for i := 1; i <= MaxSessions; i++ {
		sessions = append(sessions, claim(t, f, key("ada", i), fmt.Sprint("s", i)))
	}
	// The plan is the least recently used of all, but it is not in the way.
	want(t, "the plan's own", f.view().SessionsOf("ada")[0].Key.IsPlan(), true)
	do[TouchOutcome](t, f, TouchSessions{Owner: "n1", Incarnation: 1, Touches: []Touch{
		{Key: sessions[0].Key, Epoch: sessions[0].Epoch, LastUsedAt: 1 << 40, Calls: 3}}})
	over := ClaimSession{Key: key("ada", 21), Owner: "n1", Incarnation: 1}
	want(t, "21st", do[ClaimOutcome](t, f, over), ClaimOutcome{Result: LimitReached, Session: sessions[1]})

	// A lost session still has its place, and taking it over needs no other.
	do[MarkLostOutcome](t, f, MarkLost{Key: sessions[4].Key, Grant: sessions[4].Grant(), Reason: LossProcessDied})
	want(t, "21st beside a lost one", do[ClaimOutcome](t, f, over).Result, LimitReached)
	claim(t, f, sessions[4].Key, "")
	do[CloseOutcome](t, f, CloseSession{Key: sessions[7].Key})
	claim(t, f, over.Key, "")
}

func TestRestartedNodeLosesItsSessionsAndKeepsNames(t *testing.T) {
	f := seeded(t)
	live, held := claim(t, f, key("ada", 1), "x"), claim(t, f, key("ada", 2), "y")
	other := do[ClaimOutcome](t, f, ClaimSession{Key: key("ada", 3), Owner: "n2", Incarnation: 1}).Session

	got := do[RegisterOutcome](t, f, RegisterNode{ID: "n1"})
	want(t, "registration", got, RegisterOutcome{Incarnation: 2, Lost: 2})
	for _, s := range []Session{live, held} {
		lost, _ := f.view().SessionByName("ada", s.Name)
		want(t, "key", lost.Key, s.Key)
		want(t, "state", lost.State, SessionLost)
		want(t, "loss", lost.Loss, Loss{Reason: LossNodeRestarted, At: Timestamp(1000 * f.index), Epoch: s.Epoch})
	}
	kept, _ := f.view().Session(other.Key)
	want(t, "another node's session", kept, other)
	want(t, "third life", do[RegisterOutcome](t, f, RegisterNode{ID: "n1"}), RegisterOutcome{Incarnation: 3})
}

func TestNodeStatesMoveItsSessions(t *testing.T) {
	f := seeded(t)
	s := claim(t, f, key("ada", 1), "x")
	state := func() SessionState { got, _ := f.view().Session(s.Key); return got.State }
	mark := func(to NodeState) MarkNodeOutcome {
		return do[MarkNodeOutcome](t, f, MarkNode{ID: "n1", Incarnation: 1, State: to})
	}
	want(t, "unreachable", mark(NodeUnreachable), MarkNodeOutcome{Result: NodeMarked, Sessions: 1})
	want(t, "held", state(), SessionUnreachable)
	want(t, "back in time", mark(NodeUp), MarkNodeOutcome{Result: NodeMarked, Sessions: 1})
	want(t, "nothing was lost", state(), SessionLive)
	got, _ := f.view().Session(s.Key)
	want(t, "no loss", got.Loss, Loss{})
	want(t, "expired", mark(NodeExpired), MarkNodeOutcome{Result: NodeMarked, Sessions: 1})
	want(t, "lost", state(), SessionLost)
	want(t, "expiry is final", mark(NodeUp), MarkNodeOutcome{Result: NodeNotCurrent})
	want(t, "expired again", mark(NodeExpired), MarkNodeOutcome{Result: NodeMarked})
	want(t, "another life", do[MarkNodeOutcome](t, f, MarkNode{ID: "n1", Incarnation: 2, State: NodeUp}).Result, NodeNotCurrent)
}

func TestALifeThatEndsByItself(t *testing.T) {
	f := seeded(t)
	s := claim(t, f, key("ada", 1), "x")
	out := do[MarkNodeOutcome](t, f, MarkNode{ID: s.Owner, Incarnation: s.Incarnation, State: NodeExpired, Stopped: true})
	want(t, "stopped", out, MarkNodeOutcome{Result: NodeMarked, Sessions: 1})
	lost, _ := f.view().Session(s.Key)
	want(t, "why", lost.Loss.Reason, LossNodeStopped)
}

func TestLossIsToldOnce(t *testing.T) {
	f := seeded(t)
	s := claim(t, f, key("ada", 1), "x")
	do[MarkLostOutcome](t, f, MarkLost{Key: s.Key, Grant: s.Grant(), Reason: LossProcessDied})
	want(t, "nobody serves it yet", do[AckOutcome](t, f, AckLoss{Key: s.Key, Grant: s.Grant(), Lost: s.Epoch}).Result, AckStale)

	again := do[RebuildOutcome](t, f, RebuildSession{Key: s.Key, Expected: s.Epoch, Owner: "n2", Incarnation: 1})
	want(t, "rebuild", again.Result, Rebuilt)
	now := again.Session
	want(t, "name", now.Name, "x")
	want(t, "grows", now.Epoch > s.Epoch, true)
	want(t, "loss", now.Loss.Epoch, s.Epoch)

	ack := AckLoss{Key: s.Key, Grant: now.Grant(), Lost: s.Epoch}
	want(t, "old owner", do[AckOutcome](t, f, AckLoss{Key: s.Key, Grant: s.Grant(), Lost: s.Epoch}).Result, AckStale)
	first := do[AckOutcome](t, f, ack)
	want(t, "first", first.Result, TellLoss)
	want(t, "reason", first.Loss.Reason, LossProcessDied)
	want(t, "second", do[AckOutcome](t, f, ack).Result, AlreadyTold)
	want(t, "another loss", do[AckOutcome](t, f, AckLoss{Key: s.Key, Grant: now.Grant(), Lost: 1}).Result, AckNoLoss)

	// The owner may rebuild a live session at once, and only it, and only with a reason.
	rebuild := RebuildSession{Key: s.Key, Expected: now.Epoch, Owner: "n2", Incarnation: 1}
	want(t, "without a reason", do[RebuildOutcome](t, f, rebuild).Result, StillOwned)
	rebuild.Reason = LossTimeout
	thief := rebuild
	thief.Owner = "n1"
	want(t, "by another node", do[RebuildOutcome](t, f, thief).Result, StillOwned)
	third := do[RebuildOutcome](t, f, rebuild)
	want(t, "with a reason", third.Result, Rebuilt)
	want(t, "a new loss is untold", third.Session.Loss, Loss{Reason: LossTimeout, At: Timestamp(1000 * f.index), Epoch: now.Epoch})
	want(t, "twice", do[RebuildOutcome](t, f, rebuild).Result, RebuildStale)
}

// Actors that come and go leave no more than MaxEndedActors records.
func TestEndedActorsAreForgotten(t *testing.T) {
	f := seeded(t)
	const more = 3
	name := func(i int) string { return fmt.Sprintf("task-%04d", MaxEndedActors+more-i) } // not in the order of their ends
	for i := range MaxEndedActors + more {
		do[CreateActorOutcome](t, f, CreateActor{Name: name(i), ID: fmt.Sprint(i), Token: HashToken(name(i))})
		want(t, name(i), do[EndActorOutcome](t, f, EndActor{Name: name(i)}).Result, ActorEnded)
	}
	want(t, "actors", len(f.view().Actors()), MaxEndedActors+1)
	for i := range MaxEndedActors + more {
		_, there := f.view().Actor(name(i))
		want(t, name(i), there, i >= more)
	}
	want(t, "a forgotten one", do[EndActorOutcome](t, f, EndActor{Name: name(0)}).Result, ActorNotFound)
	want(t, "a kept one", do[EndActorOutcome](t, f, EndActor{Name: name(more)}).Result, ActorAlreadyEnded)
	want(t, "who has not ended", do[CreateActorOutcome](t, f, CreateActor{Name: "ada", ID: "x"}).Result, ActorExists)

	// By a clock that is behind, one ends before all others. Its own record is kept.
	do[CreateActorOutcome](t, f, CreateActor{Name: "late", ID: "late"})
	f.later -= Timestamp(1000 * f.index)
	do[EndActorOutcome](t, f, EndActor{Name: "late"})
	_, there := f.view().Actor("late")
	want(t, "the record of who ended last", there, true)
}

// In a mesh with a node of the first release, all records are kept, as that release does.
func TestEndedActorsAtLevelOne(t *testing.T) {
	f := seededAt(t, 1)
	for i := range MaxEndedActors + 1 {
		name := fmt.Sprint("task-", i)
		do[CreateActorOutcome](t, f, CreateActor{Name: name, ID: name})
		do[EndActorOutcome](t, f, EndActor{Name: name})
	}
	want(t, "actors", len(f.view().Actors()), MaxEndedActors+2)
}

// A machine's token that its owner had does not pass to the next actor of the name, even if
// the owner's record is no longer kept.
func TestTokensOfAForgottenActorAreWithdrawn(t *testing.T) {
	f := seeded(t)
	do[CreateTokenOutcome](t, f, CreateToken{ID: "t", Public: "p", Role: "link", NotAfter: 1 << 60, MaxUses: 1, Owner: "ada"})
	do[EndActorOutcome](t, f, EndActor{Name: "ada"})
	for i := range MaxEndedActors {
		name := fmt.Sprint("task-", i)
		do[CreateActorOutcome](t, f, CreateActor{Name: name, ID: name})
		do[EndActorOutcome](t, f, EndActor{Name: name})
	}
	_, there := f.view().Actor("ada")
	want(t, "the record", there, false)
	do[CreateActorOutcome](t, f, CreateActor{Name: "ada", ID: "another"})
	want(t, "the token", do[UseTokenOutcome](t, f, UseToken{ID: "t", Key: HashToken("key"), Node: "m"}).Result, TokenWithdrawn)
}

func TestActorsAreBounded(t *testing.T) {
	f := seeded(t) // has one
	txn := f.m.db.Txn(true)
	for i := range MaxActors - 2 {
		tables{txn}.put(tableActors, &Actor{Name: fmt.Sprint("actor-", i), ID: fmt.Sprint(i)})
	}
	txn.Commit()
	want(t, "the last", do[CreateActorOutcome](t, f, CreateActor{Name: "last", ID: "x"}).Result, ActorCreated)
	want(t, "one too many", do[CreateActorOutcome](t, f, CreateActor{Name: "more", ID: "y"}).Result, ActorLimit)
	want(t, "one that is there", do[CreateActorOutcome](t, f, CreateActor{Name: "last", ID: "y"}).Result, ActorExists)
	do[EndActorOutcome](t, f, EndActor{Name: "last"})
	want(t, "in its place", do[CreateActorOutcome](t, f, CreateActor{Name: "more", ID: "y"}).Result, ActorCreated)
}

func TestActorsAndTokens(t *testing.T) {
	f := seeded(t)
	view := f.view()
	by := func(token string) string { a, _ := f.view().ActorByTokenHash(HashToken(token)); return a.Name }
	want(t, "token", by("secret"), "ada")
	want(t, "exists", do[CreateActorOutcome](t, f, CreateActor{Name: "ada", ID: "other"}).Result, ActorExists)
	want(t, "token of another", do[CreateActorOutcome](t, f, CreateActor{Name: "bob", ID: "b", Token: HashToken("secret")}).Result, ActorTokenTaken)
	do[CreateActorOutcome](t, f, CreateActor{Name: "bob", ID: "b"})
	want(t, "steal", do[TokenOutcome](t, f, AddActorToken{Name: "bob", Token: HashToken("secret")}).Result, TokenTaken)
	for i := 1; i < MaxTokens; i++ {
		want(t, "add", do[TokenOutcome](t, f, AddActorToken{Name: "ada", Token: HashToken(fmt.Sprint(i))}).Result, TokenAdded)
	}
	want(t, "one too many", do[TokenOutcome](t, f, AddActorToken{Name: "ada", Token: HashToken("more")}).Result, TokenLimit)
	want(t, "again", do[TokenOutcome](t, f, AddActorToken{Name: "ada", Token: HashToken("7")}).Result, TokenAdded)
	want(t, "revoke", do[TokenOutcome](t, f, RevokeActorToken{Name: "ada", Token: HashToken("7")}).Result, TokenRevoked)
	want(t, "revoke again", do[TokenOutcome](t, f, RevokeActorToken{Name: "ada", Token: HashToken("7")}).Result, TokenNotFound)
	want(t, "revoked", by("7"), "")
	want(t, "others stay", by("8"), "ada")

	s := claim(t, f, key("ada", 1), "x")
	ended := do[EndActorOutcome](t, f, EndActor{Name: "ada"})
	want(t, "end", ended.Result, ActorEnded)
	want(t, "closed", len(ended.Closed), 1)
	want(t, "closed state", ended.Closed[0].State, SessionClosed)
	_, there := f.view().Session(s.Key)
	want(t, "session of an ended actor", there, false)
	want(t, "token of an ended actor", by("secret"), "")
	want(t, "end again", do[EndActorOutcome](t, f, EndActor{Name: "ada"}).Result, ActorAlreadyEnded)
	want(t, "end nobody", do[EndActorOutcome](t, f, EndActor{Name: "eve"}).Result, ActorNotFound)
	want(t, "name used again", do[CreateActorOutcome](t, f, CreateActor{Name: "ada", ID: "actor-9", Token: HashToken("secret")}).Result, ActorCreated)

	// A view taken earlier stays what it was.
	old, _ := view.Actor("ada")
	want(t, "old view", old.ID, "actor-1")
	old.Tokens[0] = "changed"
	same, _ := view.Actor("ada")
	want(t, "views cannot be changed", same.Tokens[0], HashToken("secret"))
}

func TestBoundsAgreeWithTheContract(t *testing.T) {
	want(t, "sessions", MaxSessions, surfaces.MaxSessions)
	want(t, "session names", maxName, surfaces.MaxName)
	want(t, "session ids", maxID, surfaces.MaxSessionID)
}
