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

// use is one use of a primitive. The fields up to done do not change; the ledger's
// lock guards the others.
type use struct {
	ledger *Ledger
	seq    int64
	name   string
	digest string
	began  time.Time
	left   time.Duration // of the call's time, when it was asked for
	done   chan struct{} // closed when outcome is set

	span     trace.Span      // of one that is entered
	data     json.RawMessage // the arguments, until it is performed or refused
	attempt  int             // the latest one that came to it
	replayed bool
	let      bool // it was performed, or is
	word     string
	answer   json.RawMessage
	heavy    bool // the answer is held until it was fetched, and no longer
	took     time.Duration
	told     string // the sequence that the caller was told; empty when it was not asked
	given    [32]byte
}

// settle gives a use its outcome. The first one stands.
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

// traced ends the span of a use that has its outcome.
func (x *use) traced(line surfaces.UseRecord) {
	if x.span.IsRecording() {
		x.span.SetAttributes(attribute.String(tracing.Name, line.Name), attribute.Int64(tracing.Seq, line.Seq), attribute.String(tracing.Outcome, line.Outcome))
	}
	x.span.End()
}

// decide notes the outcome, if it is the first, and gives the use's line where the record
// keeps it.
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
	case l.held+len(o.answer) > HoldBytes:
		o = failure(ErrorFailed, "the call holds more than %d MiB of results that its code has not fetched", HoldBytes>>20)
	}
	l.held += len(o.answer)
	x.answer, x.word, x.took = o.answer, o.word, time.Since(x.began)
	x.heavy = l.held > KeepBytes
	kept = x.let
	if !x.let {
		x.data = nil
		kept = l.refuse(x)
	}
	return x.line(), kept, true
}

// refuse records a use that was not performed, if there is room. l.mu is held.
func (l *Ledger) refuse(x *use) (kept bool) {
	if l.refused++; l.refused <= KeepRefused {
		l.record = append(l.record, x)
		return true
	}
	if l.latest[x.seq] == x {
		delete(l.latest, x.seq)
	}
	return false
}

// line is the use in the record. l.mu is held.
func (x *use) line() surfaces.UseRecord {
	r := surfaces.UseRecord{Seq: x.seq, Name: x.name, Digest: x.digest, Outcome: x.word, Replayed: x.replayed}
	took := x.took
	if r.Outcome == "" {
		r.Outcome, took = surfaces.UseRunning, time.Since(x.began)
	}
	r.MS = surfaces.Milliseconds(took)
	return r
}

// wait gives the outcome of a use; nil when ctx ends first.
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
		return failure(ErrorForgotten, "primitives.%s was performed before, and what it gave is no longer held: the outcomes of a call are kept up to %d MiB", x.name, KeepBytes>>20).answer
	case x.heavy:
		l.held -= len(answer)
		x.answer = nil
	}
	return answer
}
