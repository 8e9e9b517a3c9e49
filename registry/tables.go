package registry

import (
	"fmt"

	"github.com/hashicorp/go-memdb"

	"github.com/locusrun/locus/surfaces"
)

// tables is typed access to a transaction over the state. Records are never changed in place;
// a change inserts a new record.
//
// memdb fails only for a wrong schema or type, which is a bug in this package. Such a failure
// panics, and the state machine then aborts the whole transaction.
type tables struct{ txn *memdb.Txn }

func first[T any](t tables, table, index string, key []byte) *T {
	raw, err := t.txn.First(table, index, key)
	if err != nil {
		panic(fmt.Errorf("registry: read %s by %s: %w", table, index, err))
	}
	if raw == nil {
		return nil
	}
	return raw.(*T)
}

// list returns the records of an index in key order; without a key, the whole table.
func list[T any](t tables, table, index string, key ...any) []*T {
	rows := t.rows(table, index, key...)
	var records []*T
	for raw := rows.Next(); raw != nil; raw = rows.Next() {
		records = append(records, raw.(*T))
	}
	return records
}

func (t tables) rows(table, index string, key ...any) memdb.ResultIterator {
	rows, err := t.txn.Get(table, index, key...)
	if err != nil {
		panic(fmt.Errorf("registry: list %s by %s: %w", table, index, err))
	}
	return rows
}

func (t tables) put(table string, record any) {
	if err := t.txn.Insert(table, record); err != nil {
		panic(fmt.Errorf("registry: write %s: %w", table, err))
	}
}

func (t tables) remove(table string, record any) {
	if err := t.txn.Delete(table, record); err != nil {
		panic(fmt.Errorf("registry: delete from %s: %w", table, err))
	}
}

func (t tables) cluster() *cluster {
	return first[cluster](t, tableCluster, indexID, []byte{0})
}

func (t tables) node(id NodeID) *Node {
	return first[Node](t, tableNodes, indexID, textKey(string(id)))
}

func (t tables) nodes() []*Node { return list[Node](t, tableNodes, indexID) }

func (t tables) actor(name string) *Actor {
	return first[Actor](t, tableActors, indexID, textKey(name))
}

func (t tables) actors() []*Actor { return list[Actor](t, tableActors, indexID) }

func (t tables) actorByToken(hash TokenHash) *Actor {
	return first[Actor](t, tableActors, indexToken, textKey(string(hash)))
}

func (t tables) session(key surfaces.SessionKey) *Session {
	return first[Session](t, tableSessions, indexID, sessionKey(key))
}

func (t tables) sessionByName(actor, name string) *Session {
	return first[Session](t, tableSessions, indexName, nameKey(actor, name))
}

func (t tables) sessionsOf(actor string) []*Session {
	return list[Session](t, tableSessions, indexID+"_prefix", textKey(actor))
}

func (t tables) sessionsOn(node NodeID) []*Session {
	return list[Session](t, tableSessions, indexOwner, textKey(string(node)))
}

func (t tables) sessions() []*Session { return list[Session](t, tableSessions, indexID) }

func (t tables) joinToken(id string) *JoinToken {
	return first[JoinToken](t, tableTokens, indexID, textKey(id))
}

func (t tables) joinTokens() []*JoinToken { return list[JoinToken](t, tableTokens, indexID) }

func (t tables) revocation(uri string) *Revocation {
	return first[Revocation](t, tableRevoked, indexID, textKey(uri))
}

func (t tables) revocations() []*Revocation { return list[Revocation](t, tableRevoked, indexID) }

// trust returns the zero value if none was set.
func (t tables) trust() Trust {
	now, _ := valueOf(first[Trust](t, tableTrust, indexID, []byte{0}))
	return now
}

// gossipKeys returns the zero value if none were set.
func (t tables) gossipKeys() GossipKeys {
	now, _ := valueOf(first[GossipKeys](t, tableGossip, indexID, []byte{0}))
	return now
}

func (t tables) reserved(actor, key string) *ReservedKey {
	return first[ReservedKey](t, tableKeys, indexID, nameKey(actor, key))
}

func (t tables) reservedBy(actor string) []*ReservedKey {
	return list[ReservedKey](t, tableKeys, indexID+"_prefix", textKey(actor))
}

func (t tables) countReserved(actor string) (n int) {
	rows := t.rows(tableKeys, indexID+"_prefix", textKey(actor))
	for rows.Next() != nil {
		n++
	}
	return n
}

func (t tables) allReserved() []*ReservedKey { return list[ReservedKey](t, tableKeys, indexID) }

// oldestKeys returns up to n idempotency keys, the oldest first.
func (t tables) oldestKeys(n int) []*ReservedKey {
	rows := t.rows(tableKeys, indexAge)
	var keys []*ReservedKey
	for raw := rows.Next(); raw != nil && len(keys) < n; raw = rows.Next() {
		keys = append(keys, raw.(*ReservedKey))
	}
	return keys
}

func (t tables) venv(id int) *Venv { return first[Venv](t, tableVenvs, indexID, venvKey(id)) }

func (t tables) venvByDigest(digest string) *Venv {
	return first[Venv](t, tableVenvs, indexDigest, textKey(digest))
}

func (t tables) venvs() []*Venv { return list[Venv](t, tableVenvs, indexID) }

func (t tables) function(name string) *Function {
	return first[Function](t, tableFunctions, indexID, textKey(name))
}

func (t tables) functions() []*Function { return list[Function](t, tableFunctions, indexID) }

func (t tables) server(actor, name string) *PrimitiveServer {
	return first[PrimitiveServer](t, tableServers, indexID, nameKey(actor, name))
}

func (t tables) serversOf(actor string) []*PrimitiveServer {
	return list[PrimitiveServer](t, tableServers, indexID+"_prefix", textKey(actor))
}

func (t tables) servers() []*PrimitiveServer { return list[PrimitiveServer](t, tableServers, indexID) }

func (t tables) machine(id string) *Machine {
	return first[Machine](t, tableMachines, indexID, textKey(id))
}

func (t tables) machinesOf(actor string) []*Machine {
	return list[Machine](t, tableMachines, indexName+"_prefix", textKey(actor))
}

func (t tables) machines() []*Machine { return list[Machine](t, tableMachines, indexID) }

// holds reports whether an incarnation may own sessions now.
func (t tables) holds(id NodeID, life Incarnation) bool {
	n := t.node(id)
	return n != nil && n.Incarnation == life && n.State == NodeUp
}

// granted reports whether a grant is the current one of a live session whose owner is up.
// This fences owners with an older epoch or incarnation.
func (t tables) granted(s *Session, g Grant) bool {
	return s.State == SessionLive && s.Grant() == g && t.holds(g.Node, g.Incarnation)
}
