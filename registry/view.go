package registry

import (
	"github.com/locusrun/locus/surfaces"
)

// View is a consistent, immutable snapshot of the registry. Taking one is cheap and never
// waits for writes. It is safe for concurrent use. On a node that does not lead it may be
// behind; decisions based on it are fenced by the epoch check at a session's owner.
type View struct{ g *generation }

func (v View) tables() tables { return tables{v.g.db.Txn(false)} }

// Index returns the log index of the latest command in this view.
func (v View) Index() uint64 { return v.g.index }

// Changed is closed when there is a newer state than this view. In a loop that takes a view,
// acts on it, and waits for Changed, no change is missed, and several may be seen as one.
// Changed also fires for commands that changed nothing and for changes of the members.
func (v View) Changed() <-chan struct{} { return v.g.changed }

// ClusterID returns the identity of the mesh, or "" before it has one.
func (v View) ClusterID() string {
	if c := v.tables().cluster(); c != nil {
		return c.ID
	}
	return ""
}

// Session returns the session with a key, if there is one.
func (v View) Session(key surfaces.SessionKey) (Session, bool) {
	return valueOf(v.tables().session(key))
}

// SessionByName returns the session of an actor with a name.
func (v View) SessionByName(actor, name string) (Session, bool) {
	return valueOf(v.tables().sessionByName(actor, name))
}

// SessionsOf lists an actor's sessions, including the plan's own, sorted by key.
func (v View) SessionsOf(actor string) []Session { return valuesOf(v.tables().sessionsOf(actor)) }

// SessionsOn lists the sessions that a node owns, or owned when they were lost, sorted by
// key.
func (v View) SessionsOn(node NodeID) []Session { return valuesOf(v.tables().sessionsOn(node)) }

// CountServed counts the sessions that a node owns and has not lost.
func (v View) CountServed(node NodeID) int {
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

// Node returns a node by its id.
func (v View) Node(id NodeID) (Node, bool) {
	n, ok := valueOf(v.tables().node(id))
	return n.clone(), ok
}

// Nodes lists all nodes that registered and were not removed, in the order of
// their ids.
func (v View) Nodes() []Node { return clones(v.tables().nodes(), Node.clone) }

// Actor returns an actor by its name, even if it has ended.
func (v View) Actor(name string) (Actor, bool) {
	a, ok := valueOf(v.tables().actor(name))
	return a.clone(), ok
}

// Actors lists all actors, including ended ones, sorted by name.
func (v View) Actors() []Actor { return clones(v.tables().actors(), Actor.clone) }

// ActorByTokenHash returns the actor that a bearer token belongs to.
func (v View) ActorByTokenHash(hash TokenHash) (Actor, bool) {
	a, ok := valueOf(v.tables().actorByToken(hash))
	return a.clone(), ok
}

// Token returns a join token by its id.
func (v View) Token(id string) (JoinToken, bool) {
	j, ok := valueOf(v.tables().joinToken(id))
	return j.clone(), ok
}

// Tokens lists all join tokens, including expired ones, sorted by id.
func (v View) Tokens() []JoinToken { return clones(v.tables().joinTokens(), JoinToken.clone) }

// Revoked reports whether an identity is revoked.
func (v View) Revoked(uri string) bool { return v.tables().revocation(uri) != nil }

// Trust returns the trusted roots; generation 0 if none were set.
func (v View) Trust() Trust { return v.tables().trust().clone() }

// GossipKeys returns the gossip encryption keys; generation 0 if none were set.
func (v View) GossipKeys() GossipKeys { return v.tables().gossipKeys().clone() }

// ReservedKey returns the call that an actor's idempotency key is bound to. It may be older
// than surfaces.KeyLife.
func (v View) ReservedKey(actor, key string) (ReservedKey, bool) {
	return valueOf(v.tables().reserved(actor, key))
}

// Venv returns a stored environment by its id.
func (v View) Venv(id int) (Venv, bool) {
	e, ok := valueOf(v.tables().venv(id))
	return e.clone(), ok
}

// Venvs lists the stored environments in the order of their ids.
func (v View) Venvs() []Venv { return clones(v.tables().venvs(), Venv.clone) }

// Function returns a stored function by its name.
func (v View) Function(name string) (Function, bool) {
	f, ok := valueOf(v.tables().function(name))
	return f.clone(), ok
}

// Functions lists the stored functions in the order of their names.
func (v View) Functions() []Function { return clones(v.tables().functions(), Function.clone) }

// Server returns a primitive server of an actor by its name.
func (v View) Server(actor, name string) (PrimitiveServer, bool) {
	s, ok := valueOf(v.tables().server(actor, name))
	return s.clone(), ok
}

// Servers lists an actor's primitive servers, sorted by name.
func (v View) Servers(actor string) []PrimitiveServer {
	return clones(v.tables().serversOf(actor), PrimitiveServer.clone)
}

// Machine returns a machine by its id.
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

// MachineConnected reports whether a node that is up holds the machine's connection.
func (v View) MachineConnected(m Machine) bool {
	return m.Hub != "" && v.tables().holds(m.Hub, m.HubIncarnation)
}

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
