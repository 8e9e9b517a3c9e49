package primitives

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// BenchmarkUse is what the ledger adds to one use: the rules, the digest, the record.
// The ratio is to a hand-over to a goroutine and back, the least that a use of any
// provider costs.
func BenchmarkUse(b *testing.B) {
	h := newHost(b, func(c *Config) { c.Budget = NewBudget(1 << 30) })
	h.cfg.Providers = map[string]Provider{"db": quiet{}}
	data := json.RawMessage(`{"item":"apple","count":3}`)
	seq := 0
	for b.Loop() {
		seq++
		wait := h.Ask(surfaces.Use{CallID: "c", Actor: "a", Attempt: 1, Seq: strconv.Itoa(seq), Name: "db.get", Data: data})
		if wait(context.Background()) == nil {
			b.Fatal("no answer")
		}
	}
	per := float64(b.Elapsed()) / float64(b.N)
	b.ReportMetric(per/bare(b.N), "x-bare")
}

// bare gives the nanoseconds of a hand-over and back.
func bare(n int) float64 {
	there, back := make(chan json.RawMessage), make(chan json.RawMessage)
	go func() {
		for m := range there {
			back <- m
		}
	}()
	defer close(there)
	began := time.Now()
	for range n {
		there <- nil
		<-back
	}
	return float64(time.Since(began)) / float64(n)
}

// quiet is a provider that does nothing.
type quiet struct{}

func (quiet) Functions(context.Context) ([]Function, error) {
	return []Function{{Name: "db.get"}}, nil
}
func (quiet) Call(context.Context, string, json.RawMessage) (Value, error) { return Value{}, nil }
