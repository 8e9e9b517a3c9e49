package venv

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Spec is the description of an environment.
type Spec struct {
	// Digest is the Digest of the text.
	Digest string
	// Text is the pyproject.toml.
	Text string
	// Lock is the content of the uv.lock to install; with nil the versions are resolved. The
	// store keeps the slice, so it must not be changed afterwards. Passing the same slice each
	// time makes comparing it faster.
	Lock []byte
}

// Env is an environment in use. It is not collected until it is released.
type Env struct {
	// Key identifies the content, and Dir is the directory. Nothing may write there.
	Key, Dir string
	// Interpreter is the environment's own Python; Version has three numbers.
	Interpreter, Version string
	// Lock is the uv.lock that was installed. It differs from that of the Spec if that does
	// not fit this node. It must not be changed.
	Lock []byte

	release func()
}

// Release ends the use of the environment. It is idempotent.
func (e *Env) Release() { e.release() }

// holding is an environment that this process uses, with the number of its users.
type holding struct {
	marker marker
	lock   []byte
	users  int
	shared *fileLock // keeps other processes from collecting it
}

// Acquire returns the environment, and builds it if it does not exist. It passes each line of
// the build's progress to say, including earlier lines of a build that another caller has
// started; say may be nil. If ctx ends, the error is its cause, and the build continues while
// others wait for it. The errors of a build are *BuildError.
func (s *Store) Acquire(ctx context.Context, spec Spec, say func(line string)) (*Env, error) {
	if say == nil {
		say = func(string) {}
	}
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		env, j, err := s.readyOrJoin(spec)
		if env != nil || err != nil {
			return env, err
		}
		err = j.follow(ctx, say)
		if err == nil {
			env, err = s.hold(j.env.Key)
		}
		s.leave(j)
		if env != nil || err != nil {
			return env, err
		}
		// It was removed by hand meanwhile: build it again.
	}
}

// readyOrJoin returns the environment if it is known to exist, else the job that finds or
// builds it.
func (s *Store) readyOrJoin(spec Spec) (*Env, *job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, ErrClosed
	}
	if k, ok := s.known[spec.Digest]; ok && bytes.Equal(k.lock, spec.Lock) {
		if env, err := s.holdLocked(k.key); env != nil || err != nil {
			return env, nil, err
		}
	}
	return nil, s.join(spec), nil
}

// hold starts a use of an environment; it returns nil if the environment does not exist.
func (s *Store) hold(key string) (*Env, error) {
	if key == "" {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holdLocked(key)
}

func (s *Store) holdLocked(key string) (*Env, error) {
	h := s.held[key]
	switch {
	case h == nil:
		var err error
		if h, err = s.take(key); h == nil || err != nil {
			return nil, err
		}
		s.held[key] = h
	default:
		// A held environment is not collected, but its Python can be uninstalled.
		if _, err := os.Stat(pythonIn(s.envDir(key))); err != nil {
			return nil, nil
		}
	}
	h.users++
	dir := s.envDir(key)
	return &Env{
		Key: key, Dir: dir, Interpreter: pythonIn(dir), Version: h.marker.Version, Lock: h.lock,
		release: sync.OnceFunc(func() { s.drop(key, h) }),
	}, nil
}

// take locks an environment against collection; it returns nil if the environment does not
// exist.
func (s *Store) take(key string) (*holding, error) {
	l, err := tryLock(s.useLock(key), lockShared)
	if l == nil || err != nil {
		return nil, err
	}
	m, err := s.readMarker(key)
	if err != nil {
		l.release()
		return nil, nil // it does not exist or is incomplete
	}
	lock, err := os.ReadFile(filepath.Join(s.envDir(key), lockName))
	if err == nil {
		err = touch(s.useLock(key))
	}
	if err != nil {
		l.release()
		return nil, fmt.Errorf("venv: use an environment: %w", err)
	}
	return &holding{marker: m, lock: lock, shared: l}, nil
}

// drop ends one use.
func (s *Store) drop(key string, h *holding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.users--; h.users > 0 {
		return
	}
	if err := touch(s.useLock(key)); err != nil {
		s.cfg.Log.Warn("cannot record the last use of an environment", "key", key, "error", err)
	}
	h.shared.release()
	if s.held[key] == h {
		delete(s.held, key)
	}
}

// touch records the present time as that of the last use, in the times of the lock file.
func touch(path string) error {
	now := time.Now()
	return os.Chtimes(path, now, now)
}

// Built reports whether the environment exists, so that Ready would not build it. It starts no
// process, so it is false if the interpreter has not been looked up before.
func (s *Store) Built(spec Spec) bool {
	p, err := parseProject(spec.Text)
	if err != nil {
		return false
	}
	is, ok := s.knownPython(p.requires)
	if !ok {
		return false
	}
	key := s.pinned(wish(spec.Digest, is, spec.Lock))
	return key != "" && s.marked(key)
}

// wish identifies a request: text, interpreter and lock. The key of an environment is the wish
// with its resolved lock, so both are equal if the build has used the given lock.
func wish(textDigest string, is interpreter, lock []byte) string {
	return digest("locus environment 1", textDigest, is.identity(), string(lock))
}
