package registry

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestDirectoryThatDoesNotFitIsRefused(t *testing.T) {
	config := Config{NodeID: "n1", SnapshotEvery: 1, TrailingLogs: 1}
	snapshots := func(dir string) []string {
		all, err := filepath.Glob(filepath.Join(dir, snapshotsDir, "*", "state.bin"))
		if err != nil || len(all) == 0 {
			t.Fatalf("no snapshots: %v", err)
		}
		// Names are TERM-INDEX-TIME; here the terms and the times are equally long.
		slices.SortFunc(all, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
		})
		return all
	}
	for name, c := range map[string]struct {
		damage func(dir string) error
		want   error
	}{
		"log gone":       {func(dir string) error { return os.Remove(filepath.Join(dir, logFile)) }, ErrDamaged},
		"log empty":      {func(dir string) error { return os.Truncate(filepath.Join(dir, logFile), 0) }, ErrDamaged},
		"log cut":        {func(dir string) error { return os.Truncate(filepath.Join(dir, logFile), 9000) }, ErrDamaged},
		"snapshots gone": {func(dir string) error { return os.RemoveAll(filepath.Join(dir, snapshotsDir)) }, ErrDamaged},
		"newest snapshot cut": {func(dir string) error {
			all := snapshots(dir)
			return os.Truncate(all[len(all)-1], 20)
		}, ErrDamaged},
		"newest snapshot headless": {func(dir string) error {
			all := snapshots(dir)
			return os.Truncate(filepath.Join(filepath.Dir(all[len(all)-1]), "meta.json"), 5)
		}, ErrDamaged},
		"newest snapshot gone": {func(dir string) error {
			all := snapshots(dir)
			return os.RemoveAll(filepath.Dir(all[len(all)-1]))
		}, ErrDamaged},
		"unfinished snapshot": {func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, snapshotsDir, "9-9-9"+unfinished), 0o700)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			config.Dir = dir
			r := open(t, config)
			life := peopled(t, r)
			for i := range 6 {
				claimAs(t, r, i, life)
				if i%2 == 0 {
					if err := r.raft.Snapshot().Error(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if err := c.damage(dir); err != nil {
				t.Fatal(err)
			}
			r, err := Open(within60(t), config)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if err == nil {
				want(t, "sessions", len(r.View().Sessions()), 6)
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	// A snapshot that cannot be read is told, even where the log could stand in.
	whole := Config{Dir: t.TempDir(), NodeID: "n1"}
	r := open(t, whole)
	peopled(t, r)
	if err := errors.Join(r.raft.Snapshot().Error(), r.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(filepath.Dir(snapshots(whole.Dir)[0]), "meta.json"), 5); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(within60(t), whole); !errors.Is(err, ErrDamaged) {
		t.Fatalf("unreadable snapshot beside a whole log: %v", err)
	}

	dir := t.TempDir()
	if err := open(t, Config{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, logFile), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Open(within60(t), Config{Dir: dir, NodeID: "n1"}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("a second cluster was made where the log is gone: %v", err)
		}
	}
	if err := os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, logFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(within60(t), Config{Dir: dir, NodeID: "n2"}); !errors.Is(err, ErrWrongNode) {
		t.Fatalf("another node: %v", err)
	}
	r = open(t, Config{Dir: dir})
	if _, err := Open(within60(t), Config{Dir: dir, NodeID: "n1"}); !errors.Is(err, ErrLocked) {
		t.Fatalf("second opening: %v", err)
	}
	want(t, "the first one goes on", r.Leading(), true)
}

// A bootstrap that was cut off after its first step is done again.
func TestCutOffBootstrap(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, filepath.Join(dir, logFile))
	if err := errors.Join(s.setNode("n1"), s.SetUint64(raftTerm, 1), s.Close()); err != nil {
		t.Fatal(err)
	}
	want(t, "leads", open(t, Config{Dir: dir}).Leading(), true)
}
