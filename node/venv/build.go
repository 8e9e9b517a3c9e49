package venv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// build is the build of one environment. Its folder has the project that uv works with, the
// environment, and temporary files.
type build struct {
	store   *Store
	project *project
	python  interpreter
	uv      string
	dir     string // the build's folder, next to the environments
	say     func(string)

	compiled []module // the modules without bytecode in the cache
}

// obtain finds the environment of a spec or builds it, and holds it. It turns the failures
// of a build into *BuildError.
func (s *Store) obtain(ctx context.Context, spec Spec, say func(string)) (*Env, error) {
	var said tail
	env, err := s.find(ctx, spec, func(line string) {
		said.add(line)
		say(line)
	})
	failed := (*commandError)(nil)
	switch {
	case errors.Is(err, errBuildLimit):
		err = &BuildError{Reason: Timeout, Output: said.String(),
			Message: fmt.Sprintf("the environment was not built within %v", s.cfg.BuildLimit)}
	case errors.As(err, &failed):
		s.cfg.Log.Info("an environment could not be built", "digest", spec.Digest, "command", failed.command, "error", failed.err)
		message := "uv failed"
		if reason := why(failed.output); reason != "" {
			message += ": " + reason
		}
		err = &BuildError{Reason: Failed, Message: message, Output: failed.output}
	}
	return env, err
}

// find is obtain with the unconverted errors.
func (s *Store) find(ctx context.Context, spec Spec, say func(string)) (*Env, error) {
	if spec.Digest != Digest(spec.Text) {
		return nil, fmt.Errorf("venv: the digest %q is not that of the text", spec.Digest)
	}
	p, err := parseProject(spec.Text)
	if err != nil {
		return nil, err
	}
	shared, err := s.useShared(ctx, say)
	if err != nil {
		return nil, err
	}
	defer shared.release()
	python, err := s.choose(ctx, p.requires, say)
	if err != nil {
		return nil, err
	}
	wished := wish(spec.Digest, python, spec.Lock)
	if env, err := s.hold(s.pinned(wished)); env != nil || err != nil {
		return env, err
	}
	l, err := waitLock(ctx, s.buildLock(wished), func() { say("another process builds this environment; waiting for it") })
	if err != nil {
		return nil, err
	}
	defer l.remove() // if this fails, sweep removes the file later
	// Another process may have built it before we got the lock.
	if env, err := s.hold(s.pinned(wished)); env != nil || err != nil {
		return env, err
	}
	return s.build(ctx, spec, p, python, wished, say)
}

// build builds in a new folder. The caller holds the build lock of the wish.
func (s *Store) build(ctx context.Context, spec Spec, p *project, python interpreter, wished string, say func(string)) (*Env, error) {
	uv, err := s.uv(ctx, say)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.path("envs"), "."+wished+"-")
	if err != nil {
		return nil, fmt.Errorf("venv: %w", err)
	}
	b := &build{store: s, project: p, python: python, uv: uv, dir: dir, say: say}
	env, err := b.make(ctx, spec, wished)
	if removed := os.RemoveAll(dir); removed != nil {
		s.cfg.Log.Warn("cannot remove the folder of a build", "dir", dir, "error", removed)
	}
	return env, err
}

// make resolves, installs and publishes.
func (b *build) make(ctx context.Context, spec Spec, wished string) (*Env, error) {
	s := b.store
	for _, sub := range []string{"project", "tmp"} {
		if err := os.Mkdir(filepath.Join(b.dir, sub), 0o755); err != nil {
			return nil, fmt.Errorf("venv: %w", err)
		}
	}
	lock, err := b.resolveAndInstall(ctx, spec.Lock)
	if err != nil {
		return nil, err
	}
	s.passed("installed")
	key := wish(spec.Digest, b.python, lock)
	if key != wished {
		l, err := waitLock(ctx, s.buildLock(key), func() { b.say("another process builds this environment; waiting for it") })
		if err != nil {
			return nil, err
		}
		defer l.remove() // if this fails, sweep removes the file later
	}
	// Once it has its marker, a collection could remove it, unless it is in use.
	use, err := waitFor(ctx, s.useLock(key), lockShared, func() {})
	if err != nil {
		return nil, err
	}
	defer use.release()
	if !s.marked(key) {
		if err := b.compile(ctx); err != nil {
			return nil, err
		}
		if err := b.publish(key, lock); err != nil {
			return nil, fmt.Errorf("venv: publish an environment: %w", err)
		}
	}
	// A later request with the resolved lock has the environment's key as its wish.
	if err := errors.Join(s.pin(wished, key), s.pin(key, key)); err != nil {
		return nil, fmt.Errorf("venv: record the key of an environment: %w", err)
	}
	s.passed("pinned")
	env, err := s.hold(key)
	if env == nil && err == nil {
		err = fmt.Errorf("venv: the environment %s was removed right after it was built", key)
	}
	return env, err
}

