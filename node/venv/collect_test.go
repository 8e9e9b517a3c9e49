package venv

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// big makes each environment of the fake uv take a megabyte, which it shares with
// the cache when shared is set.
func big(uv *fakeUv, shared bool) {
	script := `head -c 1048576 /dev/zero > "$UV_PROJECT_ENVIRONMENT/lib/big"` + "\n"
	if shared {
		script += `mkdir -p "$UV_CACHE_DIR"; ln "$UV_PROJECT_ENVIRONMENT/lib/big" "$UV_CACHE_DIR/$$"` + "\n"
	}
	uv.write("sync.sh", script)
}

// usedAt sets when an environment was used last.
func usedAt(t *testing.T, s *Store, env *Env, ago time.Duration) {
	t.Helper()
	then := time.Now().Add(-ago)
	if err := os.Chtimes(s.useLock(env.Key), then, then); err != nil {
		t.Fatal(err)
	}
}

func collect(t *testing.T, s *Store) int64 {
	t.Helper()
	freed, err := s.Collect(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	return freed
}

func TestCollectByAge(t *testing.T) {
	uv := newFakeUv(t)
	big(uv, false)
	s := open(t, Config{Uv: uv.path, MaxAge: time.Hour})
	old, young, used := ready(t, s, needs("a")), ready(t, s, needs("b")), ready(t, s, needs("c"))
	old.Release()
	young.Release()
	usedAt(t, s, old, 2*time.Hour)
	usedAt(t, s, used, 2*time.Hour)
	if freed := collect(t, s); freed < 1<<20 || freed > 2<<20 {
		t.Errorf("%d bytes are free", freed)
	}
	if s.Built(needs("a")) || !s.Built(needs("b")) || !s.Built(needs("c")) {
		t.Error("not the old one was removed")
	}
	if isFile(s.path("pins", wishOf(t, s, "a"))) {
		t.Error("its wish is still known")
	}
	ready(t, s, needs("a")) // and it is built anew
	if n := uv.ran("sync"); n != 4 {
		t.Errorf("%d builds", n)
	}
	if left := leftovers(t, s.dir); len(left) > 0 {
		t.Error(left)
	}
}

func wishOf(t *testing.T, s *Store, name string) string {
	is, err := s.inspect(soon(t), python(t))
	if err != nil {
		t.Fatal(err)
	}
	return wish(needs(name).Digest, is, nil)
}

func TestCollectBySize(t *testing.T) {
	uv := newFakeUv(t)
	big(uv, false)
	s := open(t, Config{Uv: uv.path, MaxBytes: 5 << 19}) // two fit
	var envs []*Env
	for i, name := range []string{"a", "b", "c", "d"} {
		env := ready(t, s, needs(name))
		envs = append(envs, env)
		if i > 0 {
			env.Release()
		}
		usedAt(t, s, env, time.Duration(10-i)*time.Minute)
	}
	collect(t, s)
	// a is the oldest and in use, d the youngest.
	for name, want := range map[string]bool{"a": true, "b": false, "c": false, "d": true} {
		if s.Built(needs(name)) != want {
			t.Errorf("%s is there: %v", name, !want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(envs[0].Dir, "lib", "thing.py")); err != nil {
		t.Errorf("the one in use is harmed: %q, %v", b, err)
	}
	if freed := collect(t, s); freed != 0 {
		t.Errorf("%d bytes more", freed)
	}
}

// The cache goes before any environment does.
func TestCollectEmptiesTheCacheFirst(t *testing.T) {
	uv := newFakeUv(t)
	big(uv, true)
	s := open(t, Config{Uv: uv.path, MaxBytes: 5 << 19})
	ready(t, s, needs("a")).Release()
	ready(t, s, needs("b")).Release()
	if err := os.WriteFile(s.path("cache", "download"), bytes.Repeat([]byte("x"), 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	// What is shared counts once, and is not freed.
	if freed := collect(t, s); freed < 1<<20 || freed >= 2<<20 {
		t.Errorf("%d bytes are free", freed)
	}
	if !s.Built(needs("a")) || !s.Built(needs("b")) || isFile(s.path("cache", "download")) {
		t.Error("an environment went before the cache")
	}
}

// A collection sees what another process uses, and what it builds.
func TestCollectBesideAnotherProcess(t *testing.T) {
	for _, step := range []string{"built", "installed", "renamed", "marked"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dir, uv := t.TempDir(), newFakeUv(t)
			c := startChild(t, dir, uv, step)
			defer c.kill(t)
			if !c.says("here") {
				t.Fatal("the child ended before")
			}
			s := open(t, Config{Dir: dir, Uv: uv.path, MaxAge: time.Nanosecond, MaxBytes: 1})
			before := names(t, dir)
			collect(t, s)
			if step != "marked" && names(t, dir) != before {
				t.Errorf("there was %s, and now is %s", before, names(t, dir))
			}
			if step == "built" {
				c.kill(t)
				collect(t, s)
				if s.Built(needs("a")) {
					t.Error("after its user's death it stays")
				}
			}
		})
	}
}

func names(t *testing.T, dir string) (all string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "envs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all += e.Name() + " "
	}
	return all
}

// Users and collections at once: who has an environment has it whole.
func TestCollectSparesEnvironmentsInUse(t *testing.T) {
	uv := newFakeUv(t)
	s := open(t, Config{Uv: uv.path, MaxAge: time.Nanosecond})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			if _, err = s.Collect(ctx); ctx.Err() != nil {
				err = nil
			}
		}
		ended <- err
	}()
	for range 15 {
		env, err := s.Acquire(soon(t), needs("a"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := os.ReadFile(filepath.Join(env.Dir, "lib", "thing.py")); err != nil {
				t.Fatal(err)
			}
		}
		env.Release()
		env.Release() // counts once
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
