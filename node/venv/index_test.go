package venv

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestIndexIsChosenFromTheSettings(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_CONFIG_FILE", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "XDG_CONFIG_HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_DIRS", filepath.Join(home, "system"))
	s := open(t, Config{Uv: newFakeUv(t).path})
	check := func(want string, forUv bool) {
		t.Helper()
		if got := indexURL(); got != want {
			t.Errorf("the index is %s, not %s", got, want)
		}
		if got := slices.Contains(s.environ(), "UV_DEFAULT_INDEX="+want); got != forUv {
			t.Errorf("uv is told %s: %v", want, got)
		}
	}
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat("/etc/pip.conf"); err != nil {
		check(publicIndex, false)
	}
	put("system/pip/pip.conf", "[global]\nindex-url = https://system/simple\n")
	check("https://system/simple", true)
	put(".config/pip/pip.conf", "[other]\nindex-url = https://other\n[install]\n# index-url = https://comment\nindex-url=https://user/simple\n")
	check("https://user/simple", true)
	t.Setenv("PIP_INDEX_URL", "https://pip/simple")
	check("https://pip/simple", true)
	put(".config/uv/uv.toml", "")
	check("https://pip/simple", false) // uv is left to its own settings
	t.Setenv("UV_INDEX_URL", "https://uv/simple")
	check("https://uv/simple", false)
	t.Setenv("UV_DEFAULT_INDEX", "mine=https://default/simple")
	check("https://default/simple", false)
}
