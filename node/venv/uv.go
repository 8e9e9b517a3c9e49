package venv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// oldestUv is the oldest usable version of uv. Older ones lack options that builds need; the
// node then downloads its own.
var oldestUv = []int{0, 10, 0}

// uv returns the path of uv: the configured one, one in PATH, one that was downloaded earlier,
// or one that it downloads now.
func (s *Store) uv(ctx context.Context, say func(string)) (string, error) {
	if s.cfg.Uv != "" {
		return s.cfg.Uv, nil
	}
	s.uvMu.Lock()
	defer s.uvMu.Unlock()
	if s.uvPath != "" {
		if _, err := os.Stat(s.uvPath); err == nil {
			return s.uvPath, nil
		}
	}
	path, err := s.findUv(ctx)
	if path == "" && err == nil {
		path, err = s.fetchUv(ctx, say)
	}
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", &BuildError{Reason: NoUv, Message: "the node has no uv, and could not fetch one: " + err.Error()}
	}
	s.uvPath = path
	return path, nil
}

// findUv searches for a uv that is new enough; the path is empty if there is none.
func (s *Store) findUv(ctx context.Context) (string, error) {
	for _, dir := range append(searchPath(), s.path("uv")) {
		path := filepath.Join(dir, "uv")
		if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			continue
		}
		version, err := s.uvVersion(ctx, path)
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		switch {
		case err != nil:
			s.cfg.Log.Warn("ignoring a uv that does not run", "path", path, "error", err)
		case compare(version, oldestUv) < 0:
			s.cfg.Log.Info("ignoring a uv that is too old", "path", path, "version", version)
		default:
			return path, nil
		}
	}
	return "", nil
}

// uvVersion returns the version of a uv. It fails if the uv does not run here.
func (s *Store) uvVersion(ctx context.Context, path string) ([]int, error) {
	out, err := command{path: path, args: []string{"--version"}, dir: s.dir, env: s.environ()}.output(ctx)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(out)
	if len(words) < 2 || words[0] != "uv" {
		return nil, fmt.Errorf("venv: %s --version says %.80q", path, out)
	}
	release, _, _ := strings.Cut(words[1], "-")
	version, ok := numbers(release)
	if !ok {
		return nil, fmt.Errorf("venv: %s has the version %.80q", path, words[1])
	}
	return version, nil
}
