package registry

import (
	"encoding/binary"
	"fmt"

	"github.com/hashicorp/go-memdb"

	"github.com/locusrun/locus/surfaces"
)

// The tables of the state. A new kind of record needs a table here, a frame kind in the
// snapshot, and commands.
const (
	tableCluster   = "cluster"
	tableNodes     = "nodes"
	tableActors    = "actors"
	tableSessions  = "sessions"
	tableTokens    = "tokens"
	tableRevoked   = "revoked"
	tableTrust     = "trust"
	tableGossip    = "gossip"
	tableKeys      = "keys"
	tableVenvs     = "venvs"
	tableFunctions = "functions"
	tableServers   = "servers"
	tableMachines  = "machines"
)

const (
	indexID     = "id"
	indexName   = "name"   // sessions and machines by (actor, name)
	indexOwner  = "owner"  // sessions by node
	indexToken  = "token"  // actors by token hash
	indexAge    = "age"    // idempotency keys by time
	indexDigest = "digest" // environments by content
)

// cluster is the single row about the mesh as a whole.
type cluster struct {
	ID string `json:"id"`
	// Level is the feature level of the mesh. All replicas treat a command of a higher
	// level as unsupported, even those whose release supports it.
	Level     uint8     `json:"level"`
	CreatedAt Timestamp `json:"created_at"`
	// Lease holds the lease settings of the mesh; with the zero value each node uses its
	// own.
	Lease LeaseConfig `json:"lease,omitzero"`
	// LastLife is the highest incarnation of a removed node.
	LastLife Incarnation `json:"last_life,omitempty"`
	// LastVenv is the highest environment id that was allocated.
	LastVenv int `json:"last_venv,omitempty"`
	// Recovery counts disaster recoveries.
	Recovery uint64 `json:"recovery,omitempty"`
}

var schema = &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{
	tableCluster: table(tableCluster,
		unique(indexID, indexer[*cluster]{func(*cluster) []byte { return []byte{0} }})),
	tableNodes: table(tableNodes,
		unique(indexID, indexer[*Node]{func(n *Node) []byte { return textKey(string(n.ID)) }})),
	tableActors: table(tableActors,
		unique(indexID, indexer[*Actor]{func(a *Actor) []byte { return textKey(a.Name) }}),
		optional(unique(indexToken, tokenIndexer{}))),
	tableTokens: table(tableTokens,
		unique(indexID, indexer[*JoinToken]{func(j *JoinToken) []byte { return textKey(j.ID) }})),
	tableRevoked: table(tableRevoked,
		unique(indexID, indexer[*Revocation]{func(r *Revocation) []byte { return textKey(r.URI) }})),
	tableTrust:  table(tableTrust, unique(indexID, indexer[*Trust]{func(*Trust) []byte { return []byte{0} }})),
	tableGossip: table(tableGossip, unique(indexID, indexer[*GossipKeys]{func(*GossipKeys) []byte { return []byte{0} }})),
	tableKeys: table(tableKeys,
		unique(indexID, indexer[*ReservedKey]{func(k *ReservedKey) []byte { return nameKey(k.Actor, k.Key) }}),
		unique(indexAge, indexer[*ReservedKey]{func(k *ReservedKey) []byte {
			return append(binary.BigEndian.AppendUint64(nil, uint64(k.At)), nameKey(k.Actor, k.Key)...)
		}})),
	tableVenvs: table(tableVenvs,
		unique(indexID, indexer[*Venv]{func(v *Venv) []byte { return venvKey(v.ID) }}),
		unique(indexDigest, indexer[*Venv]{func(v *Venv) []byte { return textKey(v.Digest) }})),
	tableFunctions: table(tableFunctions,
		unique(indexID, indexer[*Function]{func(f *Function) []byte { return textKey(f.Name) }})),
	tableServers: table(tableServers,
		unique(indexID, indexer[*PrimitiveServer]{func(s *PrimitiveServer) []byte { return nameKey(s.Actor, s.Name) }})),
	tableMachines: table(tableMachines,
		unique(indexID, indexer[*Machine]{func(m *Machine) []byte { return textKey(m.ID) }}),
		unique(indexName, indexer[*Machine]{func(m *Machine) []byte { return nameKey(m.Actor, m.Name) }})),
	tableSessions: table(tableSessions,
		unique(indexID, indexer[*Session]{func(s *Session) []byte { return sessionKey(s.Key) }}),
		optional(unique(indexName, indexer[*Session]{sessionName})),
		&memdb.IndexSchema{Name: indexOwner, Indexer: indexer[*Session]{func(s *Session) []byte { return textKey(string(s.Owner)) }}}),
}}

func table(name string, indexes ...*memdb.IndexSchema) *memdb.TableSchema {
	t := &memdb.TableSchema{Name: name, Indexes: map[string]*memdb.IndexSchema{}}
	for _, i := range indexes {
		t.Indexes[i.Name] = i
	}
	return t
}

func unique(name string, i memdb.Indexer) *memdb.IndexSchema {
	return &memdb.IndexSchema{Name: name, Unique: true, Indexer: i}
}

func optional(s *memdb.IndexSchema) *memdb.IndexSchema {
	s.AllowMissing = true
	return s
}

// indexer computes index keys without reflection. A record with a nil key is not indexed.
// Lookups pass a finished key.
type indexer[T any] struct{ key func(T) []byte }

func (i indexer[T]) FromObject(raw any) (bool, []byte, error) {
	record, ok := raw.(T)
	if !ok {
		return false, nil, fmt.Errorf("index over %T got %T", record, raw)
	}
	key := i.key(record)
	return key != nil, key, nil
}

func (indexer[T]) FromArgs(args ...any) ([]byte, error)       { return finishedKey(args) }
func (indexer[T]) PrefixFromArgs(args ...any) ([]byte, error) { return finishedKey(args) }

// tokenIndexer indexes an actor under each of its tokens.
type tokenIndexer struct{}

func (tokenIndexer) FromObject(raw any) (bool, [][]byte, error) {
	actor, ok := raw.(*Actor)
	if !ok {
		return false, nil, fmt.Errorf("index over actors got %T", raw)
	}
	keys := make([][]byte, len(actor.Tokens))
	for i, t := range actor.Tokens {
		keys[i] = textKey(string(t))
	}
	return len(keys) > 0, keys, nil
}

func (tokenIndexer) FromArgs(args ...any) ([]byte, error) { return finishedKey(args) }

func finishedKey(args []any) ([]byte, error) {
	if len(args) == 1 {
		if key, ok := args[0].([]byte); ok {
			return key, nil
		}
	}
	return nil, fmt.Errorf("a look-up takes one finished key, got %d arguments", len(args))
}

// textKey ends in a NUL, which no text may contain, so that no key is a prefix of another
// and keys sort like their texts.
func textKey(text string) []byte { return append([]byte(text), 0) }

func sessionKey(k surfaces.SessionKey) []byte {
	key := append(textKey(k.Actor), textKey(string(k.Language))...)
	key = binary.BigEndian.AppendUint64(key, uint64(k.Venv))
	return binary.BigEndian.AppendUint64(key, uint64(k.ID))
}

func venvKey(id int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) }

func sessionName(s *Session) []byte {
	if s.Name == "" {
		return nil
	}
	return nameKey(s.Key.Actor, s.Name)
}

func nameKey(actor, name string) []byte { return append(textKey(actor), textKey(name)...) }
