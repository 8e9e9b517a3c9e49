package venv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// maxCompilers bounds how many processes compile at the same time.
const maxCompilers = 4

// compile makes the bytecode, which nobody can add later. uv could, but it starts
// the environment's own Python for it, which runs what packages have put in .pth
// files; these look at nothing of the environment. They are not compileall's own
// workers, which would wait for ever when the node is killed. Modules that do not
// compile say so when they are imported.
func (b *build) compile(ctx context.Context) error {
	b.say("compiling")
	sources, err := b.sources()
	if err != nil {
		return fmt.Errorf("venv: look for modules: %w", err)
	}
	parts := make([][]string, min(runtime.NumCPU(), maxCompilers))
	for i, source := range sources {
		parts[i%len(parts)] = append(parts[i%len(parts)], source)
	}
	failed := make([]error, len(parts))
	var all sync.WaitGroup
	for i, part := range parts {
		if len(part) == 0 {
			continue
		}
		all.Go(func() { failed[i] = b.compileFiles(ctx, part) })
	}
	all.Wait()
	return errors.Join(failed...)
}

func (b *build) compileFiles(ctx context.Context, files []string) error {
	c := command{
		path: b.python.Path, args: []string{"-I", "-S", "-m", "compileall", "-q", "-q", "-i", "-"},
		dir: b.env(), env: b.store.environ(), in: strings.Join(files, "\n") + "\n",
	}
	err := c.run(ctx, func(string) {})
	if failed := (*commandError)(nil); errors.As(err, &failed) {
		b.store.cfg.Log.Debug("some modules of an environment do not compile", "output", failed.output)
		return nil
	}
	return err
}

// sources lists the modules in the environment, from its folder. The tests that
// packages bring along are left out: they are half of the work, and nobody imports
// them.
func (b *build) sources() (list []string, err error) {
	root := filepath.Join(b.env(), "lib")
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case e.IsDir() && e.Name() == "tests":
			return fs.SkipDir
		case e.Type().IsRegular() && strings.HasSuffix(path, ".py") && !strings.ContainsAny(path, "\r\n"):
			from, err := filepath.Rel(b.env(), path)
			if err != nil {
				return err
			}
			list = append(list, from)
		}
		return nil
	})
	return list, err
}
