package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// patient bounds every wait of these tests.
const patient = 60 * time.Second

func within60(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	t.Cleanup(cancel)
	return ctx
}

// open opens a registry in which no lease is missed soon, unless it says otherwise.
func open(t testing.TB, c Config) *Registry {
	t.Helper()
	if c.Lease == (LeaseConfig{}) {
		c.Lease.TTL = time.Hour
	}
	if c.NodeID == "" {
		c.NodeID = "n1"
	}
	r, err := Open(within60(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// peopled is an open registry with node n1 in a new life, and the actor ada.
func peopled(t testing.TB, r *Registry) Incarnation {
	t.Helper()
	node, err := r.RegisterNode(within60(t), RegisterNode{ID: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.CreateActor(within60(t), CreateActor{Name: "ada", ID: "id"}); err != nil {
		t.Fatal(err)
	}
	return node.Incarnation
}

func claimAs(t testing.TB, r *Registry, id int, life Incarnation) ClaimOutcome {
	t.Helper()
	out, err := r.ClaimSession(within60(t), ClaimSession{Key: key("ada", id), Name: fmt.Sprint("s", id), Owner: "n1", Incarnation: life})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFreshDirectoryBecomesACluster(t *testing.T) {
	dir := t.TempDir()
	r := open(t, Config{Dir: dir})
	id := r.View().ClusterID()
	want(t, "length of the cluster's id", len(id), 32)
	want(t, "leads", r.Leading(), true)
	want(t, "leader", r.Leader(), "n1")
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	want(t, "same id", open(t, Config{Dir: dir}).View().ClusterID(), id)
	if other := open(t, Config{Dir: t.TempDir()}).View().ClusterID(); other == id {
		t.Fatal("two clusters have one id")
	}
}

// The best of a few openings shows whether anything waits for a timer: the
// election timeout alone would be a second.
func TestReadyAtOnce(t *testing.T) {
	dir := t.TempDir()
	best := time.Hour
	for range 5 {
		started := time.Now()
		r := open(t, Config{Dir: dir})
		best = min(best, time.Since(started))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("open: %s", best)
	if best > 500*time.Millisecond {
		t.Errorf("opening takes %s", best)
	}
}

func TestRestartKeepsEverything(t *testing.T) {
	for name, c := range map[string]struct {
		config    Config
		snapshots int
	}{
		"log only":         {Config{}, 0},
		"snapshot and log": {Config{SnapshotEvery: 1, TrailingLogs: 1}, 3},
		"snapshot and all": {Config{SnapshotEvery: 1, TrailingLogs: 1000}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			c.config.Dir = t.TempDir()
			r := open(t, c.config)
			life := peopled(t, r)
			for i := range 12 {
				want(t, "claim", claimAs(t, r, i, life).Result, Claimed)
				if i < c.snapshots {
					if err := r.raft.Snapshot().Error(); err != nil {
						t.Fatal(err)
					}
				}
			}
			before := r.machine.freeze().hash()
			for range 3 {
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				r = open(t, c.config)
				want(t, "state", r.machine.freeze().hash(), before)
			}
			left, err := filepath.Glob(filepath.Join(c.config.Dir, snapshotsDir, "*"))
			if err != nil || len(left) != min(c.snapshots, retained) {
				t.Fatalf("%d snapshots are kept, %v", len(left), err)
			}

			// The node's next life: all is lost, and names are kept.
			again := peopled(t, r)
			want(t, "next life", again, life+1)
			s, _ := r.View().SessionByName("ada", "s3")
			want(t, "state after a restart", s.State, SessionLost)
			want(t, "reason", s.Loss.Reason, LossNodeRestarted)
			want(t, "take over", claimAs(t, r, 3, again).Result, Claimed)
			want(t, "old life", claimAs(t, r, 4, life).Result, ClaimNotCurrent)
		})
	}
}

// Many callers race for the last session of the limit: exactly one gets it.
func TestConcurrentClaimsOfTheLastSession(t *testing.T) {
	r := open(t, Config{Dir: t.TempDir()})
	life := peopled(t, r)
	for i := 1; i < MaxSessions; i++ {
		want(t, "claim", claimAs(t, r, i, life).Result, Claimed)
	}
	for round := range 10 {
		results := make([]ClaimResult, 4)
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range results {
			all.Go(func() {
				<-start
				out, err := r.ClaimSession(within60(t), ClaimSession{Key: key("ada", 100+i), Owner: "n1", Incarnation: life})
				if err != nil {
					t.Error(err)
				}
				results[i] = out.Result
			})
		}
		close(start)
		all.Wait()
		count := map[ClaimResult]int{}
		for i, result := range results {
			count[result]++
			if result == Claimed {
				if _, err := r.CloseSession(within60(t), CloseSession{Key: key("ada", 100+i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if count[Claimed] != 1 || count[LimitReached] != 3 {
			t.Fatalf("round %d: %v", round, results)
		}
	}
}

func TestOneNameFromManyCallers(t *testing.T) {
	r := open(t, Config{Dir: t.TempDir()})
	life := peopled(t, r)
	results := make([]ClaimResult, 10)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			out, err := r.ClaimSession(within60(t), ClaimSession{Key: key("ada", i+1), Name: "same", Owner: "n1", Incarnation: life})
			if err != nil {
				t.Error(err)
			}
			results[i] = out.Result
		})
	}
	all.Wait()
	count := map[ClaimResult]int{}
	for _, result := range results {
		count[result]++
	}
	if count[Claimed] != 1 || count[NameTaken] != 9 {
		t.Fatalf("%v", results)
	}
}

func TestChangedWakesOnce(t *testing.T) {
	r := open(t, Config{Dir: t.TempDir()})
	before := r.View()
	select {
	case <-before.Changed():
		t.Fatal("nothing has changed")
	default:
	}
	peopled(t, r)
	select {
	case <-before.Changed():
	case <-time.After(patient):
		t.Fatal("the change was not told")
	}
	want(t, "old view", len(before.Nodes()), 0)
	want(t, "new view", len(r.View().Nodes()), 1)
}

func TestErrorsTellTheOutcomeOfTheCommand(t *testing.T) {
	r := open(t, Config{Dir: t.TempDir()})
	life := peopled(t, r)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.CloseSession(over, CloseSession{Key: key("ada", 1)}); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("before it was sent: %v", err)
	}
	if _, err := r.CloseSession(within60(t), CloseSession{}); !errors.Is(err, ErrMalformed) {
		t.Errorf("malformed: %v", err)
	}
	c := ClaimSession{Key: key("ada", 1), Owner: "n1", Incarnation: life}
	c.Request = NewRequestID()
	first, err := r.ClaimSession(within60(t), c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.ClaimSession(within60(t), c)
	want(t, "resent", again, first)
	if err != nil {
		t.Fatal(err)
	}
	c.Name = "other"
	if _, err := r.ClaimSession(within60(t), c); !errors.Is(err, ErrRequestReused) {
		t.Errorf("reused: %v", err)
	}

	// The state machine stands still, so the command is in the log and unanswered.
	held := r.machine.db.Txn(true)
	logged := r.raft.LastIndex()
	given, giveUp := context.WithCancel(within60(t))
	lost := ClaimSession{Key: key("ada", 2), Owner: "n1", Incarnation: life}
	claimed := make(chan error, 1)
	go func() {
		_, err := r.ClaimSession(given, lost)
		claimed <- err
	}()
	until(t, "the command is in the log", func() bool { return r.raft.LastIndex() > logged })
	giveUp()
	err = <-claimed
	held.Abort()
	var unknown *UnknownOutcomeError
	if !errors.As(err, &unknown) || !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Fatalf("unanswered: %v", err)
	}
	lost.Request = unknown.Request
	out, err := r.ClaimSession(within60(t), lost)
	if err != nil || out.Result != Claimed {
		t.Fatalf("sent again under the same request: %+v, %v", out, err)
	}

	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.CloseSession(within60(t), CloseSession{Key: key("ada", 1)}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("closed: %v", err)
	}
	want(t, "views outlive it", len(r.View().SessionsOf("ada")), 2)
}

// If the log cannot be written the registry stops, reports it, and confirms nothing.
func TestFailedWriteStopsTheRegistry(t *testing.T) {
	dir := t.TempDir()
	r := open(t, Config{Dir: dir})
	life := peopled(t, r)
	want(t, "claim", claimAs(t, r, 1, life).Result, Claimed)
	full := errors.New("no space left")
	r.dir.store.failed.Store(&full)
	_, err := r.ClaimSession(within60(t), ClaimSession{Key: key("ada", 2), Owner: "n1", Incarnation: life})
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, full) || !errors.Is(r.Health(), full) {
		t.Fatalf("%v, health %v", err, r.Health())
	}
	want(t, "reads go on", len(r.View().Sessions()), 1)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, "after a restart", len(open(t, Config{Dir: dir}).View().Sessions()), 1)
}

func TestAJoiningNodeBootstrapsNoCluster(t *testing.T) {
	dir := t.TempDir()
	r := open(t, Config{Dir: dir, Join: true, Heartbeat: 20 * time.Millisecond})
	short, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := r.AwaitLeading(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it leads: %v", err)
	}
	_, err := r.CreateActor(within60(t), CreateActor{Name: "ada", ID: "id"})
	var elsewhere *NotLeaderError
	if !errors.Is(err, ErrNotLeader) || !errors.As(err, &elsewhere) || elsewhere.Leader != "" {
		t.Fatalf("%v", err)
	}
	want(t, "identity", r.View().ClusterID(), "")
}

func TestConfigIsChecked(t *testing.T) {
	for name, c := range map[string]Config{
		"no directory": {NodeID: "n1"},
		"no node":      {Dir: t.TempDir()},
		"heartbeat":    {Dir: t.TempDir(), NodeID: "n1", Heartbeat: time.Millisecond},
		"a file":       {Dir: filepath.Join(os.Args[0], "x"), NodeID: "n1"},
	} {
		if r, err := Open(within60(t), c); err == nil {
			t.Errorf("%s: opened", name)
			_ = r.Close()
		}
	}
}
