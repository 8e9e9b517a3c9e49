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

// Kinds of faults of a log.
const (
	// FaultChanged: the line is not what its own hash says, or no entry at all.
	FaultChanged = "changed"
	// FaultRemoved: an entry is not there, and nothing says that it was dropped.
	FaultRemoved = "removed"
	// FaultMoved: an entry is there, but not where it belongs.
	FaultMoved = "moved"
	// FaultRewritten: the chain is whole, and not the one that somebody has seen before.
	FaultRewritten = "rewritten"
	// FaultCut: somebody has seen a later end.
	FaultCut = "cut"
)

// Fault is the first thing in a log that is not as it was written.
type Fault struct {
	// Seq is the number of the entry, or that it had.
	Seq  uint64 `json:"seq"`
	Kind string `json:"kind"`
	// Where is the file and the line; empty where the whole log is meant.
	Where string `json:"where,omitempty"`
	Text  string `json:"text"`
}

// Report is what a walk over a log has found. Fault is nil when the chain is whole, which
// says nothing of what may have come after Head.
type Report struct {
	Node string `json:"node"`
	// First and Head are the first and the last entry that are there, Entries how many.
	First   uint64 `json:"first"`
	Head    Head   `json:"head"`
	Entries uint64 `json:"entries"`
	// Dropped is the last entry that was removed as it is to be; 0 for none.
	Dropped uint64 `json:"dropped"`
	// Cuts counts the places where the log ended in the middle of an entry, as after a
	// crash, and Lost the entries that could not be written. The log itself says so.
	Cuts int   `json:"cuts"`
	Lost int64 `json:"lost"`
	// Unfinished is how many bytes at the end are no whole entry: one is being written, or
	// the node is down since.
	Unfinished int64 `json:"unfinished"`
	// Seen counts the heads, known from elsewhere, that the log was found to have.
	Seen  int    `json:"seen"`
	Fault *Fault `json:"fault"`
}

// Verify walks over the log in a directory, which may be written meanwhile, and finds the
// first entry that was changed, removed or moved. seen are heads of this log that are known
// from elsewhere: only by them can a chain be found out that was made anew, or cut off at
// its end. The error says that the log could not be read.
func Verify(ctx context.Context, dir string, seen ...Head) (Report, error) {
	for {
		r, err := verify(ctx, dir, seen)
		if !errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
			return r, err
		}
		// A file was dropped while it was to be read.
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
			w.fault(h.Seq, FaultRewritten, "", "two places have seen different entries of this number")
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

// walk is one walk over a log.
type walk struct {
	ctx    context.Context
	dir    string
	list   []segment
	report Report
	seen   map[uint64]string

	began   Head // what the first entry says of the one before it
	dropped Head // what the log says was dropped last
	// What was met that is no entry, since the last entry.
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
		w.fault(w.report.Head.Seq+1, FaultChanged, fmt.Sprintf("%s:%d", filepath.Base(path), n+1), "the line has no end")
	}
	return nil
}

// line takes the next line.
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
			w.fault(got.head.Seq, FaultChanged, where, "the first entry of all follows another one")
			return
		}
	case got.head.Seq != at.Seq+1 || got.prev != at.Hash:
		w.jump(got, where)
		return
	}
	if w.junk != nil && !w.told(line) {
		w.fault(at.Seq+1, FaultChanged, w.junkAt, "the line is no entry, or not the one that its hash says")
		return
	}
	w.junk, w.junkBytes = nil, 0
	if hash, ok := w.seen[got.head.Seq]; ok {
		if hash != got.head.Hash {
			w.fault(got.head.Seq, FaultRewritten, where, "another entry of this number was seen before: the log was made anew from here or before")
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

// jump says what it means that an entry does not follow the one before.
func (w *walk) jump(got sealed, where string) {
	at := w.report.Head
	switch {
	case w.junk != nil:
		w.fault(at.Seq+1, FaultChanged, w.junkAt, "the line is no entry, or not the one that its hash says")
	case got.head.Seq == at.Seq+1:
		w.fault(at.Seq, FaultRewritten, where, "entry %d follows another entry %d than the one that is there", got.head.Seq, at.Seq)
	case got.head.Seq <= at.Seq:
		w.fault(got.head.Seq, FaultMoved, where, "entry %d stands after entry %d", got.head.Seq, at.Seq)
	case w.later(at.Seq + 1):
		w.fault(at.Seq+1, FaultMoved, where, "entry %d stands where entry %d belongs, which comes later", got.head.Seq, at.Seq+1)
	case got.head.Seq == at.Seq+2:
		w.fault(at.Seq+1, FaultRemoved, where, "entry %d is not there: entry %d follows entry %d", at.Seq+1, got.head.Seq, at.Seq)
	default:
		w.fault(at.Seq+1, FaultRemoved, where, "entries %d to %d are not there: entry %d follows entry %d", at.Seq+1, got.head.Seq-1, got.head.Seq, at.Seq)
	}
}

// later reports whether an entry is anywhere in the log. It is asked once a walk.
func (w *walk) later(seq uint64) bool {
	found := false
	for _, s := range w.list {
		_, err := lines(pathOf(w.dir, s.first), 0, s.size, func(line []byte, _ int64) bool {
			got, _, ok := numbered(line)
			found = ok && got == seq
			return !found && w.ctx.Err() == nil
		})
		if found || err != nil {
			break // what cannot be read is not there
		}
	}
	return found
}

// told reports whether an entry says of what was met before it that it is the rest of one
// that was not written to its end.
func (w *walk) told(line []byte) bool {
	var e Entry
	return json.Unmarshal(line, &e) == nil && e.What == LogCut &&
		e.Detail["bytes"] == strconv.FormatInt(w.junkBytes, 10) && e.Detail["sha256"] == hex.EncodeToString(w.junk.Sum(nil))
}

// note takes what the log says of itself.
func (w *walk) note(line []byte) {
	var e Entry
	if json.Unmarshal(line, &e) != nil {
		return // it says nothing then
	}
	if w.report.Node == "" {
		w.report.Node = e.Node
	}
	switch e.What {
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

// end judges what only the whole log tells.
func (w *walk) end() {
	w.report.Dropped = w.dropped.Seq
	switch {
	case w.junk != nil:
		w.report.Unfinished += w.junkBytes
		w.fault(w.report.Head.Seq+1, FaultChanged, w.junkAt, "the last line is no entry, or not the one that its hash says")
		return
	case w.report.Entries > 0 && w.began.Seq > w.dropped.Seq:
		w.fault(1+w.dropped.Seq, FaultRemoved, "", "the log begins with entry %d, and nothing says that those before were dropped", w.report.First)
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
