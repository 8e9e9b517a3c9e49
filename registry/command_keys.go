package registry

import (
	"cmp"
	"slices"

	"github.com/locusrun/locus/surfaces"
)

// ReserveKey binds an actor's idempotency key to a call, unless it is bound already.
type ReserveKey struct {
	Proposal `json:"-"`
	Actor    string `json:"actor"`
	Key      string `json:"key"`
	// Digest is that of the call's arguments.
	Digest string `json:"digest"`
	CallID string `json:"call_id"`
	// Home is the node that holds the call's record.
	Home NodeID `json:"home"`
}

// ReserveKeyResult is the result of a ReserveKey.
type ReserveKeyResult string

const (
	// KeyReserved: the key is bound to this call now.
	KeyReserved ReserveKeyResult = "reserved"
	// KeySame: the key is bound to an earlier call with the same digest.
	KeySame ReserveKeyResult = "same"
	// KeyConflict: the key is bound to an earlier call with another digest.
	KeyConflict ReserveKeyResult = "conflict"
	// KeyNoActor: the actor does not exist or has ended.
	KeyNoActor ReserveKeyResult = "no_actor"
	// KeyLimit: the actor has MaxKeys keys that are in force.
	KeyLimit ReserveKeyResult = "limit"
)

// ReserveKeyOutcome answers ReserveKey. Reserved is the call that the key is bound to; for
// KeyLimit it is the actor's oldest key, whose expiry makes room.
type ReserveKeyOutcome struct {
	Result   ReserveKeyResult `json:"result"`
	Reserved ReservedKey      `json:"reserved,omitzero"`
}

func (ReserveKey) kind() kind { return kindReserveKey }

func (c ReserveKey) bounds() error {
	return checkBounds(isToken(c.Actor, maxText), isToken(c.Key, maxKey), isToken(c.Digest, maxText),
		isToken(c.CallID, maxText), isToken(string(c.Home), maxText))
}

func (c ReserveKey) apply(t tables, m moment) any {
	if a := t.actor(c.Actor); a == nil || a.Ended() {
		return ReserveKeyOutcome{Result: KeyNoActor}
	}
	if have := t.reserved(c.Actor, c.Key); have != nil && !have.forgotten(m.at) {
		if have.Digest != c.Digest {
			return ReserveKeyOutcome{KeyConflict, *have}
		}
		return ReserveKeyOutcome{KeySame, *have}
	}
	t.forgetKeys(m.at)
	if meshLevel(t) < levelBounded {
		t.dropOldestKey(c.Actor)
	} else if oldest := t.keyInTheWay(c.Actor, m.at); oldest != nil {
		return ReserveKeyOutcome{KeyLimit, *oldest}
	}
	made := ReservedKey{Actor: c.Actor, Key: c.Key, Digest: c.Digest, CallID: c.CallID, Home: c.Home, At: m.at}
	t.put(tableKeys, &made)
	return ReserveKeyOutcome{KeyReserved, made}
}

func (k ReservedKey) forgotten(now Timestamp) bool { return k.At <= now-Timestamp(surfaces.KeyLife) }

// keyInTheWay returns the oldest key of an actor that has MaxKeys of them; nil if there is
// room. A key that is in force is never dropped for another one: its call would run twice.
func (t tables) keyInTheWay(actor string, now Timestamp) *ReservedKey {
	if t.countReserved(actor) < MaxKeys {
		return nil
	}
	left := slices.DeleteFunc(t.reservedBy(actor), func(k *ReservedKey) bool {
		old := k.forgotten(now)
		if old {
			t.remove(tableKeys, k)
		}
		return old
	})
	if len(left) < MaxKeys {
		return nil
	}
	return slices.MinFunc(left, byAge)
}

// dropOldestKey is the rule below levelBounded: the oldest of many keys makes room, also one
// that is in force.
func (t tables) dropOldestKey(actor string) {
	const limit = 1024
	if own := t.reservedBy(actor); len(own) >= limit {
		t.remove(tableKeys, slices.MinFunc(own, byAge))
	}
}

func byAge(a, b *ReservedKey) int { return cmp.Compare(a.At, b.At) }

// forgetKeys removes some expired keys of any actor, a few with each new reservation.
func (t tables) forgetKeys(now Timestamp) {
	for _, old := range t.oldestKeys(forgetAtOnce) {
		if old.forgotten(now) {
			t.remove(tableKeys, old)
		}
	}
}
