package primitives

import (
	"cmp"
	"slices"

	"github.com/locusrun/locus/surfaces"
)

// show tells what a use shows beside its result.
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

// Count gives how many uses were performed, each once, however many attempts came
// to it.
func (l *Ledger) Count() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.performed
}

// Display gives what the uses have shown.
func (l *Ledger) Display() []surfaces.Display {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.display)
}

// Record lists the uses so far in the order of their sequences. Of two attempts that
// went different ways it has both. Of those that were not performed only the first
// KeepRefused are there.
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

// Weight is roughly how many bytes the ledger holds.
func (l *Ledger) Weight() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held + l.shown + 512*(len(l.record)+len(l.latest))
}
