package venv

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// fakeIndex is a package index on loopback that has some files of uv.
type fakeIndex struct {
	*httptest.Server
	files map[string][]byte
	lies  map[string]string // a digest that is not the file's
	html  bool
	asked []string
}

func newFakeIndex(t *testing.T) *fakeIndex {
	x := &fakeIndex{files: map[string][]byte{}, lies: map[string]string{}}
	x.Server = httptest.NewServer(x)
	t.Cleanup(x.Close)
	for _, name := range []string{"UV_INDEX_URL", "PIP_INDEX_URL", "PIP_CONFIG_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("UV_DEFAULT_INDEX", strings.Replace(x.URL, "http://", "http://user:word@", 1)+"/simple")
	t.Setenv("PATH", "/usr/bin:/bin")
	t.Setenv("PYENV_ROOT", t.TempDir()) // no uv from there
	return x
}

// wheel is a wheel of uv whose program is a script.
func wheel(t *testing.T, script string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("uv-1.2.3.data/scripts/uv")
	if err == nil {
		_, err = w.Write([]byte(script))
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (x *fakeIndex) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.asked = append(x.asked, r.URL.Path)
	if user, word, _ := r.BasicAuth(); user != "user" || word != "word" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if b, ok := x.files[strings.TrimPrefix(r.URL.Path, "/files/")]; ok {
		w.Write(b)
		return
	}
	if r.URL.Path != "/simple/uv/" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	type hashes map[string]string
	var list []map[string]any
	page := "<!DOCTYPE html><html><body>"
	for name, b := range x.files {
		sum := sha256.Sum256(b)
		digest := hex.EncodeToString(sum[:])
		if lie, ok := x.lies[name]; ok {
			digest = lie
		}
		yanked := strings.Contains(name, "9.9.8")
		list = append(list, map[string]any{"filename": name, "url": "../../files/" + name, "hashes": hashes{"sha256": digest}, "yanked": yanked})
		attr := ""
		if yanked {
			attr = ` data-yanked="broken &amp; bad"`
		}
		page += fmt.Sprintf("<a href=\"../../files/%s#sha256=%s\"%s>%s</a><br>\n", name, digest, attr, name)
	}
	if x.html {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
	json.NewEncoder(w).Encode(map[string]any{"files": list})
}

func TestUvIsFetched(t *testing.T) {
	arch := machines[runtime.GOARCH]
	good := "#!/bin/sh\necho uv 1.2.3\n"
	for _, kind := range []string{"json", "html"} {
		t.Run(kind, func(t *testing.T) {
			x := newFakeIndex(t)
			x.html = kind == "html"
			name := func(version, platform string) string { return "uv-" + version + "-py3-none-" + platform + ".whl" }
			x.files[name("1.2.3", "manylinux_2_17_"+arch+".manylinux2014_"+arch)] = wheel(t, "not for this machine")
			x.files[name("1.2.3", "musllinux_1_1_"+arch)] = wheel(t, good)
			x.files[name("1.2.3", "macosx_11_0_"+arch)] = wheel(t, "#!/bin/sh\necho uv 6\n")
			x.files[name("1.2.3", "manylinux_2_17_other")] = wheel(t, "#!/bin/sh\necho uv 5\n")
			x.files[name("1.2.1", "musllinux_1_1_"+arch)] = wheel(t, "#!/bin/sh\necho uv 1.2.1\n")
			x.files[name("9.9.8", "musllinux_1_1_"+arch)] = wheel(t, "#!/bin/sh\necho uv 9.9.8 yanked\n")
			x.files[name("9.9.9rc1", "musllinux_1_1_"+arch)] = wheel(t, "#!/bin/sh\necho uv 9.9.9 early\n")
			x.files["uv-9.9.9.tar.gz"] = []byte("x")
			s := open(t, Config{})
			path, err := s.uv(soon(t), func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != good {
				t.Errorf("%q, %v", b, err)
			}
			n := len(x.asked)
			again := open(t, Config{Dir: s.dir})
			if other, err := again.uv(soon(t), func(string) {}); err != nil || other != path || len(x.asked) != n {
				t.Errorf("it is fetched again: %s, %v", other, err)
			}
		})
	}
}

func TestUvThatIsNotWhatTheIndexSays(t *testing.T) {
	x := newFakeIndex(t)
	name := "uv-1.2.3-py3-none-manylinux_2_17_" + machines[runtime.GOARCH] + ".whl"
	x.files[name] = wheel(t, "#!/bin/sh\necho uv 1.2.3\n")
	x.lies[name] = strings.Repeat("0", 64)
	s := open(t, Config{})
	bad := failure(t, s, needs("a"))
	if bad.Reason != NoUv || !strings.Contains(bad.Message, "digest") {
		t.Errorf("%s: %s\n%s", bad.Reason, bad.Message, bad.Output)
	}
	if isFile(s.path("uv", "uv")) {
		t.Error("it is kept")
	}
	x.lies[name] = "" // and without a digest it is not taken either
	if bad := failure(t, s, needs("a")); bad.Reason != NoUv || !strings.Contains(bad.Message, "no uv for this machine") || strings.Contains(bad.Message, "word") {
		t.Errorf("%s: %s\n%s", bad.Reason, bad.Message, bad.Output)
	}
}

func TestNoIndex(t *testing.T) {
	x := newFakeIndex(t)
	x.Close()
	if bad := failure(t, open(t, Config{}), needs("a")); bad.Reason != NoUv || strings.Contains(bad.Message, "word") {
		t.Errorf("%s: %s\n%s", bad.Reason, bad.Message, bad.Output)
	}
}

// A uv that is too old, or does not run, is passed over.
func TestUnusableUvIsSkipped(t *testing.T) {
	dirs := map[string]string{"old": "echo uv 0.4.30", "broken": "exit 3", "good": "echo uv 0.13.9"}
	root := t.TempDir()
	var path []string
	for _, name := range []string{"old", "broken", "good"} {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "uv"), []byte("#!/bin/sh\n"+dirs[name]+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		path = append(path, dir)
	}
	s := open(t, Config{})
	t.Setenv("PATH", strings.Join(path, ":")+":/usr/bin:/bin")
	if got, err := s.uv(soon(t), func(string) {}); err != nil || got != filepath.Join(root, "good", "uv") {
		t.Error(got, err)
	}
}

// The index has a real uv: the node that has none fetches it, and it builds.
func TestTheRealUvIsFetched(t *testing.T) {
	if err := asked(); err != nil {
		t.Skip("the package index cannot be reached: ", err)
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	t.Setenv("PYENV_ROOT", t.TempDir())
	s := open(t, Config{})
	if p, err := s.findUv(soon(t)); err != nil || p != "" {
		t.Skip("there is a uv in ", p)
	}
	run(t, ready(t, s, needs("six")), "import six")
	if s.uvPath != s.path("uv", "uv") {
		t.Error(s.uvPath)
	}
}
