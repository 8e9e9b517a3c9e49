package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"
)

// Config says where a log is and how much of it is kept. Dir, Node and Log are required.
type Config struct {
	Dir string
	// Node is written into every entry.
	Node string
	// MaxBytes bounds all files together, default DefaultMaxBytes; a file is a sixteenth
	// of it, at most 16 MiB. MaxAge is how long entries are kept at least, if there is
	// room, and at most an eighth longer; default DefaultMaxAge.
	MaxBytes int64
	MaxAge   time.Duration
	Log      *slog.Logger
}

// How much of a log is kept where it is not said.
const (
	DefaultMaxBytes = 1 << 30
	DefaultMaxAge   = 90 * 24 * time.Hour
	// MinBytes is the least that MaxBytes may be.
	MinBytes = 1 << 20
)

const (
	// linger is how long the writer waits for more before it writes.
	linger = 5 * time.Millisecond
	// maxQueue and maxWeight bound what waits to be written, in entries and in bytes;
	// whoever adds more waits.
	maxQueue  = 4096
	maxWeight = 16 << 20
	// maxHeld is how many bytes of lines are held while they cannot be written.
	maxHeld = 4 << 20
	// syncEvery is how long what was written may not be on the disk for good, and
	// retryEvery how often it is tried to write what could not be written.
	syncEvery  = time.Second
	retryEvery = time.Second
)

// Log is a log that is being written. Its methods may be called at the same time.
type Log struct {
	cfg  Config
	wake chan struct{} // there is something to do
	done chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	room    *sync.Cond // there is room in the queue, or the log is closed
	queue   []Entry
	weight  int
	last    time.Time // of the latest entry
	hurry   int       // who waits for the writer
	closing bool
	state   State
	extent  extent
	changed chan struct{} // closed when there is more to read
	// added counts the entries, settled those of them of which the writer has done what
	// could be done; some is told of that.
	added, settled uint64
	some           *sync.Cond

	// Of the writer alone:
	file     *os.File
	out      []byte // lines that are not written yet
	sealed   Head   // of the last of them
	sealedAt time.Time
	begun    time.Time // of the first entry of the file
	dirty    bool
	unnamed  bool // the name of the file may not be on the disk for good
	synced   time.Time
	tend     bool // old files are to be looked for
	gap      gap
}

// extent is what of the log can be read: all files before the one of that number, and so
// many bytes of it.
type extent struct {
	first uint64
	bytes int64
}

// gap is what was lost as it could not be written.
type gap struct {
	entries int64
	since   time.Time
	cause   error
}

// State is how a log stands. Head is what can be read; Lost counts the entries that could
// not be written since it was opened. Failing is why the log cannot be written at the
// moment, nil when it can.
type State struct {
	Head    Head
	Lost    int64
	Failing error
	Since   time.Time // it fails
}

// Open opens a log for writing, making it when it is not there. Only one process may. What
// follows the last whole entry, as after a crash, stays, and an entry says so. Close ends it.
func Open(cfg Config) (*Log, error) {
	cfg.MaxBytes = max(cmp.Or(cfg.MaxBytes, DefaultMaxBytes), MinBytes)
	cfg.MaxAge = cmp.Or(cfg.MaxAge, DefaultMaxAge)
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	end, err := endOf(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	l := &Log{
		cfg: cfg, wake: make(chan struct{}, 1), done: make(chan struct{}), changed: make(chan struct{}), tend: true,
		last: end.last, state: State{Head: end.head}, sealed: end.head, begun: end.begun,
		extent: extent{first: max(end.segment.first, 1), bytes: end.segment.size},
	}
	l.room, l.some = sync.NewCond(&l.mu), sync.NewCond(&l.mu)
	if rest := end.segment.size - end.good; rest > 0 {
		if err := l.noteCut(end, rest); err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
	}
	go l.run()
	return l, nil
}

// noteCut says that bytes at the end of the log are no entry. They stay where they are,
// and get an end of line if they have none.
func (l *Log) noteCut(end ending, rest int64) error {
	f, err := os.Open(pathOf(l.cfg.Dir, end.segment.first))
	if err != nil {
		return err
	}
	defer f.Close()
	junk := make([]byte, rest)
	if _, err := f.ReadAt(junk, end.good); err != nil {
		return err
	}
	if junk[rest-1] != '\n' {
		l.out = append(l.out, '\n')
		junk = append(junk, '\n')
	}
	l.cfg.Log.Warn("the audit log ended in the middle of an entry; that is noted in it", "bytes", rest, "after", end.head.Seq)
	sum := sha256.Sum256(junk)
	l.Add(Entry{What: LogCut, Detail: map[string]string{"bytes": strconv.Itoa(len(junk)), "sha256": hex.EncodeToString(sum[:])}})
	return nil
}

// Add adds an entry, whose number, node, hashes and time are the log's to fill in. It
// waits when too much waits to be written, and does nothing once the log is closed.
func (l *Log) Add(e Entry) {
	w := e.weight()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closing && len(l.queue) > 0 && (len(l.queue) >= maxQueue || l.weight+w > maxWeight) {
		l.room.Wait()
	}
	if l.closing {
		return
	}
	e.Node, e.At = l.cfg.Node, time.Now().UTC()
	if !e.At.After(l.last) {
		e.At = l.last.Add(1)
	}
	l.last = e.At
	l.added++
	l.queue = append(l.queue, e)
	l.weight += w
	if len(l.queue) == 1 || len(l.queue) == maxQueue/2 {
		l.rouse()
	}
}

func (l *Log) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Flush waits until what was added before can be read, or was found not to be writable.
func (l *Log) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	want := l.added
	if l.settled >= want {
		return
	}
	l.hurry++
	l.rouse()
	for l.settled < want && !l.over() {
		l.some.Wait()
	}
	l.hurry--
}

// over reports whether the writer has ended.
func (l *Log) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// State tells how the log stands.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Tend has old files looked for and dropped.
func (l *Log) Tend() {
	l.mu.Lock()
	l.tend = true
	l.mu.Unlock()
	l.rouse()
}

// Close writes what waits, gives where the log ended, and ends it. The error says that
// not all could be written.
func (l *Log) Close() (Head, error) {
	l.mu.Lock()
	l.closing = true
	l.room.Broadcast()
	l.mu.Unlock()
	l.rouse()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.state.Failing != nil {
		err = fmt.Errorf("audit: %w", errors.Join(fmt.Errorf("%d entries could not be written", l.state.Lost), l.state.Failing))
	}
	return l.state.Head, err
}
