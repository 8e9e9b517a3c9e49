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

// A snapshot consists of the magic, one version byte, and a zstd stream of frames. A frame is
// its kind (1 byte), the length of its body (uvarint) and the body, a record as JSON. The
// first frame is the head. The last is the end, which holds the SHA-256 of everything before
// it in the stream; a snapshot without it is refused. The order of the records is fixed, so
// equal states have equal streams, and the digest is a canonical hash of the state.
const (
	snapshotMagic   = "LOCUSREG"
	snapshotVersion = 1
	// maxFrame is larger than any command, since a record is little more than the command
	// that created it.
	maxFrame       = 4 << 20
	snapshotMemory = 256 << 20
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
	frameToken
	frameRevocation
	frameTrust
	frameGossip
	frameKey
	frameVenv
	frameFunction
	frameServer
	frameMachine
)

// head is the first frame of a snapshot.
type head struct {
	Index uint64 `json:"index"`
}

// ErrSnapshot: a snapshot cannot be read completely. It is damaged, truncated, or of a newer
// release, which is ErrNewerLevel too. Nothing of it is used.
var ErrSnapshot = errors.New("registry: the snapshot cannot be read")

// Snapshot captures the current state. The tables are immutable and shared; the list of
// remembered requests is copied.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if err := m.behind(); err != nil {
		return nil, err
	}
	return m.freeze(), nil
}

func (m *machine) freeze() frozen { return frozen{m.now.Load(), m.window.list()} }

// Restore replaces the whole state by that of a snapshot. If it fails with ErrSnapshot, the
// state is unchanged.
func (m *machine) Restore(from io.ReadCloser) error {
	r, err := readSnapshot(from, m.knows)
	if errors.Is(err, ErrNewerLevel) {
		m.newer.Store(&err)
	}
	if err != nil {
		return err
	}
	m.reset(r.db, r.window, r.index)
	return nil
}

// frozen is a captured state that can be written out.
type frozen struct {
	*generation
	requests []*request
}

func (f frozen) Release() {}

func (f frozen) Persist(sink raft.SnapshotSink) error {
	if err := f.write(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (f frozen) write(to io.Writer) error {
	if _, err := to.Write(append([]byte(snapshotMagic), snapshotVersion)); err != nil {
		return err
	}
	z, err := zstd.NewWriter(to, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	w := &frameWriter{to: z, sum: sha256.New()}
	sum := w.state(f)
	w.frame(frameEnd, sum)
	return errors.Join(w.err, z.Close())
}

// hash returns the canonical hash, which is equal for equal states on all replicas.
func (f frozen) hash() [sha256.Size]byte {
	w := &frameWriter{to: io.Discard, sum: sha256.New()}
	return [sha256.Size]byte(w.state(f))
}

// frameWriter writes frames until the first error, which it remembers.
type frameWriter struct {
	to  io.Writer
	sum hash.Hash
	err error
}

// state writes everything but the end frame, and returns the SHA-256 of it.
func (w *frameWriter) state(f frozen) []byte {
	t := View{f.generation}.tables()
	w.record(frameHead, head{f.index})
	if c := t.cluster(); c != nil {
		w.record(frameCluster, c)
	}
	records(w, frameNode, t.nodes())
	records(w, frameActor, t.actors())
	records(w, frameSession, t.sessions())
	records(w, frameToken, t.joinTokens())
	records(w, frameRevocation, t.revocations())
	if trust := t.trust(); trust.Generation > 0 {
		w.record(frameTrust, trust)
	}
	if keys := t.gossipKeys(); keys.Generation > 0 {
		w.record(frameGossip, keys)
	}
	records(w, frameKey, t.allReserved())
	records(w, frameVenv, t.venvs())
	records(w, frameFunction, t.functions())
	records(w, frameServer, t.servers())
	records(w, frameMachine, t.machines())
	records(w, frameRequest, f.requests)
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

// readSnapshot builds a new state from a complete snapshot.
func readSnapshot(from io.Reader, knows uint8) (*frameReader, error) {
	r, err := parseSnapshot(bufio.NewReader(from), knows)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return r, nil
}

func parseSnapshot(from *bufio.Reader, knows uint8) (*frameReader, error) {
	start := make([]byte, len(snapshotMagic)+1)
	if _, err := io.ReadFull(from, start); err != nil {
		return nil, err
	}
	if string(start[:len(snapshotMagic)]) == snapshotMagic && start[len(snapshotMagic)] > snapshotVersion {
		return nil, fmt.Errorf("%w: a snapshot of version %d", ErrNewerLevel, start[len(snapshotMagic)])
	}
	if string(start[:len(snapshotMagic)]) != snapshotMagic || start[len(snapshotMagic)] != snapshotVersion {
		return nil, fmt.Errorf("it begins with %q, want %q and version %d", start, snapshotMagic, snapshotVersion)
	}
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(snapshotMemory))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	r := &frameReader{from: bufio.NewReader(z), knows: knows, sum: sha256.New(), db: newState(), window: newWindow()}
	if err := r.all(); err != nil {
		return nil, err
	}
	return r, nil
}
