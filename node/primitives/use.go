package primitives

import (
	"context"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/locusrun/locus/surfaces"
	"github.com/locusrun/locus/surfaces/tracing"
)

// use is one use of a primitive. The ledger's lock guards the fields after done; those up
// to done do not change.
type use struct {
	ledger *Ledger
	seq    int64
	name   string
	digest string
	began  time.Time
	left   time.Duration // of the call's time, when the use was asked for
	done   chan struct{} // closed once the outcome is final and Settled has returned

	span     trace.Span      // set if enter registered the use
	data     json.RawMessage // arguments; dropped when it is performed or refused
	attempt  int             // the latest attempt that asked for it
	replayed bool            // a second attempt got this use
	allowed  bool            // it was not refused: it was performed, or is being performed
	word     string          // outcome's kind; empty while it has none
	answer   json.RawMessage
	heavy    bool // not kept for a second attempt: dropped once the code has fetched it
	took     time.Duration
	told     string   // the sequence number in the caller's event; empty if it was not asked
	given    [32]byte // SHA-256 of the caller's first answer
}

// settle sets the outcome of a use; only the first call has an effect.
func (x *use) settle(o outcome) bool {
	line, kept, first := x.decide(o)
	if !first {
		return false
	}
	if tell := x.ledger.cfg.Settled; kept && tell != nil {
		tell(line)
	}
	x.traced(line)
	close(x.done)
	return true
}

// traced ends the use's span.
func (x *use) traced(line surfaces.UseRecord) {
	if x.span.IsRecording() {
		x.span.SetAttributes(attribute.String(tracing.Name, line.Name), attribute.Int64(tracing.Seq, line.Seq), attribute.String(tracing.Outcome, line.Outcome))
	}
	x.span.End()
}

// decide sets the outcome if there is none yet. It returns the record, and whether the
// ledger keeps it.
func (x *use) decide(o outcome) (line surfaces.UseRecord, kept, first bool) {
	l := x.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.word != "" {
		return line, false, false
	}
	switch {
	case l.over:
		o = ended
	case l.held+len(o.answer) > MaxHeldBytes:
		o = failure(ErrorFailed, "the call holds more than %d MiB of results that its code has not fetched", MaxHeldBytes>>20)
	}
	l.held += len(o.answer)
	x.answer, x.word, x.took = o.answer, o.word, time.Since(x.began)
	x.heavy = l.held > MaxReplayBytes
	kept = x.allowed
	if !x.allowed {
		x.data = nil
		kept = l.refuse(x)
	}
	return x.line(), kept, true
}

// refuse records a refused use, if there is room. l.mu is held.
func (l *Ledger) refuse(x *use) (kept bool) {
	if l.refused++; l.refused <= MaxRefused {
		l.record = append(l.record, x)
		return true
	}
	if l.latest[x.seq] == x {
		delete(l.latest, x.seq)
	}
	return false
}

// line returns the record of the use. l.mu is held.
func (x *use) line() surfaces.UseRecord {
	r := surfaces.UseRecord{Seq: x.seq, Name: x.name, Digest: x.digest, Outcome: x.word, Replayed: x.replayed}
	took := x.took
	if r.Outcome == "" {
		r.Outcome, took = surfaces.UseRunning, time.Since(x.began)
	}
	r.MS = surfaces.Milliseconds(took)
	return r
}

// wait returns the answer of a use; nil when ctx ends first.
func (x *use) wait(ctx context.Context) json.RawMessage {
	select {
	case <-x.done:
	case <-ctx.Done():
		return nil
	}
	l := x.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	answer := x.answer
	switch {
	case answer == nil && l.over:
		return ended.answer
	case answer == nil:
		return failure(ErrorForgotten, "primitives.%s was performed before, and what it gave is no longer held: the outcomes of a call are kept up to %d MiB", x.name, MaxReplayBytes>>20).answer
	case x.heavy:
		l.held -= len(answer)
		x.answer = nil
	}
	return answer
}
