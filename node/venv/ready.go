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

// Spec says which environment is wanted.
type Spec struct {
	// Digest is that of the text.
	Digest string
	// Text is the pyproject.toml.
	Text string
	// Lock is the text of the uv.lock to build by; nil resolves the versions anew.
	// The store keeps it: it must not be changed afterwards. Giving the same slice
	// each time spares comparing it.
	Lock []byte
}

// Env is an environment in use. It is not collected until it is released.
type Env struct {
	// Key names its content, and Dir is where it is. Nothing may write there.
	Key, Dir string
	// Interpreter is its own Python, whose Version is of three numbers.
	Interpreter, Version string
	// Lock is the uv.lock that it was built by. It differs from the one asked for
	// when that did not fit this node. It must not be changed.
	Lock []byte

	release func()
}

// Release says that the environment is not used any more. Only the first call counts.
func (e *Env) Release() { e.release() }

// holding is an environment in use in this process, however often.
type holding struct {
	marker marker
	lock   []byte
	users  int
	shared *fileLock // seen by the collections of other processes
}

// Ready gives the environment, and builds it when it is not there. It calls say
// with each line of the build's progress, from the first on, also when another
// caller has started it; say may be nil. When ctx ends its cause is the error, and
// the build goes on while others wait for it. Errors of building are *BuildError.
func (s *Store) Ready(ctx context.Context, spec Spec, say func(line string)) (*Env, error) {
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
		// Somebody has removed it by hand meanwhile.
	}
}

// readyOrJoin gives the environment if it is known to be there, else the job that
// sees to it.
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

// hold takes an environment into use; it gives nil when it is not there.
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
		// Nobody collects what is held, but a Python can be uninstalled under it.
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

// take locks an environment against collection, and looks whether it is there.
func (s *Store) take(key string) (*holding, error) {
	l, err := tryLock(s.useLock(key), lockShared)
	if l == nil || err != nil {
		return nil, err
	}
	m, err := s.readMarker(key)
	if err != nil {
		l.release()
		return nil, nil // not there, or not whole
	}
	lock, err := os.ReadFile(filepath.Join(s.envDir(key), lockName))
	if err == nil {
		err = touch(s.useLock(key))
	}
	if err != nil {
		l.release()
		return nil, fmt.Errorf("venv: take an environment: %w", err)
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
		s.cfg.Log.Warn("when an environment was used last could not be written down", "key", key, "error", err)
	}
	h.shared.release()
	if s.held[key] == h {
		delete(s.held, key)
	}
}

// touch writes down that an environment is used now.
func touch(path string) error {
	now := time.Now()
	return os.Chtimes(path, now, now)
}

// Built tells whether the environment is there, so that Ready would not build. It
// starts no process: an interpreter that was never looked for makes it false.
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

// wish names what is asked for. An environment that was built exactly by the lock
// of its wish has the wish as its key.
func wish(textDigest string, is interpreter, lock []byte) string {
	return digest("locus environment 1", textDigest, is.identity(), string(lock))
}
