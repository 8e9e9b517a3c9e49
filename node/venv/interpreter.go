package venv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// oldestPython is the oldest supported version.
var oldestPython = []int{3, 8}

// interpreter is a Python with which environments are made.
type interpreter struct {
	Path           string `json:"path"`
	Implementation string `json:"implementation"`
	Version        string `json:"version"` // three numbers
	Build          string `json:"build"`   // all of sys.version_info, and the ABI
	Platform       string `json:"platform"`
	Tag            string `json:"tag"` // in the names of its bytecode files
}

// identity identifies everything of the interpreter that an environment depends on. The path
// is not part of it.
func (i interpreter) identity() string {
	return strings.Join([]string{i.Implementation, i.Build, i.Platform}, " ")
}

// probe makes an interpreter describe itself. It is run with -I -S, without site packages and
// the user's settings.
const probe = `import json, sys, sysconfig
v = sys.version_info
print(json.dumps({
    "implementation": sys.implementation.name,
    "version": "%d.%d.%d" % v[:3],
    "build": "%d.%d.%d-%s%d %s" % (*v, sysconfig.get_config_var("SOABI")),
    "platform": sysconfig.get_platform(),
    "tag": sys.implementation.cache_tag,
}))`

// remembered is the cached answer to a question about interpreters. It is invalid if the
// interpreter's file has changed.
type remembered struct {
	File  string      `json:"file"`
	Size  int64       `json:"size"`
	Mtime int64       `json:"mtime"`
	Is    interpreter `json:"is"`
}

func (s *Store) memory(question string) string {
	return s.path("interpreters", digest(question)+".json")
}

// recall returns the cached answer to a question, if its interpreter's file has not changed.
func (s *Store) recall(question string) (interpreter, bool) {
	b, err := os.ReadFile(s.memory(question))
	if err != nil {
		return interpreter{}, false
	}
	var r remembered
	if json.Unmarshal(b, &r) != nil {
		return interpreter{}, false
	}
	info, err := os.Stat(r.File)
	if err != nil || info.Size() != r.Size || info.ModTime().UnixNano() != r.Mtime {
		return interpreter{}, false
	}
	return r.Is, true
}

func (s *Store) remember(question string, is interpreter) error {
	info, err := os.Stat(is.Path)
	if err != nil {
		return fmt.Errorf("venv: stat the interpreter: %w", err)
	}
	b, err := json.Marshal(remembered{File: is.Path, Size: info.Size(), Mtime: info.ModTime().UnixNano(), Is: is})
	if err != nil {
		return err
	}
	return writeFile(s.memory(question), b, 0o644)
}

// inspect describes the interpreter at a path.
func (s *Store) inspect(ctx context.Context, path string) (interpreter, error) {
	question := "what is " + path
	if is, ok := s.recall(question); ok {
		return is, nil
	}
	out, err := command{path: path, args: []string{"-I", "-S", "-c", probe}, dir: s.dir, env: s.environ()}.output(ctx)
	if err != nil {
		return interpreter{}, err
	}
	is := interpreter{}
	if err := json.Unmarshal([]byte(out), &is); err != nil {
		return interpreter{}, fmt.Errorf("venv: %s describes itself as %.200q", path, out)
	}
	is.Path = path
	return is, s.remember(question, is)
}

func fitsPython(is interpreter, requires string) bool {
	version, ok := numbers(is.Version)
	return ok && compare(version, oldestPython) >= 0 && satisfies(version, requires)
}

// knownPython returns the interpreter for a requires-python if it is in the cache, so that no
// process has to be started to find it.
func (s *Store) knownPython(requires string) (interpreter, bool) {
	if path, err := s.cfg.Interpreter(); err == nil {
		if is, ok := s.recall("what is " + path); ok && fitsPython(is, requires) {
			return is, true
		}
	}
	is, ok := s.recall("what fits " + requires)
	return is, ok && requires != ""
}

// choose returns the interpreter for a requires-python: the node's own if it fits, else one
// that uv finds on this machine, else one that uv installs.
func (s *Store) choose(ctx context.Context, requires string, say func(string)) (interpreter, error) {
	var own interpreter
	path, err := s.cfg.Interpreter()
	if err == nil {
		own, err = s.inspect(ctx, path)
	}
	if ctx.Err() != nil {
		return own, context.Cause(ctx)
	}
	if err == nil && fitsPython(own, requires) {
		return own, nil
	}
	if err != nil {
		s.cfg.Log.Warn("the node's own Python cannot be used for environments", "error", err)
	}
	question := "what fits " + requires
	if is, ok := s.recall(question); ok {
		return is, nil
	}
	is, err := s.seek(ctx, own, requires, say)
	if err != nil {
		return is, err
	}
	return is, s.remember(question, is)
}

// seek makes uv find or install an interpreter.
func (s *Store) seek(ctx context.Context, own interpreter, requires string, say func(string)) (interpreter, error) {
	uv, err := s.uv(ctx, say)
	if err != nil {
		return own, err
	}
	wanted := requires
	if wanted == "" {
		wanted = ">=3.8"
	}
	say("looking for a Python " + wanted)
	python := func(args ...string) command {
		return command{path: uv, args: append([]string{"python"}, args...), dir: s.dir, env: s.environ()}
	}
	find := python("find", "--no-project", "--system", "--no-python-downloads", wanted)
	found, err := find.output(ctx)
	if failed := (*commandError)(nil); errors.As(err, &failed) {
		say("none is installed; uv tries to install one")
		if err = python("install", wanted).run(ctx, say); err == nil {
			found, err = find.output(ctx)
		}
	}
	if failed := (*commandError)(nil); errors.As(err, &failed) {
		return own, noPython(own, wanted, failed.output)
	}
	if err != nil {
		return own, err
	}
	is, err := s.inspect(ctx, strings.TrimSpace(found))
	if err != nil {
		return own, err
	}
	if version, ok := numbers(is.Version); !ok || compare(version, oldestPython) < 0 {
		return own, noPython(own, wanted, fmt.Sprintf("%s is Python %s; code runs here from Python 3.8 on", is.Path, is.Version))
	}
	say("using Python " + is.Version + " at " + is.Path)
	return is, nil
}

func noPython(own interpreter, wanted, output string) error {
	message := "the environment needs a Python " + wanted + ", which this node neither has nor can install"
	if own.Version != "" {
		message += "; its own is " + own.Version
	}
	return &BuildError{Reason: NoInterpreter, Message: message, Output: output}
}
