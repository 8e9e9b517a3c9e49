package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path/filepath"
	"strconv"
)

// The kinds of faults that Verify finds.
const (
	// FaultChanged: the line does not match its hash, or is not an entry.
	FaultChanged = "changed"
	// FaultRemoved: an entry is missing, and no log_dropped entry accounts for it.
	FaultRemoved = "removed"
	// FaultMoved: an entry is out of order.
	FaultMoved = "moved"
	// FaultRewritten: the chain is intact, but is not the one that was seen before.
	FaultRewritten = "rewritten"
	// FaultCut: an entry after the end of the log was seen before.
	FaultCut = "cut"
)

// Fault is the first damage found in a log.
type Fault struct {
	// Seq is the number that the entry has, or should have.
	Seq  uint64 `json:"seq"`
	Kind string `json:"kind"`
	// Where is FILE:LINE; empty when no single line is at fault.
	Where string `json:"where,omitempty"`
	Text  string `json:"text"`
}

// Report is the result of Verify. If Fault is nil the chain is intact up to Head; that says
// nothing about entries after it, unless they were seen.
type Report struct {
	Node string `json:"node"`
	// First and Head are the first and the last entry in the log, Entries is their number.
	First   uint64 `json:"first"`
	Head    Head   `json:"head"`
	Entries uint64 `json:"entries"`
	// Dropped is the last entry that was removed because of its age or the size of the log;
	// 0 if none was.
	Dropped uint64 `json:"dropped"`
	// Cuts counts the incomplete entries, as a crash leaves them. Lost counts the entries
	// that could not be written. Both come from the log's own log_cut and log_gap entries.
	Cuts int   `json:"cuts"`
	Lost int64 `json:"lost"`
	// Unfinished is how many bytes at the end are not a whole entry: one is being written,
	// or the node has crashed.
	Unfinished int64 `json:"unfinished"`
	// Seen counts the heads passed to Verify that the log contains.
	Seen  int    `json:"seen"`
	Fault *Fault `json:"fault"`
}

// Verify checks the log in a directory, which may be written meanwhile, and reports the
// first entry that was changed, removed or moved. seen are heads of this log that somebody
// else has kept: only with them can a log be detected that was cut off at its end or
// computed again. The error says that the log could not be read.
func Verify(ctx context.Context, dir string, seen ...Head) (Report, error) {
	for {
		r, err := verify(ctx, dir, seen)
		if !errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
			return r, err
		}
		// A file was dropped before it was read: start again.
	}
}

func verify(ctx context.Context, dir string, seen []Head) (Report, error) {
	list, err := segments(dir)
	if err != nil {
		return Report{}, fmt.Errorf("audit: %w", err)
	}
	w := walk{ctx: ctx, dir: dir, list: list, report: Report{Head: genesis}, seen: make(map[uint64]string, len(seen))}
	for _, h := range seen {
		if have, ok := w.seen[h.Seq]; ok && have != h.Hash {
			w.fault(h.Seq, FaultRewritten, "", "two different entries with this number were seen")
			return w.report, nil
		}
		w.seen[h.Seq] = h.Hash
	}
	for i, s := range list {
		if err := w.segment(s, i == len(list)-1); err != nil {
			return w.report, err
		}
		if w.report.Fault != nil {
			return w.report, nil
		}
	}
	w.end()
	return w.report, nil
}

// walk is the state of one pass over a log.
type walk struct {
	ctx    context.Context
	dir    string
	list   []segment
	report Report
	seen   map[uint64]string

	began   Head // the entry before the first one, as the first one names it
	dropped Head // the last entry that log_dropped entries name
	// The lines since the last entry that are not entries.
	junk      hash.Hash
	junkBytes int64
	junkAt    string
}

func (w *walk) fault(seq uint64, kind, where, format string, args ...any) {
	w.report.Fault = &Fault{Seq: seq, Kind: kind, Where: where, Text: fmt.Sprintf(format, args...)}
}

