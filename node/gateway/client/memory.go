package client

import (
	"crypto/sha256"

	"github.com/locusrun/locus/node/gateway"
)

// maxTold bounds how many events of a call are remembered for telling apart.
const maxTold = 1 << 16

// fingerprint identifies an event of a call that is not output.
type fingerprint struct {
	name   string
	offset int64
	data   [sha256.Size]byte
}

// memory knows which events were told, because a node tells those that are not
// output once more to whoever comes back: first the ones that it still holds, in
// their order, then new ones. So within a connection the events told before are
// walked through in order; whatever is not found among those ahead is new.
type memory struct {
	// started says that a connection may have reached the node.
	started bool
	told    []fingerprint
	at      int
}

// rewind is called at the start of each connection.
func (m *memory) rewind() { m.at = 0 }

// first says whether the event is told for the first time, and remembers it.
func (m *memory) first(ev gateway.StreamEvent) bool {
	p := fingerprint{name: ev.Name, offset: ev.Offset, data: sha256.Sum256(ev.Data)}
	for i := m.at; i < len(m.told); i++ {
		if m.told[i] == p {
			m.at = i + 1
			return false
		}
	}
	if len(m.told) == maxTold {
		m.told = append(m.told[:0], m.told[maxTold/2:]...)
	}
	m.told = append(m.told, p)
	m.at = len(m.told)
	return true
}
