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

// family is a kernel family whose death can be seen.
type family interface {
	kernel.Family
	Done() <-chan struct{}
	// Warm says whether kernels may be made ahead of their use.
	Warm(on bool)
	// Used reports whether a kernel that was given out is there still.
	Used() bool
}

// environment is a built environment that is not removed until it is let go.
type environment interface {
	// Interpreter is the path of its own Python.
	Interpreter() string
	Release()
}

// housed is a family in a home, with the environment that it runs in, if any.
type housed struct {
	family
	in environment

	home   *home // guards what follows
	starts int   // that are under way
	used   time.Time
}

// Close closes the family and lets go of its environment.
func (f *housed) Close() error {
	if f.in != nil {
		defer f.in.Release()
	}
	return f.family.Close()
}

// release ends what living or ready began.
func (f *housed) release() {
	f.home.mu.Lock()
	defer f.home.mu.Unlock()
	f.starts--
	f.used = time.Now()
}

// workspace is where an actor's code works. Actors' names are safe as file names
// by the rule of their making.
func (h *homes) workspace(actor string) string { return h.cfg.path("workspaces", actor) }

func (h *homes) family(ctx context.Context, c *sandbox.Container, actor string, p place, in environment) (family, error) {
	workspace := h.workspace(actor)
	env := sandbox.Environment(workspace)
	if p.language == surfaces.Python {
		interpreter, err := h.python()
		if in != nil {
			interpreter, err = in.Interpreter(), nil
			env = activate(env, interpreter)
		}
		if err != nil {
			return nil, err
		}
		return python.NewFamily(ctx, python.Config{
			Container: c, Interpreter: interpreter, Workspace: workspace, Env: env, Limits: h.cfg.Limits, Log: h.log,
		})
	}
	return shell.NewFamily(ctx, shell.Config{
		Container: c, Language: p.language, Path: h.shells[p.language], Workspace: workspace,
		Scratch: filepath.Join(workspace, ".locus"), CacheDir: h.cfg.path("cache"), Env: env, Limits: h.cfg.Limits, Log: h.log,
	})
}

// activate tells the programs that code starts that they are in a virtual environment,
// whose commands come before all others.
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
