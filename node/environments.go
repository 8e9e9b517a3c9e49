package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/venv"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// EnvironmentsConfig says how environments are built and how long they are kept. Zero
// fields take the defaults.
type EnvironmentsConfig struct {
	// Uv is the path of uv; if empty, uv from PATH or a downloaded one.
	Uv string
	// Sources allows building packages from source. That runs their code on this node
	// outside any sandbox.
	Sources bool
	// BuildLimit bounds one build; default 10 minutes.
	BuildLimit time.Duration
	// MaxAge is how long an unused environment is kept, default 30 days. MaxBytes bounds
	// all environments and their cache, default 20 GiB.
	MaxAge   time.Duration
	MaxBytes int64
}

const (
	defaultEnvironmentAge   = 30 * 24 * time.Hour
	defaultEnvironmentBytes = 20 << 30
	// collectEvery is how often unused environments are collected.
	collectEvery = time.Hour
)

// environments provides stored environments on this node.
type environments struct {
	id       registry.NodeID
	store    *venv.Store
	registry *registry.Registry
	log      *slog.Logger

	mu    sync.Mutex
	locks map[int][]byte // unpacked locks of the registry, by environment
}

// openStore opens the store of built environments. interpreter returns the node's own
// Python.
func (c Config) openStore(interpreter func() (string, error)) (*venv.Store, error) {
	return venv.Open(venv.Config{
		Dir: c.path(environmentsDir), Interpreter: interpreter, Uv: c.Environments.Uv, Sources: c.Environments.Sources,
		BuildLimit: c.Environments.BuildLimit, MaxAge: c.Environments.MaxAge, MaxBytes: c.Environments.MaxBytes, Log: c.Log,
	})
}

// built is an environment that a family of kernels runs in.
type built struct{ *venv.Env }

func (b built) Interpreter() string { return b.Env.Interpreter }

// ready returns a stored environment and builds it if this node lacks it. All nodes use the
// lock of the first build. A failure that the caller should see is an *engine.StartError.
func (e *environments) ready(ctx context.Context, id int, say func(line string)) (environment, error) {
	record, err := e.record(ctx, id)
	if err != nil {
		return nil, err
	}
	lock, err := e.lock(record)
	if err != nil {
		return nil, err
	}
	env, err := e.build(ctx, record, lock, say)
	if err != nil {
		return nil, err
	}
	if slices.Contains(record.Built, e.id) {
		return built{env}, nil
	}
	first, err := e.note(ctx, record, env, lock)
	if err != nil {
		// The environment can be used all the same.
		e.log.Warn("that an environment was built could not be recorded", "venv", id, "error", err)
		return built{env}, nil
	}
	if lock != nil || bytes.Equal(first, env.Lock) {
		return built{env}, nil
	}
	// Another node's build was recorded first: build again with its lock.
	env.Release()
	if env, err = e.build(ctx, record, first, say); err != nil {
		return nil, err
	}
	return built{env}, nil
}

// record returns the registry's record of an environment. The local view may not have one
// that was just added.
func (e *environments) record(ctx context.Context, id int) (registry.Venv, error) {
	if record, ok := e.registry.View().Venv(id); ok {
		return record, nil
	}
	view, err := e.registry.Fresh(ctx)
	if err != nil {
		return registry.Venv{}, unavailable(err)
	}
	if record, ok := view.Venv(id); ok {
		return record, nil
	}
	return registry.Venv{}, &surfaces.Refusal{Code: surfaces.CodeVenvNotFound, Message: fmt.Sprintf("environment %d was removed", id)}
}

func (e *environments) build(ctx context.Context, record registry.Venv, lock []byte, say func(line string)) (*venv.Env, error) {
	env, err := e.store.Acquire(ctx, venv.Spec{Digest: record.Digest, Text: record.Text, Lock: lock}, say)
	var failed *venv.BuildError
	if errors.As(err, &failed) {
		if failed.Output != "" && !strings.HasSuffix(failed.Output, "\n") {
			failed.Output += "\n"
		}
		code := surfaces.CodeBuildFailed
		if failed.Reason == venv.Timeout {
			code = surfaces.CodeBuildTimeout
		}
		return nil, &engine.StartError{
			Code: code, Message: fmt.Sprintf("environment %d (%s) cannot be built: %s", record.ID, record.Name, failed.Message), Stderr: failed.Output,
		}
	}
	return env, err
}

// note records in the registry that this node has built an environment, and returns the
// lock that all nodes use. asked is the lock that this build used; nil if it resolved its
// own.
func (e *environments) note(ctx context.Context, record registry.Venv, env *venv.Env, asked []byte) ([]byte, error) {
	said := registry.RecordBuild{ID: record.ID, Node: e.id}
	if asked == nil {
		said.Lock = pack(env.Lock)
	}
	out, err := e.registry.RecordBuild(ctx, said)
	if err != nil {
		return nil, err
	}
	if out.Result != registry.BuildRecorded {
		return nil, fmt.Errorf("record the build: %s", out.Result)
	}
	return e.lock(out.Venv)
}

// lock returns the unpacked lock of a record; nil if nobody has built it yet. Callers share
// the slice.
func (e *environments) lock(record registry.Venv) ([]byte, error) {
	if len(record.Lock) == 0 {
		return nil, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if lock, ok := e.locks[record.ID]; ok {
		return lock, nil
	}
	lock, err := unpack(record.Lock)
	if err != nil {
		return nil, fmt.Errorf("read the lock of environment %d: %w", record.ID, err)
	}
	if e.locks == nil {
		e.locks = make(map[int][]byte)
	}
	e.locks[record.ID] = lock
	return lock, nil
}

// collectLoop collects unused environments until ctx ends.
func (e *environments) collectLoop(ctx context.Context) {
	every := time.NewTicker(collectEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		freed, err := e.store.Collect(ctx)
		if err != nil && ctx.Err() == nil {
			e.log.Warn("unused environments could not be removed", "error", err)
		}
		if freed > 0 {
			e.log.Info("unused environments were removed", "freed_bytes", freed)
			e.drop(ctx)
		}
	}
}

// drop records which environments this node no longer has.
func (e *environments) drop(ctx context.Context) {
	for _, record := range e.registry.View().Venvs() {
		lock, err := e.lock(record)
		if err != nil || !slices.Contains(record.Built, e.id) || e.store.Built(venv.Spec{Digest: record.Digest, Text: record.Text, Lock: lock}) {
			continue
		}
		if _, err := e.registry.DropBuild(ctx, registry.DropBuild{ID: record.ID, Node: e.id}); err != nil {
			e.log.Warn("that an environment was removed could not be recorded", "venv", record.ID, "error", err)
		}
	}
}

// maxLockText bounds an unpacked lock.
const maxLockText = 64 << 20

func pack(text []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		panic(err) // its options are constants
	}
	defer w.Close()
	return w.EncodeAll(text, nil)
}

func unpack(packed []byte) ([]byte, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxLockText), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(packed, nil)
}
