package shell

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

//go:embed loadable/*.c loadable/*.h
var loadableSource embed.FS

// errNoCompiler says that this machine has no C compiler.
var errNoCompiler = errors.New("no C compiler")

// buildLimit bounds one build.
const buildLimit = time.Minute

// compilers are the programs that are looked for, best first.
var compilers = []string{"cc", "gcc", "clang"}

// loadable gives the file of bash's builtin, built from the embedded source where
// the cache has none of the same digest. Two that build at once do no harm.
func loadable(ctx context.Context, cache string) (string, error) {
	if cache == "" {
		return "", errors.New("no directory to keep a build in")
	}
	names, err := fs.Glob(loadableSource, "loadable/*")
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	digest := sha256.New()
	for _, name := range names {
		source, err := loadableSource.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(digest, "%s %d\n%s", name, len(source), source)
	}
	dir := filepath.Join(cache, "shell")
	target := filepath.Join(dir, "session-"+hex.EncodeToString(digest.Sum(nil)[:16])+".so")
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("keep a build: %w", err)
	}
	return target, compile(ctx, names, dir, target)
}

// compile builds in a directory of its own and puts the finished file in place.
func compile(ctx context.Context, names []string, dir, target string) (err error) {
	compiler := ""
	for _, name := range compilers {
		if path, err := exec.LookPath(name); err == nil {
			compiler = path
			break
		}
	}
	if compiler == "" {
		return errNoCompiler
	}
	work, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return fmt.Errorf("build bash's builtin: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	args := []string{"-shared", "-fPIC", "-O2", "-w", "-o", "session.so"}
	for _, name := range names {
		source, err := loadableSource.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, filepath.Base(name)), source, 0o600); err != nil {
			return fmt.Errorf("build bash's builtin: %w", err)
		}
		if filepath.Ext(name) == ".c" {
			args = append(args, filepath.Base(name))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, compiler, args...)
	cmd.Dir = work
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build bash's builtin: %w: %.2000s", err, said)
	}
	return os.Rename(filepath.Join(work, "session.so"), target)
}
