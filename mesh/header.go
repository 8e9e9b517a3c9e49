package mesh

import (
	"fmt"
	"io"
	"strings"
)

// Each stream begins with a header: its kind (1 byte), the length of the name (1 byte) and
// the name. It is sent together with the first bytes of the stream, because the other side
// does not see a stream before it carries any.
const (
	kindCall  = 1 // a call: name is the method, frames follow
	kindBytes = 2 // a byte stream: name is the kind of its layer, raw bytes follow
	kindProbe = 3 // nothing follows: see conn.probe
)

// probeName pads a probe: a peer answers a packet of an unknown connection only if it is
// longer than the stateless reset.
var probeName = "probe" + strings.Repeat("-", maxName-len("probe"))

const maxName = 64

type header struct {
	kind byte
	name string // of the method or of the stream layer
}

func (h header) append(b []byte) []byte {
	return append(append(b, h.kind, byte(len(h.name))), h.name...)
}

func readHeader(r io.Reader) (header, error) {
	var fixed [2]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return header{}, err
	}
	h := header{kind: fixed[0]}
	if h.kind < kindCall || h.kind > kindProbe {
		return header{}, fmt.Errorf("%w: stream of kind %d", ErrProtocol, h.kind)
	}
	if fixed[1] == 0 || fixed[1] > maxName {
		return header{}, fmt.Errorf("%w: name of %d bytes", ErrProtocol, fixed[1])
	}
	name := make([]byte, fixed[1])
	if _, err := io.ReadFull(r, name); err != nil {
		return header{}, err
	}
	if !isName(name) {
		return header{}, fmt.Errorf("%w: name %q", ErrProtocol, name)
	}
	h.name = string(name)
	return h, nil
}
