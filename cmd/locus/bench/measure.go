package bench

import (
	"context"
	"math"
	"slices"
	"time"
)

const (
	// warmups are the first rounds, which do not count.
	warmups = 3
	// leastRounds and mostRounds bound the rounds, whatever the time.
	leastRounds = 5
	mostRounds  = 5000
)

// Figures summarises the Rounds measurements of one thing.
type Figures struct {
	Rounds int     `json:"rounds"`
	Min    float64 `json:"least"`
	Median float64 `json:"median"`
	// P99 is the 99th percentile; the maximum of fewer than 100 rounds.
	P99 float64 `json:"p99"`
}

// figures summarises measurements; there must be at least one.
func figures(seen []float64) Figures {
	seen = slices.Sorted(slices.Values(seen))
	return Figures{
		Rounds: len(seen), Min: seen[0], Median: seen[len(seen)/2],
		P99: seen[int(math.Ceil(0.99*float64(len(seen))))-1],
	}
}

// action does something once and returns the time that counts.
type action func(context.Context) (time.Duration, error)

// timed makes an action whose whole time counts.
func timed(do func(context.Context) error) action {
	return func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		err := do(ctx)
		return time.Since(began), err
	}
}

// turns alternates two actions until the time is over and returns their times; b may be
// nil.
func turns(ctx context.Context, within time.Duration, a, b action) (of [2][]time.Duration, err error) {
	var over time.Time
	for round := -warmups; ; round++ {
		if round == 0 {
			over = time.Now().Add(within)
		}
		if round >= leastRounds && (round >= mostRounds || time.Now().After(over)) {
			return of, nil
		}
		for i, do := range []action{a, b} {
			if do == nil {
				continue
			}
			took, err := do(ctx)
			if err != nil {
				return of, err
			}
			if round >= 0 {
				of[i] = append(of[i], took)
			}
		}
	}
}
