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
	// MaxBytes bounds the total size of all files; the default is DefaultMaxBytes. One file
	// is at most a sixteenth of that, and at most 16 MiB. MaxAge is how long entries are
	// kept if MaxBytes leaves room for them; the default is DefaultMaxAge. As whole files
	// are dropped, an entry may stay up to an eighth longer.
	MaxBytes int64
	MaxAge   time.Duration
	Log      *slog.Logger
}

// Defaults and limits of Config.
const (
	DefaultMaxBytes = 1 << 30
	DefaultMaxAge   = 90 * 24 * time.Hour
	// MinBytes is the smallest MaxBytes; smaller values are raised to it.
	MinBytes = 1 << 20
)

const (
	// linger is how long the writer waits for more entries, to write them together.
	linger = 5 * time.Millisecond
	// maxQueue and maxWeight bound the entries that wait for the writer, by number and by
	// bytes. Add blocks while the queue is full.
	maxQueue  = 4096
	maxWeight = 16 << 20
	// maxHeld bounds the encoded lines, in bytes, that are held while the disk refuses
	// writes.
	maxHeld = 4 << 20
	// syncEvery is the longest time between a write and its fsync. retryEvery is the
	// interval between attempts after a failed write.
	syncEvery  = time.Second
	retryEvery = time.Second
)

// Log is a log open for writing. Its methods are safe for concurrent use.
type Log struct {
	cfg  Config
	wake chan struct{} // holds a token when there is work for the writer
	done chan struct{} // closed when the writer has ended

	mu       sync.Mutex
	room     *sync.Cond // signalled when the queue has room or the log is closed
	queue    []Entry
	weight   int
	last     time.Time // time of the latest entry
	flushing int       // callers in Flush: the writer does not linger
	closing  bool
	state    State
	extent   extent
	changed  chan struct{} // closed and replaced when there is more to read
	// added counts the entries that were added, settled those that the writer is done with:
	// written, held for a retry, or lost. progress is signalled when settled grows.
	added, settled uint64
	progress       *sync.Cond

	// The rest belongs to the writer goroutine.
	file     *os.File
	out      []byte // encoded lines that are not written yet
	sealed   Head   // of the last encoded line
	sealedAt time.Time
	begun    time.Time // time of the first entry in the file
	dirty    bool      // the file has writes that are not synced
	newFile  bool      // the file's directory entry is not synced
	synced   time.Time
	prune    bool // check for old files
	gap      gap
}

// extent is how much of the log can be read: all files before the one that starts with
// entry first, and the given number of bytes of that one.
type extent struct {
	first uint64
	bytes int64
}

// gap describes the entries that were lost since the log could last be written.
type gap struct {
	entries int64
	since   time.Time
	cause   error
}

// State is the state of a log. Head is the last entry that can be read. Lost counts the
// entries that could not be written since Open. Failing is why the log cannot be written at
// the moment; nil when it can.
type State struct {
	Head    Head
	Lost    int64
	Failing error
	Since   time.Time // when Failing was set
}

// Open opens a log for writing, and creates it if there is none. Only one process may have
// a log open. If a crash left an incomplete line at the end, it stays, and a log_cut entry
// is added that records it. The caller must call Close.
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
		cfg: cfg, wake: make(chan struct{}, 1), done: make(chan struct{}), changed: make(chan struct{}), prune: true,
		last: end.last, state: State{Head: end.head}, sealed: end.head, begun: end.begun,
		extent: extent{first: max(end.segment.first, 1), bytes: end.segment.size},
	}
	l.room, l.progress = sync.NewCond(&l.mu), sync.NewCond(&l.mu)
	if rest := end.segment.size - end.good; rest > 0 {
		if err := l.logCut(end, rest); err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
	}
	go l.run()
	return l, nil
}

// logCut records that the last rest bytes of the log are not an entry. They are left in
// place, and a newline is added if they have none.
func (l *Log) logCut(end ending, rest int64) error {
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
	l.Add(Entry{Kind: LogCut, Detail: map[string]string{"bytes": strconv.Itoa(len(junk)), "sha256": hex.EncodeToString(sum[:])}})
	return nil
}

// Add adds an entry and fills in its number, node, time and hashes. It blocks while the
// queue is full, and does nothing once the log is closed.
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
		l.wakeWriter()
	}
}

func (l *Log) wakeWriter() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Flush waits until every entry added so far can be read, or the writer has failed to write
// it.
func (l *Log) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	want := l.added
	if l.settled >= want {
		return
	}
	l.flushing++
	l.wakeWriter()
	for l.settled < want { // ends even if the log is closed: the writer empties the queue first
		l.progress.Wait()
	}
	l.flushing--
}

// State returns the state of the log.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Maintain makes the writer check for old files to drop. It does not wait.
func (l *Log) Maintain() {
	l.mu.Lock()
	l.prune = true
	l.mu.Unlock()
	l.wakeWriter()
}

// Close writes the entries that are queued, ends the writer and returns the final head. The
// error says that some entries could not be written.
func (l *Log) Close() (Head, error) {
	l.mu.Lock()
	l.closing = true
	l.room.Broadcast()
	l.mu.Unlock()
	l.wakeWriter()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.state.Failing != nil {
		err = fmt.Errorf("audit: %w", errors.Join(fmt.Errorf("%d entries could not be written", l.state.Lost), l.state.Failing))
	}
	return l.state.Head, err
}
