package registry

import (
	"github.com/locusrun/locus/surfaces"
)

// View is one consistent, immutable state of the registry. It costs nothing to
// take and never waits for writes. All its methods may be called at the same
// time. On a node that does not lead, a view may be behind; the epoch check at a
// session's owner catches a decision made on a stale one.
type View struct{ g *generation }

func (v View) tables() tables { return tables{v.g.db.Txn(false)} }

// Index gives the log index of the latest command in this view.
func (v View) Index() uint64 { return v.g.index }

// Changed is closed when a newer state than this view exists. Take a view, act on
// it, wait for Changed, take the next: no change is missed, and many may come as
// one. It wakes for every command, also for those that changed nothing, and for every
// change of membership.
func (v View) Changed() <-chan struct{} { return v.g.changed }

// ClusterID gives the identity of the mesh, or "" before it has one.
func (v View) ClusterID() string {
	if c := v.tables().cluster(); c != nil {
		return c.ID
	}
	return ""
}

// Session gives the session of a key, if there is one that is not closed.
func (v View) Session(key surfaces.SessionKey) (Session, bool) {
	return valueOf(v.tables().session(key))
}

// SessionByName gives the session that a name of an actor leads to.
func (v View) SessionByName(actor, name string) (Session, bool) {
	return valueOf(v.tables().sessionByName(actor, name))
}

// SessionsOf lists an actor's sessions, the plan's own included, in the order of
// their keys.
func (v View) SessionsOf(actor string) []Session { return valuesOf(v.tables().sessionsOf(actor)) }

// SessionsOn lists the sessions that a node owns, or owned when they were lost,
// in the order of their keys.
func (v View) SessionsOn(node NodeID) []Session { return valuesOf(v.tables().sessionsOn(node)) }

// Serving counts the sessions that a node owns and has not lost.
func (v View) Serving(node NodeID) int {
	n := 0
	for _, s := range v.tables().sessionsOn(node) {
		if s.State != SessionLost {
			n++
		}
	}
	return n
}

// Sessions lists all sessions in the order of their keys.
func (v View) Sessions() []Session { return valuesOf(v.tables().sessions()) }

// Node gives a node by its id.
func (v View) Node(id NodeID) (Node, bool) {
	n, ok := valueOf(v.tables().node(id))
	return n.clone(), ok
}

// Nodes lists all nodes that registered and were not removed, in the order of
// their ids.
func (v View) Nodes() []Node { return clones(v.tables().nodes(), Node.clone) }

// Actor gives an actor by its name, also one that is over.
func (v View) Actor(name string) (Actor, bool) {
	a, ok := valueOf(v.tables().actor(name))
	return a.clone(), ok
}

// Actors lists all actors, also those that are over, in the order of their names.
func (v View) Actors() []Actor { return clones(v.tables().actors(), Actor.clone) }

// ActorByTokenHash gives the living actor that a bearer token names.
func (v View) ActorByTokenHash(hash TokenHash) (Actor, bool) {
	a, ok := valueOf(v.tables().actorByToken(hash))
	return a.clone(), ok
}

// Token gives a join token by its id.
func (v View) Token(id string) (JoinToken, bool) {
	j, ok := valueOf(v.tables().joinToken(id))
	return j.clone(), ok
}

// Tokens lists all join tokens, also those that are over, in the order of their
// ids.
func (v View) Tokens() []JoinToken { return clones(v.tables().joinTokens(), JoinToken.clone) }

// Revoked reports whether an identity is revoked.
func (v View) Revoked(uri string) bool { return v.tables().revocation(uri) != nil }

// Trust gives whom the mesh trusts to sign; generation 0 before anybody said.
func (v View) Trust() Trust { return v.tables().trust().clone() }

// GossipKeys gives the keys for gossip; generation 0 before anybody set them.
func (v View) GossipKeys() GossipKeys { return v.tables().gossipKeys().clone() }

// ReservedKey gives what an actor's idempotency key stands for. It may be past
// surfaces.KeyLife.
func (v View) ReservedKey(actor, key string) (ReservedKey, bool) {
	return valueOf(v.tables().reserved(actor, key))
}

// Venv gives a stored environment by its id.
func (v View) Venv(id int) (Venv, bool) {
	e, ok := valueOf(v.tables().venv(id))
	return e.clone(), ok
}

// Venvs lists the stored environments in the order of their ids.
func (v View) Venvs() []Venv { return clones(v.tables().venvs(), Venv.clone) }

// Function gives a stored function by its name.
func (v View) Function(name string) (Function, bool) {
	f, ok := valueOf(v.tables().function(name))
	return f.clone(), ok
}

// Functions lists the stored functions in the order of their names.
func (v View) Functions() []Function { return clones(v.tables().functions(), Function.clone) }

// Server gives an actor's server of primitives by its name.
func (v View) Server(actor, name string) (PrimitiveServer, bool) {
	s, ok := valueOf(v.tables().server(actor, name))
	return s.clone(), ok
}

// Servers lists an actor's servers of primitives in the order of their names.
func (v View) Servers(actor string) []PrimitiveServer {
	return clones(v.tables().serversOf(actor), PrimitiveServer.clone)
}

// Machine gives a machine by its id.
func (v View) Machine(id string) (Machine, bool) {
	m, ok := valueOf(v.tables().machine(id))
	return m.clone(), ok
}

// MachinesOf lists an actor's machines in the order of their names.
func (v View) MachinesOf(actor string) []Machine {
	return clones(v.tables().machinesOf(actor), Machine.clone)
}

// Machines lists the machines of all actors in the order of their ids.
func (v View) Machines() []Machine { return clones(v.tables().machines(), Machine.clone) }

// Held reports whether a node holds the machine's connection, as far as is known.
func (v View) Held(m Machine) bool { return m.Hub != "" && v.tables().holds(m.Hub, m.HubLife) }

// Recovery counts the disaster recoveries of this mesh.
func (v View) Recovery() uint64 {
	if c := v.tables().cluster(); c != nil {
		return c.Recovery
	}
	return 0
}

func valueOf[T any](record *T) (T, bool) {
	if record == nil {
		var none T
		return none, false
	}
	return *record, true
}

func clones[T any](records []*T, clone func(T) T) []T {
	copies := make([]T, len(records))
	for i, r := range records {
		copies[i] = clone(*r)
	}
	return copies
}

func valuesOf[T any](records []*T) []T {
	values := make([]T, len(records))
	for i, r := range records {
		values[i] = *r
	}
	return values
}
