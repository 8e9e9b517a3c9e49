package registry

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// bare is a state machine that does nothing, the baseline.
type bare struct{}

func (bare) Apply(*raft.Log) any                  { return nil }
func (bare) Snapshot() (raft.FSMSnapshot, error)  { return nil, raft.ErrNothingNewToSnapshot }
func (bare) Restore(snapshot io.ReadCloser) error { return snapshot.Close() }

// openBare is raft with our store and configuration, and nothing on top.
func openBare(b *testing.B) *raft.Raft {
	c, err := Config{Dir: b.TempDir(), NodeID: "n1"}.validate()
	if err != nil {
		b.Fatal(err)
	}
	dir, err := openDirectory(c.Dir, c.NodeID, raftLog{to: c.Log})
	if err != nil {
		b.Fatal(err)
	}
	leads := make(chan bool, 8)
	conf := c.raft(leads)
	transport := c.transport()
	if err := dir.bootstrap(conf, transport); err != nil {
		b.Fatal(err)
	}
	r, err := raft.NewRaft(conf, bare{}, dir.store, dir.store, dir.snapshots, transport)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Shutdown().Error(); err != nil {
			b.Error(err)
		}
		if err := dir.store.Close(); err != nil {
			b.Error(err)
		}
	})
	select {
	case <-leads:
	case <-time.After(patient):
		b.Fatal("no leader")
	}
	return r
}

// BenchmarkClaim measures a claim (and the close that frees its place, counted
// too) against a bare Apply of as many bytes on the same kind of store, in turns,
// and reports the medians and their ratio. Both sync every command to the disk.
func BenchmarkClaim(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			floor := openBare(b)
			r := open(b, Config{Dir: b.TempDir()})
			life := peopled(b, r)
			for i := range callers {
				if _, err := r.CreateActor(within60(b), CreateActor{Name: fmt.Sprint("a", i), ID: "id"}); err != nil {
					b.Fatal(err)
				}
			}
			ctx := context.Background()
			claim := func(i int) command {
				return ClaimSession{Key: key(fmt.Sprint("a", i), 1), Name: "bench", Owner: "n1", Incarnation: life}
			}
			data, err := encodeCommand(claim(0), Proposal{Request: NewRequestID(), At: At(time.Now())}, level)
			if err != nil {
				b.Fatal(err)
			}
			turns := map[string][]time.Duration{}
			measure := func(what string, each func(i int) error) {
				started := time.Now()
				var all sync.WaitGroup
				for i := range callers {
					all.Go(func() {
						if err := each(i); err != nil {
							b.Error(err)
						}
					})
				}
				all.Wait()
				turns[what] = append(turns[what], time.Since(started))
			}
			for b.Loop() {
				measure("bare", func(int) error { return floor.Apply(data, 0).Error() })
				measure("claim", func(i int) error {
					out, err := propose[ClaimOutcome](ctx, r, claim(i))
					if err == nil && out.Result != Claimed {
						err = fmt.Errorf("%+v", out)
					}
					return err
				})
				measure("close", func(i int) error {
					_, err := r.CloseSession(ctx, CloseSession{Key: key(fmt.Sprint("a", i), 1)})
					return err
				})
			}
			median := func(what string) float64 {
				slices.Sort(turns[what])
				return float64(turns[what][len(turns[what])/2]) / float64(time.Microsecond)
			}
			b.ReportMetric(median("bare"), "bare-µs")
			b.ReportMetric(median("claim"), "claim-µs")
			b.ReportMetric(median("close"), "close-µs")
			b.ReportMetric(median("claim")/median("bare"), "claim/bare")
		})
	}
}

// BenchmarkApply is what the state machine itself costs for one command.
func BenchmarkApply(b *testing.B) {
	f := seeded(b)
	claims := make([]*raft.Log, 0, 2)
	for _, c := range []command{ClaimSession{Key: key("ada", 1), Name: "x", Owner: "n1", Incarnation: 1}, CloseSession{Key: key("ada", 1)}} {
		claims = append(claims, entry(b, 1, c))
	}
	b.ReportAllocs()
	for b.Loop() {
		f.index++
		e := *claims[f.index%2]
		e.Index = f.index
		e.Data = slices.Clone(e.Data)
		copy(e.Data[2:18], slices.Concat(make([]byte, 8), logKey(f.index)))
		if got := f.m.Apply(&e).(reply); got.verdict != accepted {
			b.Fatalf("%+v", got)
		}
	}
}

// BenchmarkRead is one look-up of a session in a fresh view.
func BenchmarkRead(b *testing.B) {
	f := seeded(b)
	for i := range 20 {
		claim(b, f, key("ada", i), "")
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := f.view().Session(key("ada", 7)); !ok {
			b.Fatal("not there")
		}
	}
}

// BenchmarkSnapshot writes and reads a state of 100,000 sessions.
func BenchmarkSnapshot(b *testing.B) {
	f := seeded(b)
	for i := range 100_000 {
		if i%20 == 0 {
			do[CreateActorOutcome](b, f, CreateActor{Name: fmt.Sprint("a", i/20), ID: fmt.Sprint(i)})
		}
		claim(b, f, key(fmt.Sprint("a", i/20), i%20), fmt.Sprint("session ", i))
	}
	snapshot := snapshotOf(b, f.m)
	b.ReportMetric(float64(len(snapshot)), "bytes")
	b.Run("take", func(b *testing.B) {
		for b.Loop() {
			if _, err := f.m.Snapshot(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			snapshotOf(b, f.m)
		}
		b.ReportMetric(float64(len(snapshot)), "bytes")
	})
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			restored(b, snapshot)
		}
	})
}
