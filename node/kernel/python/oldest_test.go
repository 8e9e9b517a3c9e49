package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/kernel/python"
)

// oldestPython returns the path of a Python 3.8, the oldest in which code runs.
func oldestPython(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(home, ".pyenv", "versions", "3.8.*", "bin", "python3.8"))
	if err != nil {
		t.Fatal(err)
	}
	if path, err := exec.LookPath("python3.8"); err == nil {
		found = append(found, path)
	}
	for _, path := range found {
		if exec.Command(path, "-c", "").Run() == nil {
			return path
		}
	}
	t.Skip("there is no Python 3.8 here")
	return ""
}

// Code runs in the oldest Python that is supported: in a session, in copies of it and in second
// sessions, with awaits, primitives' guard, errors and displays.
func TestTheOldestPython(t *testing.T) {
	path := oldestPython(t)
	s := newHouse(t, func(c *python.Config) { c.Interpreter = path }).session()
	s.must("import sys, asyncio\nx = [1]\nasync def f(): return len(x)\nprimitives = 1")
	s.expect("sys.version_info[:2], await f(), type(primitives).__name__", `[[3,8],1,"Primitives"]`)
	for _, kind := range []kernel.Kind{kernel.Copy, kernel.Session} {
		c, notices := s.fork(kind)
		if len(notices) != 0 {
			t.Errorf("notices: %v", notices)
		}
		if o := c.try(kernel.Program{Code: "x.append(2)\nimport subprocess\nawait f(), subprocess.check_output(['echo', 'child']).decode()"}); o.err != nil || o.result() != `[2,"child\n"]` {
			t.Errorf("got %s, error %v, want [2,\"child\"]\n%s", o.result(), o.err, o.exception().Traceback)
		}
		if o := c.try(kernel.Program{Code: "\n1 / 0"}); o.exception().Type != "ZeroDivisionError" || o.exception().Line != 2 {
			t.Errorf("got %+v, want a ZeroDivisionError in line 2", o.exception())
		}
		c.Kill()
	}
	s.expect("x", "[1]")
}
