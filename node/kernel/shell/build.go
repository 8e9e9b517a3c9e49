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

//go:embed isolation/*.c isolation/*.h loadable/*.c loadable/*.h preload/*.c client/*.c
var source embed.FS

// product is a file that is compiled from folders of the embedded source.
type product struct {
	folders []string
	name    string
	flags   []string
}

var (
	// loadable is the loadable builtin of bash.
	loadable = product{folders: []string{"isolation", "loadable"}, name: "session.so", flags: []string{"-shared", "-fPIC"}}
	// preload is the library that isolates copies of sh and zsh.
	preload = product{folders: []string{"isolation", "preload"}, name: "isolate.so",
		flags: []string{"-shared", "-fPIC", "-fvisibility=hidden"}}
	// client is the command "primitives".
	client = product{folders: []string{"client"}, name: "primitives"}
)

// errNoCompiler is the error of a machine without a C compiler.
var errNoCompiler = errors.New("no C compiler")

// buildLimit bounds one build.
const buildLimit = time.Minute

// compilers are the names of C compilers in order of preference.
var compilers = []string{"cc", "gcc", "clang"}

// build returns the path of the product, and compiles it if the cache has none from the
// same source. Concurrent builds are safe.
func (p product) build(ctx context.Context, cache string) (string, error) {
	if cache == "" {
		return "", errors.New("no cache directory for the build")
	}
	var names []string
	for _, folder := range p.folders {
		found, err := fs.Glob(source, folder+"/*")
		if err != nil {
			return "", err
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	digest := sha256.New()
	for _, name := range names {
		text, err := source.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(digest, "%s %d\n%s", name, len(text), text)
	}
	dir := filepath.Join(cache, "shell")
	target := filepath.Join(dir, hex.EncodeToString(digest.Sum(nil)[:16])+"-"+p.name)
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("keep a build: %w", err)
	}
	return target, p.compile(ctx, names, dir, target)
}

// compile builds in a temporary directory and renames the finished file to target.
func (p product) compile(ctx context.Context, names []string, dir, target string) (err error) {
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
		return fmt.Errorf("build %s: %w", p.name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	args := append([]string{"-O2", "-w", "-o", p.name}, p.flags...)
	for _, name := range names {
		text, err := source.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(work, filepath.Base(name)), text, 0o600); err != nil {
			return fmt.Errorf("build %s: %w", p.name, err)
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
		return fmt.Errorf("build %s: %w: %.2000s", p.name, err, said)
	}
	return os.Rename(filepath.Join(work, p.name), target)
}
