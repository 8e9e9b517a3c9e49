package mesh

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
)

// Meta is the metadata that each node spreads by gossip. It is small, because each change
// goes to the whole cluster.
type Meta struct {
	// Incarnation identifies one run of the process. Gossip alone does not notice a restart
	// that is quick.
	Incarnation uint64
	// Data is defined by the user of the package, at most MaxMetaData bytes.
	Data []byte

	cluster uint64 // hash of the cluster's id
	leaving bool   // the node leaves on purpose
}

// MaxMetaData is the largest Meta.Data, in bytes.
const MaxMetaData = 400

// The encoding: version, flags, cluster, incarnation, and the data to the end.
const (
	metaVersion = 1
	metaHead    = 1 + 1 + 8 + 8
	metaLeaving = 1 // a flag
)

var errMeta = errors.New("mesh: malformed gossip metadata")

func (m Meta) append(b []byte) []byte {
	var flags byte
	if m.leaving {
		flags = metaLeaving
	}
	b = append(b, metaVersion, flags)
	b = binary.BigEndian.AppendUint64(b, m.cluster)
	b = binary.BigEndian.AppendUint64(b, m.Incarnation)
	return append(b, m.Data...)
}

// parseMeta ignores unknown flags, which a later version may set.
func parseMeta(b []byte) (Meta, error) {
	if len(b) < metaHead || len(b) > metaHead+MaxMetaData || b[0] != metaVersion {
		return Meta{}, errMeta
	}
	m := Meta{
		leaving:     b[1]&metaLeaving != 0,
		cluster:     binary.BigEndian.Uint64(b[2:]),
		Incarnation: binary.BigEndian.Uint64(b[10:]),
	}
	if data := b[metaHead:]; len(data) > 0 {
		m.Data = append([]byte(nil), data...) // b is memberlist's
	}
	return m, nil
}

func clusterHash(cluster string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(cluster)) // a hash never fails
	return h.Sum64()
}
