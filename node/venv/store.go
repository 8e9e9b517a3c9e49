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

// Config says where environments are kept, and with what they are built.
type Config struct {
	// Dir is the store's own folder, made when it is not there. The environments in
	// it hold links to its cache: code must not be able to write below it.
	Dir string
	// Interpreter gives the path of the node's own Python.
	Interpreter func() (string, error)
	// Uv is the path of uv. When it is empty one is looked for on the PATH, and
	// fetched from the package index when there is none.
	Uv string
	// Sources allows packages that must be built from their source. That runs their
	// code on the node, as its user; without it only wheels are installed, and
	// nothing of what is installed is run.
	Sources bool
	// BuildLimit bounds one build, with all its waits; ten minutes when it is zero.
	BuildLimit time.Duration
	// MaxAge is how long an environment is kept that nobody uses; zero keeps it
	// whatever its age. MaxBytes bounds the environments and the cache together;
	// zero does not. Collect looks at both.
	MaxAge   time.Duration
	MaxBytes int64
	// Log is for the operator; the default logger when it is nil.
	Log *slog.Logger
}

const defaultBuildLimit = 10 * time.Minute

// grace is how long a build goes on for which nobody waits. Whoever gave up gets
// back nothing from it, and it costs others their processors; but a caller that
// tries again at once finds it still running. What was downloaded until then is in
// the cache, so that a build that was stopped is not lost.
const grace = 10 * time.Second

// Store keeps environments. Its methods may be called at the same time, and by
// several processes on one folder.
type Store struct {
	cfg  Config
	dir  string
	ctx  context.Context
	stop context.CancelCauseFunc

	grace time.Duration
	// passed is called at each step of a build; tests stop there.
	passed func(step string)

	uvMu   sync.Mutex
	uvPath string

	mu     sync.Mutex
	closed bool
	jobs   map[string]*job     // by what was asked for
	held   map[string]*holding // by key: in use in this process
	known  map[string]known    // by the digest of the text
	work   sync.WaitGroup
}

// known is what a text was ready as, so that the next caller need not look again.
type known struct {
	lock []byte // as it was given
	key  string
}

// Open opens the store, and removes what a killed build has left.
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

// Close stops all builds and waits for their end. Environments in use stay so
// until they are released.
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

// unfinished is the name of a folder beside the environments that is not one: what
// a build works in, or what is being removed. It holds the key whose build lock
// whoever works in it has.
var unfinished = regexp.MustCompile(`^\.([0-9a-f]{64})-`)

// keyName is the name of an environment's folder.
var keyName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// sweep removes what no living process works at: unfinished folders, those that
// lack the marker, and locks of neither. Whatever is locked is somebody's.
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
			// A child of a killed node may still write there; the next start tries again.
			s.cfg.Log.Warn("a leftover of a build could not be removed", "name", e.Name(), "error", err)
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
			continue // its time is when the environment was used last
		}
		if err := s.alone(s.path("locks", e.Name()), func() error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// alone does something under a lock and takes the lock's file away; when somebody
// has the lock it does nothing.
func (s *Store) alone(path string, do func() error) error {
	l, err := tryLock(path, lockAlone)
	if l == nil || err != nil {
		return err
	}
	return errors.Join(do(), l.remove())
}
