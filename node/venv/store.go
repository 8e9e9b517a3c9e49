package venv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Config configures a Store.
type Config struct {
	// Dir is the store's own folder, made if missing. Environments share files with the cache
	// in it by hard links, so code must not be able to write there.
	Dir string
	// Interpreter returns the path of the node's own Python.
	Interpreter func() (string, error)
	// Uv is the path of uv. If it is empty, uv is searched in PATH, and downloaded from the
	// package index if there is none.
	Uv string
	// Sources allows packages that must be built from source. That runs their code on the
	// node, as the node's user. Without it only wheels are installed, and none of their code
	// runs.
	Sources bool
	// BuildLimit bounds one build, including its waits. The default is ten minutes.
	BuildLimit time.Duration
	// MaxAge is how long an unused environment is kept; zero means for ever. MaxBytes bounds
	// the environments and the cache together; zero means no bound. Collect enforces both.
	MaxAge   time.Duration
	MaxBytes int64
	// Log is the logger; nil means the default one.
	Log *slog.Logger
}

const defaultBuildLimit = 10 * time.Minute

// grace is how long a build continues that nobody waits for. A caller that retries at once
// finds it still running, and an abandoned one does not use the processors for long. The
// files that were downloaded so far stay in the cache, so stopping it loses little.
const grace = 10 * time.Second

// Store keeps environments. It is safe for concurrent use, also by several processes on one
// folder.
type Store struct {
	cfg  Config
	dir  string
	ctx  context.Context
	stop context.CancelCauseFunc

	grace time.Duration
	// passed is called after each step of a build, for tests.
	passed func(step string)

	uvMu   sync.Mutex
	uvPath string

	mu     sync.Mutex
	closed bool
	jobs   map[string]*job     // by the digest of the spec
	held   map[string]*holding // by key: the environments that this process uses
	known  map[string]known    // by the digest of the text
	work   sync.WaitGroup
}

// known caches the environment of a text and a lock.
type known struct {
	lock []byte // that of the Spec
	key  string
}

// Open opens the store, and removes what killed builds have left.
func Open(cfg Config) (*Store, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("venv: %w", err)
	}
	if cfg.BuildLimit == 0 {
		cfg.BuildLimit = defaultBuildLimit
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	s := &Store{
		cfg: cfg, dir: dir, grace: grace, passed: func(string) {},
		jobs: map[string]*job{}, held: map[string]*holding{}, known: map[string]known{},
	}
	for _, sub := range []string{"envs", "locks", "pins", "interpreters", "cache", "python"} {
		if err := os.MkdirAll(s.path(sub), 0o755); err != nil {
			return nil, fmt.Errorf("venv: %w", err)
		}
	}
	if err := s.sweep(); err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	return s, nil
}

// Close cancels all builds and waits for their end. Environments stay in use until they are
// released.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop(ErrClosed)
	s.work.Wait()
	return nil
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

func (s *Store) envDir(key string) string    { return s.path("envs", key) }
func (s *Store) useLock(key string) string   { return s.path("locks", key+".use") }
func (s *Store) buildLock(key string) string { return s.path("locks", key+".build") }

// unfinished matches the name of a folder next to the environments in which a build works, or
// whose content is being removed. The name contains the key whose build lock its user holds.
var unfinished = regexp.MustCompile(`^\.([0-9a-f]{64})-`)

// keyName matches the name of an environment's folder.
var keyName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// sweep removes leftovers: unfinished folders, environments without a marker, and lock files
// that are not needed. It leaves what is locked, because a living process is using it.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.path("envs"))
	if err != nil {
		return fmt.Errorf("venv: %w", err)
	}
	for _, e := range entries {
		key := e.Name()
		if m := unfinished.FindStringSubmatch(key); m != nil {
			key = m[1]
		} else if !keyName.MatchString(key) || s.marked(key) {
			continue
		}
		err := s.alone(s.buildLock(key), func() error {
			if e.Name() != key {
				return os.RemoveAll(s.envDir(e.Name()))
			}
			return s.alone(s.useLock(key), func() error {
				if s.marked(key) {
					return nil // finished meanwhile
				}
				trash, err := s.discard(key)
				return errors.Join(err, os.RemoveAll(trash))
			})
		})
		if err != nil {
			// A child of a killed node may still write there. The next sweep tries again.
			s.cfg.Log.Warn("cannot remove the leftovers of a build", "name", e.Name(), "error", err)
		}
	}
	return s.sweepLocks()
}

func (s *Store) sweepLocks() error {
	locks, err := os.ReadDir(s.path("locks"))
	if err != nil {
		return fmt.Errorf("venv: %w", err)
	}
	for _, e := range locks {
		key, isUse := strings.CutSuffix(e.Name(), ".use")
		if isUse && s.marked(key) {
			continue // its modification time is that of the last use
		}
		if err := s.alone(s.path("locks", e.Name()), func() error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// alone calls do with the exclusive lock of a path, and removes the lock's file afterwards. If
// the lock is not free, it does nothing.
func (s *Store) alone(path string, do func() error) error {
	l, err := tryLock(path, lockAlone)
	if l == nil || err != nil {
		return err
	}
	return errors.Join(do(), l.remove())
}
