package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// run writes until the log is closed and all was written that can be.
func (l *Log) run() {
	defer l.some.Broadcast() // after done is closed, for who waits for what will not come
	defer close(l.done)
	defer l.finish()
	for {
		closing := l.await()
		l.round()
		if closing {
			l.round() // the word of what was lost may be left
			return
		}
	}
}

// await waits until there is something to do, and then for a moment for more of it.
func (l *Log) await() (closing bool) {
	select {
	case <-l.wake:
	case <-l.due():
	}
	more := time.NewTimer(linger)
	defer more.Stop()
	for {
		l.mu.Lock()
		closing = l.closing
		enough := closing || l.hurry > 0 || len(l.queue) >= maxQueue/2 || len(l.queue) == 0
		l.mu.Unlock()
		if enough {
			return closing
		}
		select {
		case <-l.wake:
		case <-more.C:
			return false
		}
	}
}

// due says when there is something to do though nothing is added; never where there is not.
func (l *Log) due() <-chan time.Time {
	switch {
	case len(l.out) > 0 || l.gap.entries > 0:
		return time.After(retryEvery)
	case l.dirty:
		return time.After(time.Until(l.synced.Add(syncEvery)))
	}
	return nil
}

// round writes what waits.
func (l *Log) round() {
	l.mu.Lock()
	batch, tend := l.queue, l.tend
	l.queue, l.weight, l.tend = nil, 0, false
	l.room.Broadcast()
	l.mu.Unlock()
	for i := range batch {
		l.take(batch[i])
	}
	err := l.write()
	if err == nil && l.gap.entries > 0 {
		l.tellGap()
		err = l.write()
	}
	if err == nil && l.dirty && time.Since(l.synced) >= syncEvery {
		err = l.sync()
	}
	if err == nil && l.full() {
		err = l.rotate()
		tend = true
	}
	if err == nil && tend {
		if err := l.drop(); err != nil {
			l.cfg.Log.Warn("old files of the audit log could not be dropped", "error", err)
		}
	}
	l.settle(len(batch), err)
}

// take makes the line of an entry. Lines that cannot be written are held up to a bound;
// what is over it is lost, and counted.
func (l *Log) take(e Entry) {
	if l.gap.entries > 0 || len(l.out) >= maxHeld && l.write() != nil {
		l.lose(nil)
		return
	}
	out, head, err := seal(l.out, l.sealed, e)
	if err != nil {
		l.lose(err)
		return
	}
	l.out, l.sealed, l.sealedAt = out, head, e.At
}

