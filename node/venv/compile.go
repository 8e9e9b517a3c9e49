package venv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// maxCompilers is how many processes compile at the same time.
const maxCompilers = 4

// module has the paths of a source file, relative to the environment, and of its bytecode in
// the environment and in the cache.
type module struct{ source, bytecode, cached string }

// compile makes the bytecode, because the environment is read-only for code later. Bytecode
// that another environment has for the same content is taken from the cache. uv can compile
// too, but it starts the environment's own Python, which runs the code in the .pth files of
// packages; the processes here use nothing of the environment. They are not the workers of
// compileall, which would hang for ever if the node were killed. Modules that do not compile
// are left out; their errors show when they are imported.
func (b *build) compile(ctx context.Context) error {
	modules, err := b.modules()
	if err != nil {
		return fmt.Errorf("venv: list modules: %w", err)
	}
	for _, m := range modules {
		err := os.MkdirAll(filepath.Dir(m.bytecode), 0o755)
		if err == nil {
			err = os.Link(m.cached, m.bytecode)
		}
		if errors.Is(err, fs.ErrNotExist) {
			b.compiled = append(b.compiled, m)
		} else if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("venv: take bytecode from the cache: %w", err)
		}
	}
	if len(b.compiled) > 0 {
		b.say(fmt.Sprintf("compiling %d modules", len(b.compiled)))
	}
	parts := make([][]string, min(runtime.NumCPU(), maxCompilers))
	for i, m := range b.compiled {
		parts[i%len(parts)] = append(parts[i%len(parts)], m.source)
	}
	failed := make([]error, len(parts))
	var all sync.WaitGroup
	for i, part := range parts {
		if len(part) > 0 {
			all.Go(func() { failed[i] = b.compileFiles(ctx, part) })
		}
	}
	all.Wait()
	return errors.Join(failed...)
}

// keepBytecode puts the new bytecode into the cache. The files were flushed to the disk
// before, so that a crash leaves no truncated ones there.
func (b *build) keepBytecode() error {
	if err := os.MkdirAll(b.store.bytecodeDir(), 0o755); err != nil {
		return err
	}
	for _, m := range b.compiled {
		err := os.Link(m.bytecode, m.cached)
		if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) { // it did not compile
			return err
		}
	}
	return nil
}

func (s *Store) bytecodeDir() string { return s.path("cache", "bytecode") }

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

// modules lists the source files in the environment, except the tests of packages, which are
// half of all files and which nobody imports.
func (b *build) modules() (list []module, err error) {
	root := filepath.Join(b.env(), "lib")
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case e.IsDir() && e.Name() == "tests":
			return fs.SkipDir
		case e.Type().IsRegular() && strings.HasSuffix(path, ".py") && !strings.ContainsAny(path, "\r\n"):
			m, err := b.module(path)
			if err != nil {
				return err
			}
			list = append(list, m)
		}
		return nil
	})
	return list, err
}

// module returns the paths of a source file. The name in the cache is a digest of everything
// that the bytecode depends on: the content, the file's time, which the bytecode records, and
// the interpreter.
func (b *build) module(path string) (m module, err error) {
	if m.source, err = filepath.Rel(b.env(), path); err != nil {
		return m, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return m, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	dir, name := filepath.Split(path)
	m.bytecode = filepath.Join(dir, "__pycache__", strings.TrimSuffix(name, "py")+b.python.Tag+".pyc")
	m.cached = filepath.Join(b.store.bytecodeDir(), digest(b.python.identity(), info.ModTime().UTC().String(), string(text)))
	return m, nil
}
