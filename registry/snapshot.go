package registry

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/hashicorp/raft"
	"github.com/klauspost/compress/zstd"
)

// A snapshot is, in this order: the magic, one version byte, and a zstd stream of
// frames. A frame is its kind (1 byte), the length of its body (uvarint) and the
// body, a record as JSON. The first frame is the head, the last the end, which
// holds the SHA-256 of everything before it in the stream; a snapshot without its
// end is refused. Records of one state come in one order only, so equal states
// give equal streams, and the digest is the state's canonical hash.
const (
	snapshotMagic   = "LOCUSREG"
	snapshotVersion = 1
	maxFrame        = 1 << 20
	snapshotMemory  = 256 << 20
)

type frame uint8

// The kinds of frames. Numbers are never reused.
const (
	frameHead frame = iota + 1
	frameCluster
	frameNode
	frameActor
	frameSession
	frameRequest
	frameEnd
)

// head is the first frame of a snapshot.
type head struct {
	Index uint64 `json:"index"`
}

// ErrSnapshot is a snapshot that cannot be read whole: damaged, cut short, or of
// a later version. Nothing of it is used.
var ErrSnapshot = errors.New("registry: the snapshot cannot be read")

// Snapshot gives the present state at no cost.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) { return frozen{m.now.Load()}, nil }

// Restore replaces the whole state by a snapshot's, or leaves it as it is and
// gives ErrSnapshot.
func (m *machine) Restore(from io.ReadCloser) error {
	g, err := readSnapshot(from)
	if err != nil {
		return err
	}
	m.reset(g.db, g.index)
	return nil
}

// frozen is a state that waits to be written out.
type frozen struct{ g *generation }

func (f frozen) Release() {}

func (f frozen) Persist(sink raft.SnapshotSink) error {
	if err := f.g.writeSnapshot(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (g *generation) writeSnapshot(to io.Writer) error {
	if _, err := to.Write(append([]byte(snapshotMagic), snapshotVersion)); err != nil {
		return err
	}
	z, err := zstd.NewWriter(to, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	w := &frameWriter{to: z, sum: sha256.New()}
	sum := w.state(g)
	w.frame(frameEnd, sum)
	return errors.Join(w.err, z.Close())
}

// hash gives the canonical hash: equal for equal states, on every replica.
func (g *generation) hash() [sha256.Size]byte {
	w := &frameWriter{to: io.Discard, sum: sha256.New()}
	return [sha256.Size]byte(w.state(g))
}

// frameWriter writes frames until the first error, which it keeps.
type frameWriter struct {
	to  io.Writer
	sum hash.Hash
	err error
}

// state writes everything but the end, and gives the sum of it.
func (w *frameWriter) state(g *generation) []byte {
	t := View{g}.tables()
	w.record(frameHead, head{g.index})
	if c := t.cluster(); c != nil {
		w.record(frameCluster, c)
	}
	records(w, frameNode, t.nodes())
	records(w, frameActor, t.actors())
	records(w, frameSession, t.sessions())
	records(w, frameRequest, t.requests())
	return w.sum.Sum(nil)
}

func records[T any](w *frameWriter, k frame, all []*T) {
	for _, r := range all {
		w.record(k, r)
	}
}

func (w *frameWriter) record(k frame, v any) {
	body, err := json.Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.frame(k, body)
}

func (w *frameWriter) frame(k frame, body []byte) {
	if w.err != nil {
		return
	}
	if len(body) > maxFrame {
		w.err = fmt.Errorf("registry: a record of kind %d has %d bytes, at most %d", k, len(body), maxFrame)
		return
	}
	b := binary.AppendUvarint([]byte{byte(k)}, uint64(len(body)))
	b = append(b, body...)
	w.sum.Write(b)
	_, w.err = w.to.Write(b)
}

// readSnapshot builds a new state from a snapshot, all of it or none.
func readSnapshot(from io.Reader) (*generation, error) {
	g, err := parseSnapshot(bufio.NewReader(from))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return g, nil
}

func parseSnapshot(from *bufio.Reader) (*generation, error) {
	start := make([]byte, len(snapshotMagic)+1)
	if _, err := io.ReadFull(from, start); err != nil {
		return nil, err
	}
	if string(start[:len(snapshotMagic)]) != snapshotMagic || start[len(snapshotMagic)] != snapshotVersion {
		return nil, fmt.Errorf("it begins with %q, want %q and version %d", start, snapshotMagic, snapshotVersion)
	}
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(snapshotMemory))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	r := &frameReader{from: bufio.NewReader(z), sum: sha256.New(), g: &generation{db: newState()}}
	if err := r.all(); err != nil {
		return nil, err
	}
	return r.g, nil
}
