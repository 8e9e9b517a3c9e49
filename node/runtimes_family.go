package node

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/kernel/python"
	"github.com/locusrun/locus/node/kernel/shell"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// family is a kernel family whose death can be observed.
type family interface {
	kernel.Family
	Done() <-chan struct{}
	// Warm sets whether kernels are started in advance.
	Warm(on bool)
	// Used reports whether a kernel that Start returned is still running.
	Used() bool
}

// environment is a built environment. It is not removed before Release.
type environment interface {
	// Interpreter is the path of its own Python.
	Interpreter() string
	Release()
}

// runningFamily is a family in a runtime, with its environment, if any.
type runningFamily struct {
	family
	in environment

	owner  *actorRuntime // its mu guards the fields below
	starts int           // starts in flight
	used   time.Time
}

// Close closes the family and releases its environment.
func (f *runningFamily) Close() error {
	if f.in != nil {
		defer f.in.Release()
	}
	return f.family.Close()
}

// release ends a start that livingFamily or ensureFamily has counted.
func (f *runningFamily) release() {
	f.owner.mu.Lock()
	defer f.owner.mu.Unlock()
	f.starts--
	f.used = time.Now()
}

// workspace is the working directory of an actor's code. Names of actors are valid file
// names, see actorName.
func (r *runtimes) workspace(actor string) string { return r.cfg.path("workspaces", actor) }

func (r *runtimes) family(ctx context.Context, c *sandbox.Container, actor string, p familyKey, in environment) (family, error) {
	workspace := r.workspace(actor)
	env := sandbox.Environment(workspace)
	if p.language == surfaces.Python {
		interpreter, err := r.python()
		if in != nil {
			interpreter, err = in.Interpreter(), nil
			env = activate(env, interpreter)
		}
		if err != nil {
			return nil, err
		}
		return python.NewFamily(ctx, python.Config{
			Container: c, Interpreter: interpreter, Workspace: workspace, Env: env, Limits: r.cfg.Limits, Log: r.log,
		})
	}
	return shell.NewFamily(ctx, shell.Config{
		Container: c, Language: p.language, Path: r.shells[p.language], Workspace: workspace,
		Scratch: filepath.Join(workspace, ".locus"), CacheDir: r.cfg.path("cache"), Env: env, Limits: r.cfg.Limits, Log: r.log,
	})
}

// activate sets up the variables of a virtual environment, so that its commands come first
// in PATH.
func activate(env []string, interpreter string) []string {
	bin := filepath.Dir(interpreter)
	out := make([]string, 0, len(env)+1)
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			v = "PATH=" + bin + string(os.PathListSeparator) + path
		}
		out = append(out, v)
	}
	return append(out, "VIRTUAL_ENV="+filepath.Dir(bin))
}
