package client

import (
	"crypto/sha256"

	"github.com/locusrun/locus/node/gateway"
)

// maxTold bounds the remembered events of a call.
const maxTold = 1 << 16

// fingerprint identifies an event that is not output.
type fingerprint struct {
	name   string
	offset int64
	data   [sha256.Size]byte
}

// memory detects repeated events. On a new connection the node repeats the events that are
// not output: first those it still holds, in order, then new ones. So within a connection
// the search goes forward through the known events, and an event that is not ahead is new.
type memory struct {
	// started says that a connection may have reached the node.
	started bool
	told    []fingerprint
	at      int
}

// rewind starts a new connection.
func (m *memory) rewind() { m.at = 0 }

// first reports whether an event is new, and remembers it.
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
