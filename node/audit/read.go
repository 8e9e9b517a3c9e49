package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"time"
)

// Filter selects entries; zero fields match all. Limit bounds how many of the latest are
// returned, default DefaultLimit, at most MaxLimit.
type Filter struct {
	From   time.Time `json:"from,omitzero"`  // inclusive
	Until  time.Time `json:"until,omitzero"` // exclusive
	Actor  string    `json:"actor,omitempty"`
	CallID string    `json:"call_id,omitempty"`
	Kind   Kind      `json:"what,omitempty"`
	Limit  int       `json:"limit,omitempty"`
}

// Limits of one answer.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
	// maxAnswer bounds the estimated size of an answer, in bytes.
	maxAnswer = 8 << 20
)

// Page is the answer to a Filter, oldest entry first. More says that older entries match
// too. Through is the number of the last entry that was searched.
type Page struct {
	Entries []Entry `json:"entries"`
	More    bool    `json:"more"`
	Through uint64  `json:"through"`
}

// match decodes a line if it matches. A search for the encoded fields first spares decoding
// most other lines.
func (f *Filter) match(line []byte) (Entry, bool) {
	for _, want := range []struct{ name, value string }{{"actor", f.Actor}, {"call_id", f.CallID}, {"what", string(f.Kind)}} {
		if want.value == "" {
			continue
		}
		value, err := json.Marshal(want.value)
		if err != nil || !bytes.Contains(line, append([]byte(`"`+want.name+`":`), value...)) {
			return Entry{}, false
		}
	}
	e, ok := decode(line)
	fits := ok && (f.Actor == "" || e.Actor == f.Actor) && (f.CallID == "" || e.CallID == f.CallID) && (f.Kind == "" || e.Kind == f.Kind) &&
		!e.At.Before(f.From) && (f.Until.IsZero() || e.At.Before(f.Until))
	return e, fits
}

// Read returns the latest matching entries, including all that were added before the call.
func (l *Log) Read(ctx context.Context, f Filter) (Page, error) {
	l.Flush()
	l.mu.Lock()
	to, through := l.extent, l.state.Head.Seq
	l.mu.Unlock()
	if f.Limit <= 0 {
		f.Limit = DefaultLimit
	}
	f.Limit = min(f.Limit, MaxLimit)
	page := Page{Entries: []Entry{}, Through: through}
	list, err := l.readable(to)
	size := 0
	for i := len(list) - 1; i >= 0 && err == nil && !page.More; i-- {
		var found []Entry
		older := false // the segment starts before f.From: no older one is needed
		_, err = lines(pathOf(l.cfg.Dir, list[i].first), 0, list[i].size, func(line []byte, end int64) bool {
			e, ok := f.match(line)
			if end == int64(len(line)) && !f.From.IsZero() {
				first, ok := decode(line)
				older = ok && first.At.Before(f.From)
			}
			if ok {
				found = append(found, e)
				size += e.weight()
				for len(found)+len(page.Entries) > f.Limit || size > maxAnswer && len(found) > 1 {
					size -= found[0].weight()
					found, page.More = found[1:], true
				}
			}
			return ctx.Err() == nil
		})
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // dropped meanwhile
		}
		page.Entries = append(found, page.Entries...)
		if older {
			break
		}
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return page, err
}

// readable lists the segments up to an extent, the last one with its readable size.
func (l *Log) readable(to extent) ([]segment, error) {
	list, err := segments(l.cfg.Dir)
	list = slices.DeleteFunc(list, func(s segment) bool { return s.first > to.first })
	if n := len(list); n > 0 && list[n-1].first == to.first {
		list[n-1].size = min(list[n-1].size, to.bytes)
	}
	return list, err
}

// Follow passes the matching entries after the given number to emit, first those still in
// the log, then new ones, until ctx ends or emit fails. A slow reader misses only entries
// that are dropped before it gets to them. If the log ends before the given number, because
// it was lost and started again, Follow starts at its end.
func (l *Log) Follow(ctx context.Context, f Filter, after uint64, emit func(Entry) error) error {
	after = min(after, l.State().Head.Seq)
	list, err := segments(l.cfg.Dir)
	if err != nil {
		return err
	}
	var at extent
	for _, s := range list {
		if s.first <= after+1 {
			at.first = s.first
		}
	}
	for {
		l.mu.Lock()
		to, changed := l.extent, l.changed
		l.mu.Unlock()
		if err := l.linesBetween(ctx, at, to, func(line []byte) error {
			e, ok := f.match(line)
			if !ok || e.Seq <= after {
				return nil
			}
			return emit(e)
		}); err != nil {
			return err
		}
		at = to
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// linesBetween passes the lines between two extents to emit.
func (l *Log) linesBetween(ctx context.Context, from, to extent, emit func(line []byte) error) error {
	list, err := l.readable(to)
	if err != nil {
		return err
	}
	for _, s := range list {
		begin := int64(0)
		switch {
		case s.first < from.first:
			continue
		case s.first == from.first:
			begin = from.bytes
		}
		var failed error
		_, err := lines(pathOf(l.cfg.Dir, s.first), begin, max(begin, s.size), func(line []byte, _ int64) bool {
			if failed = emit(line); failed == nil && ctx.Err() != nil {
				failed = context.Cause(ctx)
			}
			return failed == nil
		})
		if failed != nil {
			return failed
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
