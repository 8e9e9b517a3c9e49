package primitives

import (
	"cmp"
	"slices"

	"github.com/locusrun/locus/surfaces"
)

// show sends what a use displays beside its result.
func (l *Ledger) show(display []surfaces.Display) {
	for _, d := range display {
		l.mu.Lock()
		room := !l.over && l.shown+len(d.Data) <= MaxBytes
		if room {
			l.shown += len(d.Data)
			l.display = append(l.display, d)
		}
		over := l.over
		l.mu.Unlock()
		switch {
		case room:
			l.cfg.Caller.Event(surfaces.Event{Kind: surfaces.EventDisplay, Display: &d})
		case !over:
			l.cfg.Caller.Event(surfaces.Event{
				Kind: surfaces.EventNotice, Name: "display_dropped",
				Text: "what the primitives of the call show is over 16 MiB: a " + d.MIME + " is not shown",
			})
		}
	}
}

// Count returns how many uses were performed. A use shared by two attempts counts once.
func (l *Ledger) Count() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.performed
}

// Display returns what the uses have displayed.
func (l *Ledger) Display() []surfaces.Display {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.display)
}

// Record lists the uses so far by sequence number. Where two attempts used different things
// under one number it has both. Of the refused uses only the first MaxRefused are
// recorded.
func (l *Ledger) Record() []surfaces.UseRecord {
	list := []surfaces.UseRecord{}
	if l == nil {
		return list
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.record {
		list = append(list, x.line())
	}
	slices.SortStableFunc(list, func(a, b surfaces.UseRecord) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

// Size estimates the bytes that the ledger holds.
func (l *Ledger) Size() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held + l.shown + 512*(len(l.record)+len(l.latest))
}
