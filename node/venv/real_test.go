package venv

import (
	"archive/zip"
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// asked is whether the package index answers, found out once.
var asked = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	index, err := url.Parse(indexURL())
	if err != nil {
		return err
	}
	_, err = get(ctx, index, strings.TrimSuffix(indexURL(), "/")+"/six/", "", maxIndexPage)
	return err
})

// real opens a store that uses the real uv, and real packages.
func real(t testing.TB, cfg Config) *Store {
	t.Helper()
	if err := asked(); err != nil {
		t.Skip("the package index cannot be reached: ", err)
	}
	return open(t, cfg)
}

func failure(t *testing.T, s *Store, spec Spec) *BuildError {
	t.Helper()
	env, err := s.Acquire(soon(t), spec, nil)
	bad := (*BuildError)(nil)
	if !errors.As(err, &bad) {
		t.Fatalf("no failure: %v, %v", env, err)
	}
	return bad
}

func TestRealEnvironments(t *testing.T) {
	s := real(t, Config{})
	old, young := ready(t, s, needs("urllib3<2", "six")), ready(t, s, needs("urllib3>=2", "six"))
	const code = "import urllib3, six, sys; print(urllib3.__version__[0], sys.prefix)"
	if got := run(t, old, code); got != "1 "+old.Dir {
		t.Error(got)
	}
	if got := run(t, young, code); got != "2 "+young.Dir {
		t.Error(got)
	}
	if !strings.HasPrefix(run(t, old, "import sys; print(sys.version)"), old.Version+" ") {
		t.Error(old.Version)
	}
	t.Run("it does not know where it was built", func(t *testing.T) {
		err := filepath.WalkDir(old.Dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if strings.Contains(string(b), s.path("envs", ".")) {
				t.Errorf("%s has the name of the folder it was built in", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("the bytecode is there", func(t *testing.T) {
		got := run(t, old, "import os, importlib.util as u, six; print(os.path.exists(u.cache_from_source(six.__file__)))")
		if got != "True" {
			t.Error(got)
		}
		got = run(t, old, "import six; print(six.add_metaclass.__code__.co_filename == six.__file__)")
		if got != "True" {
			t.Error("its own file name is wrong")
		}
	})
	t.Run("files are shared with the cache", func(t *testing.T) {
		for _, name := range []string{"six.py", "__pycache__/six.*.pyc"} {
			if !os.SameFile(thing(t, old, name), thing(t, young, name)) {
				t.Errorf("%s takes its room twice", name)
			}
		}
	})
	t.Run("another node builds the same versions", func(t *testing.T) {
		spec := needs("urllib3<2", "six")
		spec.Lock = []byte(strings.ReplaceAll(string(lockedAt(t, s)), "\r", ""))
		env := ready(t, open(t, Config{}), spec)
		if got := run(t, env, "import urllib3; print(urllib3.__version__)"); got != "1.26.14" {
			t.Errorf("urllib3 %s", got)
		}
		if string(env.Lock) != string(spec.Lock) {
			t.Error("the lock is another one")
		}
	})
	t.Run("offline", func(t *testing.T) {
		cutOff(t)
		spec := needs("six", "urllib3<2")
		spec.Lock = old.Lock
		ready(t, s, spec)
	})
}

// lockedAt is a lock of the specs above with an older urllib3, as a first build of
// long ago would have left it.
func lockedAt(t *testing.T, s *Store) []byte {
	env := ready(t, s, needs("urllib3==1.26.14", "six"))
	return []byte(strings.ReplaceAll(string(env.Lock), `name = "urllib3", specifier = "==1.26.14"`, `name = "urllib3", specifier = "<2"`))
}

// thing looks at a file of the site packages.
func thing(t *testing.T, env *Env, name string) os.FileInfo {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(env.Dir, "lib", "python*", "site-packages", name))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	info, err := os.Stat(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestUvErrorsAreReported(t *testing.T) {
	s := real(t, Config{})
	for name, spec := range map[string]Spec{
		"locus-no-such-package-at-all": needs("locus-no-such-package-at-all"),
		"six":                          needs("six==99.99.99"),
	} {
		if bad := failure(t, s, spec); bad.Reason != Failed || !strings.Contains(bad.Output, name) || !strings.Contains(bad.Message, name) {
			t.Errorf("%s: %s\n%s", bad.Reason, bad.Message, bad.Output)
		}
	}
	if left := leftovers(t, s.dir); len(left) > 0 {
		t.Error(left)
	}
}

// cutOff takes the network away from the builder.
func cutOff(t *testing.T) {
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:9")
		t.Setenv(strings.ToLower(name), "http://127.0.0.1:9")
	}
	t.Setenv("UV_HTTP_RETRIES", "0")
}

// The index is down, and what is asked for was never locked: the cache still does.
func TestResolvingOffline(t *testing.T) {
	s := real(t, Config{})
	ready(t, s, needs("six"))
	cutOff(t)
	run(t, ready(t, s, needs("six>=1")), "import six")
	if bad := failure(t, s, needs("idna")); bad.Reason != Failed || bad.Output == "" {
		t.Errorf("%s: %s\n%s", bad.Reason, bad.Message, bad.Output)
	}
}

func TestAnotherPython(t *testing.T) {
	s := real(t, Config{})
	own, err := s.inspect(soon(t), python(t))
	if err != nil {
		t.Fatal(err)
	}
	mine, _ := numbers(own.Version)
	other := ""
	for _, dir := range searchPath() {
		for _, minor := range []string{"3.8", "3.9", "3.10", "3.12", "3.13"} {
			v, _ := numbers(minor)
			if isProgram(filepath.Join(dir, "python"+minor)) && compare(v, mine[:2]) != 0 {
				other = minor
			}
		}
	}
	if other == "" {
		t.Skip("there is no second Python here")
	}
	text := "[project]\nrequires-python = '==" + other + ".*'\ndependencies = ['six']\n"
	env := ready(t, s, specOf(text))
	if !strings.HasPrefix(env.Version, other+".") || !strings.HasPrefix(run(t, env, "import six, sys; print(sys.version)"), env.Version+" ") {
		t.Errorf("Python %s", env.Version)
	}
	if again := open(t, Config{Dir: s.dir, Uv: "/nowhere/uv"}); !again.Built(specOf(text)) {
		t.Error("after a restart it is not found")
	}
}

func TestNoPythonFits(t *testing.T) {
	t.Setenv("UV_PYTHON_DOWNLOADS", "never")
	s := real(t, Config{})
	for _, requires := range []string{"==3.99.*", "==3.6.*"} {
		bad := failure(t, s, specOf("[project]\nrequires-python = '"+requires+"'\n"))
		if bad.Reason != NoInterpreter || !strings.Contains(bad.Message, requires) || bad.Output == "" {
			t.Errorf("%s: %s\n%s", bad.Reason, bad.Message, bad.Output)
		}
	}
}

// Groups without a project, and nothing at all, are environments too.
func TestSmallTexts(t *testing.T) {
	s := real(t, Config{})
	env := ready(t, s, specOf("[dependency-groups]\ndev = ['six']\n"))
	run(t, env, "import six")
	run(t, ready(t, s, specOf("[project]\n")), "import sys")
}

func TestTheBuilderSeesNoSecrets(t *testing.T) {
	t.Setenv("LOCUS_TOKEN", "secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("UV_INDEX_MINE_PASSWORD", "passed on")
	s := open(t, Config{Uv: newFakeUv(t).path})
	env := s.environ()
	if slices.ContainsFunc(env, func(v string) bool { return strings.HasSuffix(v, "secret") }) {
		t.Error(env)
	}
	for _, there := range []string{"UV_INDEX_MINE_PASSWORD=passed on", "UV_NO_BUILD=1"} {
		if !slices.Contains(env, there) {
			t.Errorf("no %s in %q", there, env)
		}
	}
}

// Nothing that a package brings along is run while its environment is built.
func TestNoPackageCodeRunsDuringABuild(t *testing.T) {
	dir := t.TempDir()
	trap := filepath.Join(dir, "sprung")
	spring := "import os; open(" + strconv.Quote(trap) + ", 'w')\n"
	pack(t, filepath.Join(dir, "trapped-1-py3-none-any.whl"), map[string]string{
		"trapped.pth":               spring,
		"sitecustomize.py":          spring,
		"trapped.py":                spring,
		"trapped-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
	})
	s := real(t, Config{})
	env := ready(t, s, specOf("[project]\ndependencies = ['trapped']\n[tool.uv.sources]\ntrapped = {path = '"+dir+"/trapped-1-py3-none-any.whl'}\n"))
	if isFile(trap) {
		t.Error("a .pth file was run")
	}
	if run(t, env, "pass"); !isFile(trap) {
		t.Error("the trap is none")
	}
	if err := os.Remove(trap); err != nil {
		t.Fatal(err)
	}

	source := filepath.Join(dir, "links")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	pack(t, filepath.Join(source, "locussnare-1.zip"), map[string]string{
		"locussnare-1/setup.py":  spring + "from setuptools import setup\nsetup(name='locussnare', version='1')\n",
		"locussnare-1/PKG-INFO":  "Metadata-Version: 1.0\nName: locussnare\nVersion: 1\n",
		"locussnare-1/README.md": "",
	})
	spec := specOf("[project]\ndependencies = ['locussnare']\n[tool.uv]\nno-build = false\nfind-links = ['" + source + "']\n")
	if bad := failure(t, s, spec); bad.Reason != Failed || !strings.Contains(bad.Output, "locussnare") {
		t.Errorf("%s: %s\n%s", bad.Reason, bad.Message, bad.Output)
	}
	if isFile(trap) {
		t.Error("setup.py was run")
	}
	ready(t, real(t, Config{Sources: true}), spec)
	if !isFile(trap) {
		t.Error("the snare is none")
	}
}

// pack writes a wheel, or a source distribution.
func pack(t *testing.T, path string, files map[string]string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	record := ""
	for name, text := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		record += name + ",,\n"
	}
	if strings.HasSuffix(path, ".whl") {
		name, _, _ := strings.Cut(filepath.Base(path), "-")
		for file, text := range map[string]string{"METADATA": "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1\n", "RECORD": record} {
			w, err := z.Create(name + "-1.dist-info/" + file)
			if err == nil {
				_, err = w.Write([]byte(text))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A node whose own Python cannot be found still has environments.
func TestWithoutAPythonOfTheNode(t *testing.T) {
	s := real(t, Config{Interpreter: func() (string, error) { return "", errors.New("none") }})
	run(t, ready(t, s, needs("six")), "import six")
}