func (l *Log) lose(cause error) {
	if l.gap.entries == 0 {
		l.gap.since = time.Now().UTC()
	}
	l.gap.entries++
	if cause != nil {
		l.gap.cause = cause
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Lost++
}

// tellGap makes the entry that says how many were lost.
func (l *Log) tellGap() {
	cause := "it cannot be told"
	if l.gap.cause != nil {
		cause = l.gap.cause.Error()
	}
	e := Entry{What: LogGap, Node: l.cfg.Node, At: time.Now().UTC(), Detail: map[string]string{
		"entries": strconv.FormatInt(l.gap.entries, 10), "since": l.gap.since.Format(time.RFC3339Nano), "cause": cause,
	}}
	l.gap = gap{}
	l.take(e)
}

// write writes the lines that wait. Where that fails they go on waiting, and what got into
// the file of them is written over.
func (l *Log) write() error {
	if len(l.out) == 0 {
		return nil
	}
	if err := l.open(); err != nil {
		return l.failed(err)
	}
	if _, err := l.file.WriteAt(l.out, l.extent.bytes); err != nil {
		return l.failed(err)
	}
	if l.extent.bytes == 0 {
		l.begun = l.sealedAt
	}
	l.mu.Lock()
	l.extent.bytes += int64(len(l.out))
	l.state.Head = l.sealed
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	l.out = l.out[:0]
	if cap(l.out) > maxHeld {
		l.out = nil
	}
	if !l.dirty {
		l.dirty, l.synced = true, time.Now()
	}
	return nil
}

// failed notes why lines cannot be written.
func (l *Log) failed(err error) error {
	l.gap.cause = err
	return err
}

// open sees to it that there is a file to write to. One that somebody has removed is not
// written to any more: another one begins with the next entry.
func (l *Log) open() error {
	if l.file != nil {
		if l.linked() {
			return nil
		}
		l.cfg.Log.Error("the file of the audit log was removed or replaced; another one is begun", "file", l.file.Name())
		if err := l.next(l.written().Seq + 1); err != nil {
			return err
		}
	}
	flags := os.O_RDWR
	if l.extent.bytes == 0 {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(pathOf(l.cfg.Dir, l.extent.first), flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) && l.extent.bytes > 0 {
		l.begin(l.written().Seq + 1)
		return l.open()
	}
	if err != nil {
		return err
	}
	l.file, l.unnamed = f, flags&os.O_CREATE != 0
	return nil
}

// linked reports whether the file is where it should be.
func (l *Log) linked() bool {
	there, err := os.Stat(l.file.Name())
	if err != nil {
		return false
	}
	mine, err := l.file.Stat()
	return err == nil && os.SameFile(there, mine)
}

// written is the last entry that was written.
func (l *Log) written() Head { return l.State().Head }

// next has the next line written to another file.
func (l *Log) next(first uint64) error {
	err := l.file.Close()
	l.file, l.dirty = nil, false
	l.begin(first)
	return err
}

func (l *Log) begin(first uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extent = extent{first: first}
}

// sync has what was written put on the disk for good.
func (l *Log) sync() error {
	l.synced = time.Now()
	if l.file == nil {
		l.dirty = false
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	if l.unnamed {
		// Older files may only be dropped when this one is sure to be found.
		if err := syncDir(l.cfg.Dir); err != nil {
			return err
		}
	}
	l.dirty, l.unnamed = false, false
	return nil
}

// syncDir makes new names in a folder last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// fileBytes is how long a file gets.
func (l *Log) fileBytes() int64 { return min(l.cfg.MaxBytes/16, 16<<20) }

// full reports whether another file is to be begun.
func (l *Log) full() bool {
	return l.file != nil && (l.extent.bytes >= l.fileBytes() || time.Since(l.begun) > l.cfg.MaxAge/8)
}

// rotate begins another file.
func (l *Log) rotate() error {
	if err := l.sync(); err != nil {
		return err
	}
	l.cfg.Log.Info("audit log", "head", l.sealed.String())
	return l.next(l.sealed.Seq + 1)
}

// drop removes the files that are too old or too many, after it was written for good that
// they are.
func (l *Log) drop() error {
	list, err := segments(l.cfg.Dir)
	if err != nil {
		return err
	}
	var bytes int64
	for _, s := range list {
		bytes += s.size
	}
	old := 0
	for old < len(list)-1 && list[old].first != l.extent.first && (bytes > l.cfg.MaxBytes-l.fileBytes() || time.Since(list[old].changed) > l.cfg.MaxAge) {
		bytes -= list[old].size
		old++
	}
	if old == 0 {
		return nil
	}
	last, _, err := lastIn(pathOf(l.cfg.Dir, list[old-1].first), list[old-1].size)
	if err != nil {
		return err
	}
	if last == nil { // damaged; what was in it is known by where the next begins
		last = &Entry{Seq: list[old].first - 1}
	}
	l.take(Entry{What: LogDropped, Node: l.cfg.Node, At: time.Now().UTC(), Detail: map[string]string{
		"through": strconv.FormatUint(last.Seq, 10), "hash": last.Hash, "files": strconv.Itoa(old),
	}})
	if err := l.write(); err != nil {
		return err
	}
	if err := l.sync(); err != nil {
		return err
	}
	for _, s := range list[:old] {
		if gone := os.Remove(pathOf(l.cfg.Dir, s.first)); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// settle tells what has become of a round.
func (l *Log) settle(entries int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled += uint64(entries)
	switch {
	case err == nil && l.state.Failing != nil:
		l.cfg.Log.Info("the audit log can be written again", "lost", l.state.Lost)
		l.state.Failing, l.state.Since = nil, time.Time{}
	case err != nil:
		if l.state.Failing == nil {
			l.state.Since = time.Now().UTC()
			l.cfg.Log.Error("the audit log cannot be written; calls go on", "error", err)
		}
		l.state.Failing = err
	}
	l.some.Broadcast()
}

// finish ends the writing. What cannot be written now is lost.
func (l *Log) finish() {
	var err error
	if l.file != nil {
		err = errors.Join(l.sync(), l.file.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.state.Failing = errors.Join(l.state.Failing, err)
	}
	if rest := l.sealed.Seq - l.state.Head.Seq; rest > 0 {
		l.state.Lost += int64(rest)
		l.state.Failing = errors.Join(l.state.Failing, fmt.Errorf("the last %d entries are lost", rest))
	}
}