// env returns the folder into which uv installs.
func (b *build) env() string { return filepath.Join(b.dir, "env") }

// resolveAndInstall returns the lock by which it has installed. If the first attempt fails,
// it tries once more from the cache alone, since the index may be unreachable. A failure
// never replaces the versions of a given lock by others, since it may be temporary.
func (b *build) resolveAndInstall(ctx context.Context, given []byte) ([]byte, error) {
	lock, err := b.attempt(ctx, given, b.say)
	failed := (*commandError)(nil)
	if !errors.As(err, &failed) {
		return lock, err
	}
	quiet := func(string) {}
	if lock, again := b.attempt(ctx, given, quiet, "UV_OFFLINE=1"); again == nil {
		b.say("built from the cache, after the index could not be used")
		return lock, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// attempt resolves and installs once.
func (b *build) attempt(ctx context.Context, given []byte, say func(string), more ...string) ([]byte, error) {
	requires := requiresOf(given)
	if requires != "" && b.project.requires == "" && !fitsPython(b.python, requires) {
		say("the recorded lock is for Python " + requires + ", and this node has " + b.python.Version + "; resolving the versions anew")
		given, requires = nil, ""
	}
	text, err := b.project.render(requires)
	if err != nil {
		return nil, err
	}
	lockFile := filepath.Join(b.dir, "project", "uv.lock")
	err = os.WriteFile(filepath.Join(b.dir, "project", "pyproject.toml"), text, 0o644)
	if err == nil && len(given) > 0 {
		err = os.WriteFile(lockFile, given, 0o644)
	} else if err == nil {
		err = os.RemoveAll(lockFile)
	}
	if err = errors.Join(err, os.RemoveAll(b.env())); err != nil {
		return nil, fmt.Errorf("venv: prepare a build: %w", err)
	}
	if err := b.run(ctx, say, more, "lock", "--python", b.python.Path); err != nil {
		return nil, err
	}
	lock, err := os.ReadFile(lockFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // without dependencies uv writes no lock
		return nil, fmt.Errorf("venv: read the lock: %w", err)
	}
	if len(given) > 0 && !bytes.Equal(lock, given) {
		say("the recorded lock does not fit this node or the text; the versions were resolved anew")
	}
	b.store.passed("resolved")
	if err := b.run(ctx, say, more, "venv", "--relocatable", "--no-project", "--python", b.python.Path, b.env()); err != nil {
		return nil, err
	}
	return lock, b.run(ctx, say, more, "sync", "--frozen", "--no-install-project", "--python", b.python.Path)
}

// run runs uv in the project's folder.
func (b *build) run(ctx context.Context, say func(string), more []string, args ...string) error {
	env := b.store.environ(append([]string{"UV_PROJECT_ENVIRONMENT=" + b.env(), "TMPDIR=" + filepath.Join(b.dir, "tmp")}, more...)...)
	return command{path: b.uv, args: args, dir: filepath.Join(b.dir, "project"), env: env}.run(ctx, say)
}

// publish flushes the environment to the disk, renames it to its final path, and then writes
// the marker, which makes it valid.
func (b *build) publish(key string, lock []byte) error {
	s := b.store
	m, err := json.Marshal(marker{Key: key, Version: b.python.Version, Build: b.python.identity(), Created: time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.env(), lockName), lock, 0o644); err != nil {
		return err
	}
	if err := syncTree(b.env()); err != nil {
		return err
	}
	s.passed("flushed")
	if err := b.keepBytecode(); err != nil {
		return err
	}
	final := s.envDir(key)
	if _, err := os.Lstat(final); err == nil { // one without a marker, or whose Python is gone
		trash, err := s.discard(key)
		if err = errors.Join(err, os.RemoveAll(trash)); err != nil {
			return err
		}
	}
	if err := os.Rename(b.env(), final); err != nil {
		return err
	}
	if err := syncDir(s.path("envs")); err != nil {
		return err
	}
	s.passed("renamed")
	if err := writeFile(filepath.Join(final, markerName), m, 0o644); err != nil {
		return err
	}
	s.passed("marked")
	return nil
}

// discard moves an environment away atomically, and returns the folder that the caller must
// remove.
func (s *Store) discard(key string) (trash string, err error) {
	trash, err = os.MkdirTemp(s.path("envs"), "."+key+"-")
	if err == nil {
		err = os.Rename(s.envDir(key), filepath.Join(trash, "env"))
	}
	if err != nil {
		return trash, fmt.Errorf("venv: move an environment away: %w", err)
	}
	return trash, nil
}
