package venv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// installs makes the fake uv install a Python that environments are then made with: a
// folder for its version, and a name for the series that leads there.
func installs(uv *fakeUv) {
	uv.write("python.sh", fmt.Sprintf(`
at="$UV_PYTHON_INSTALL_DIR/cpython-3.99.1-linux/bin"
case "$2" in
find) [ -x "$at/python3" ] && echo "$UV_PYTHON_INSTALL_DIR/cpython-3.99-linux/bin/python3" && exit 0; exit 2 ;;
install) mkdir -p "$at"; head -c 1048576 /dev/zero > "$at/big"
	printf '#!/bin/sh\nexec %s "$@"\n' > "$at/python3"; chmod +x "$at/python3"
	ln -sfn cpython-3.99.1-linux "$UV_PYTHON_INSTALL_DIR/cpython-3.99-linux"; exit 0 ;;
esac
`, python(uv.t)))
	uv.write("venv.sh", `for last; do :; done
mkdir -p "$last/bin" "$last/lib"; ln -s "$UV_PYTHON_INSTALL_DIR/cpython-3.99-linux/bin/python3" "$last/bin/python"; exit 0
`)
}

// A Python that uv installed goes with the last environment that is made with it, and
// is installed again when it is needed.
func TestCollectPythons(t *testing.T) {
	uv := newFakeUv(t)
	installs(uv)
	none := func() (string, error) { return "", errors.New("this node has none") }
	s := open(t, Config{Uv: uv.path, Interpreter: none, MaxAge: time.Hour})
	installed := s.path("python", "cpython-3.99.1-linux", "bin", "big")
	named := s.path("python", "cpython-3.99-linux")

	env := ready(t, s, needs("a"))
	if freed := collect(t, s); freed != 0 || !isFile(installed) {
		t.Fatalf("the Python of an environment is gone; %d bytes are free", freed)
	}
	env.Release()
	usedAt(t, s, env, 2*time.Hour)
	shared, err := s.useShared(soon(t), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	collect(t, s)
	if s.Built(needs("a")) || !isFile(installed) {
		t.Error("a Python went while a build was at work, or the environment did not")
	}
	shared.release()

	if freed := collect(t, s); freed < 1<<20 || isFile(installed) {
		t.Errorf("the Python of no environment is there; %d bytes are free", freed)
	}
	if _, err := os.Lstat(named); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its other name is there: %v", err)
	}
	ready(t, s, needs("a"))
	if !isFile(installed) {
		t.Error("it was not installed again")
	}
}

// What a collection that was killed has left is removed by the next one; what is uv's own
// and no Python stays.
func TestCollectPythonsAfterADeath(t *testing.T) {
	s := open(t, Config{Uv: newFakeUv(t).path})
	for _, name := range []string{".removed-cpython-3.99.1-linux/bin/x", ".temp/x", ".lock"} {
		path := s.path("python", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	collect(t, s)
	if isFile(s.path("python", ".removed-cpython-3.99.1-linux/bin/x")) {
		t.Error("it is there")
	}
	if !isFile(s.path("python", ".temp/x")) || !isFile(s.path("python", ".lock")) {
		t.Error("what is uv's own is gone")
	}
}