func (w *walk) segment(s segment, last bool) error {
	path := pathOf(w.dir, s.first)
	n := 0
	rest, err := lines(path, 0, s.size, func(line []byte, _ int64) bool {
		n++
		w.line(line, fmt.Sprintf("%s:%d", filepath.Base(path), n))
		return w.report.Fault == nil && w.ctx.Err() == nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("audit: %w", err)
	case w.ctx.Err() != nil:
		return context.Cause(w.ctx)
	case rest == 0 || w.report.Fault != nil:
	case last:
		w.report.Unfinished = rest
	default:
		w.fault(w.report.Head.Seq+1, FaultChanged, fmt.Sprintf("%s:%d", filepath.Base(path), n+1), "the line is incomplete")
	}
	return nil
}

// line checks the next line.
func (w *walk) line(line []byte, where string) {
	got, ok := unseal(line)
	if !ok {
		if w.junk == nil {
			w.junk, w.junkAt = sha256.New(), where
		}
		w.junk.Write(line)
		w.junkBytes += int64(len(line))
		return
	}
	at := w.report.Head
	switch {
	case w.report.Entries == 0:
		w.began = Head{got.head.Seq - 1, got.prev}
		w.report.First = got.head.Seq
		if got.head.Seq == 1 && got.prev != genesis.Hash || got.head.Seq == 0 {
			w.fault(got.head.Seq, FaultChanged, where, "the very first entry refers to an earlier one")
			return
		}
	case got.head.Seq != at.Seq+1 || got.prev != at.Hash:
		w.jump(got, where)
		return
	}
	if w.junk != nil && !w.accountsFor(line) {
		w.fault(at.Seq+1, FaultChanged, w.junkAt, "the line is not an entry, or does not match its hash")
		return
	}
	w.junk, w.junkBytes = nil, 0
	if hash, ok := w.seen[got.head.Seq]; ok {
		if hash != got.head.Hash {
			w.fault(got.head.Seq, FaultRewritten, where, "another entry with this number was seen before: the log was rewritten from here or earlier")
			return
		}
		w.report.Seen++
	}
	w.report.Head = got.head
	w.report.Entries++
	if w.report.Entries == 1 || bytes.Contains(line, []byte(`"what":"log_`)) {
		w.note(line)
	}
}

// jump reports why an entry does not follow the one before it.
func (w *walk) jump(got sealed, where string) {
	at := w.report.Head
	switch {
	case w.junk != nil:
		w.fault(at.Seq+1, FaultChanged, w.junkAt, "the line is not an entry, or does not match its hash")
	case got.head.Seq == at.Seq+1:
		w.fault(at.Seq, FaultRewritten, where, "entry %d follows another entry %d than the one in the log", got.head.Seq, at.Seq)
	case got.head.Seq <= at.Seq:
		w.fault(got.head.Seq, FaultMoved, where, "entry %d comes after entry %d", got.head.Seq, at.Seq)
	case w.later(at.Seq + 1):
		w.fault(at.Seq+1, FaultMoved, where, "entry %d is in the place of entry %d, which comes later", got.head.Seq, at.Seq+1)
	case got.head.Seq == at.Seq+2:
		w.fault(at.Seq+1, FaultRemoved, where, "entry %d is missing: entry %d follows entry %d", at.Seq+1, got.head.Seq, at.Seq)
	default:
		w.fault(at.Seq+1, FaultRemoved, where, "entries %d to %d are missing: entry %d follows entry %d", at.Seq+1, got.head.Seq-1, got.head.Seq, at.Seq)
	}
}

// later reports whether an entry is anywhere in the log. It reads the whole log, at most
// once per walk.
func (w *walk) later(seq uint64) bool {
	found := false
	for _, s := range w.list {
		_, err := lines(pathOf(w.dir, s.first), 0, s.size, func(line []byte, _ int64) bool {
			got, _, ok := numbered(line)
			found = ok && got == seq
			return !found && w.ctx.Err() == nil
		})
		if found || err != nil {
			break // an unreadable segment does not have it
		}
	}
	return found
}

// accountsFor reports whether the line is a log_cut entry that accounts for the junk before it.
func (w *walk) accountsFor(line []byte) bool {
	var e Entry
	return json.Unmarshal(line, &e) == nil && e.Kind == LogCut &&
		e.Detail["bytes"] == strconv.FormatInt(w.junkBytes, 10) && e.Detail["sha256"] == hex.EncodeToString(w.junk.Sum(nil))
}

// note evaluates what an entry says about the log itself.
func (w *walk) note(line []byte) {
	var e Entry
	if json.Unmarshal(line, &e) != nil {
		return // not an entry in JSON, though its hash is right
	}
	if w.report.Node == "" {
		w.report.Node = e.Node
	}
	switch e.Kind {
	case LogCut:
		w.report.Cuts++
	case LogGap:
		if n, err := strconv.ParseInt(e.Detail["entries"], 10, 64); err == nil {
			w.report.Lost += n
		}
	case LogDropped:
		if through, err := strconv.ParseUint(e.Detail["through"], 10, 64); err == nil {
			w.dropped = Head{through, e.Detail["hash"]}
		}
	}
}

// end makes the checks that need the whole log.
func (w *walk) end() {
	w.report.Dropped = w.dropped.Seq
	switch {
	case w.junk != nil:
		w.report.Unfinished += w.junkBytes
		w.fault(w.report.Head.Seq+1, FaultChanged, w.junkAt, "the last line is not an entry, or does not match its hash")
		return
	case w.report.Entries > 0 && w.began.Seq > w.dropped.Seq:
		w.fault(1+w.dropped.Seq, FaultRemoved, "", "the log begins with entry %d, and no entry says that earlier ones were dropped", w.report.First)
		return
	case w.report.Entries > 0 && w.began.Seq > 0 && w.began.Seq == w.dropped.Seq && w.dropped.Hash != "" && w.began.Hash != w.dropped.Hash:
		w.fault(w.report.First, FaultRewritten, "", "entry %d does not follow the entry that was dropped last", w.report.First)
		return
	}
	for seq := range w.seen {
		if f := w.report.Fault; seq > w.report.Head.Seq && (f == nil || seq > f.Seq) {
			w.fault(seq, FaultCut, "", "the log ends with entry %d, and entry %d was seen before", w.report.Head.Seq, seq)
		}
	}
}
