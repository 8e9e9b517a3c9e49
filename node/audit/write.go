package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// run is the writer goroutine. It ends once the log is closed and the queue was written, as
// far as that is possible.
func (l *Log) run() {
	defer close(l.done)
	defer l.finish()
	for {
		closing := l.await()
		l.round()
		if closing {
			l.round() // the first round may have left a log_gap entry to write
			return
		}
	}
}

// await waits until there is work, then lingers for more entries, so that they are written
// together.
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
		enough := closing || l.flushing > 0 || len(l.queue) >= maxQueue/2 || len(l.queue) == 0
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

// due returns a channel that fires when a retry or a sync is due; nil when neither is
// pending.
func (l *Log) due() <-chan time.Time {
	switch {
	case len(l.out) > 0 || l.gap.entries > 0:
		return time.After(retryEvery)
	case l.dirty:
		return time.After(time.Until(l.synced.Add(syncEvery)))
	}
	return nil
}

// round takes the queue, writes and syncs it, and starts a new file and drops old ones
// where that is due.
func (l *Log) round() {
	l.mu.Lock()
	batch, prune := l.queue, l.prune
	l.queue, l.weight, l.prune = nil, 0, false
	l.room.Broadcast()
	l.mu.Unlock()
	for i := range batch {
		l.encode(batch[i])
	}
	err := l.write()
	if err == nil && l.gap.entries > 0 {
		l.logGap()
		err = l.write()
	}
	if err == nil && l.dirty && time.Since(l.synced) >= syncEvery {
		err = l.sync()
	}
	if err == nil && l.full() {
		err = l.rotate()
		prune = true
	}
	if err == nil && prune {
		if err := l.drop(); err != nil {
			l.cfg.Log.Warn("old files of the audit log could not be dropped", "error", err)
		}
	}
	l.settle(len(batch), err)
}

// encode makes the line of an entry. While lines cannot be written they are held up to
// maxHeld; entries beyond that are lost and counted.
func (l *Log) encode(e Entry) {
	if l.gap.entries > 0 || len(l.out) >= maxHeld && l.write() != nil {
		l.countLost(nil)
		return
	}
	out, head, err := seal(l.out, l.sealed, e)
	if err != nil {
		l.countLost(err)
		return
	}
	l.out, l.sealed, l.sealedAt = out, head, e.At
}

func (l *Log) countLost(cause error) {
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

// logGap encodes the entry that says how many entries were lost.
func (l *Log) logGap() {
	cause := "it cannot be told"
	if l.gap.cause != nil {
		cause = l.gap.cause.Error()
	}
	e := Entry{Kind: LogGap, Node: l.cfg.Node, At: time.Now().UTC(), Detail: map[string]string{
		"entries": strconv.FormatInt(l.gap.entries, 10), "since": l.gap.since.Format(time.RFC3339Nano), "cause": cause,
	}}
	l.gap = gap{}
	l.encode(e)
}

// write writes the held lines. When that fails they stay held, and the next attempt
// overwrites what part of them got into the file.
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

// failed keeps the error as the cause for a log_gap entry.
func (l *Log) failed(err error) error {
	l.gap.cause = err
	return err
}

// open makes sure that there is a file to write to. If somebody has removed or replaced the
// current file, a new one starts with the next entry.
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
	l.file, l.newFile = f, flags&os.O_CREATE != 0
	return nil
}

// linked reports whether the open file is still the one under its name.
func (l *Log) linked() bool {
	there, err := os.Stat(l.file.Name())
	if err != nil {
		return false
	}
	mine, err := l.file.Stat()
	return err == nil && os.SameFile(there, mine)
}

// written returns the head of the last entry that was written.
func (l *Log) written() Head { return l.State().Head }

// next closes the file; the next line goes to a new one that starts with entry first.
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

// sync syncs what was written to the disk.
func (l *Log) sync() error {
	l.synced = time.Now()
	if l.file == nil {
		l.dirty = false
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	if l.newFile {
		// The log_dropped entry must survive a crash before the older files go, and for
		// that this file's name must be on the disk too.
		if err := syncDir(l.cfg.Dir); err != nil {
			return err
		}
	}
	l.dirty, l.newFile = false, false
	return nil
}

// syncDir syncs the names in a directory.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// fileBytes is the size at which a new file is started.
func (l *Log) fileBytes() int64 { return min(l.cfg.MaxBytes/16, 16<<20) }

// full reports whether a new file is due, by size or by age.
func (l *Log) full() bool {
	return l.file != nil && (l.extent.bytes >= l.fileBytes() || time.Since(l.begun) > l.cfg.MaxAge/8)
}

// rotate syncs and closes the file, so that the next line starts a new one.
func (l *Log) rotate() error {
	if err := l.sync(); err != nil {
		return err
	}
	l.cfg.Log.Info("audit log", "head", l.sealed.String())
	return l.next(l.sealed.Seq + 1)
}

// drop removes the oldest files beyond MaxBytes or MaxAge. The entry that records this is
// synced first.
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
	if last == nil { // damaged: the next file's name gives the number
		last = &Entry{Seq: list[old].first - 1}
	}
	l.encode(Entry{Kind: LogDropped, Node: l.cfg.Node, At: time.Now().UTC(), Detail: map[string]string{
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

// settle reports the result of a round to Flush and State.
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
	l.progress.Broadcast()
}

// finish syncs and closes the file, and counts the lines that are still held as lost.
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
