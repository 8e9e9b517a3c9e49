package checkup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func program(t *testing.T, dir, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func byName(checks []Check) map[string]Check {
	all := map[string]Check{}
	for _, c := range checks {
		all[c.Name] = c
	}
	return all
}

func TestLanguages(t *testing.T) {
	dir := t.TempDir()
	program(t, dir, "python3", "echo 3.9.1")
	program(t, dir, "bash", "echo 5.2")
	program(t, dir, "zsh", "exit 3")
	got := byName(Languages(t.Context(), "relative:"+dir))
	for name, want := range map[string]struct {
		ok     bool
		detail string
	}{
		"language python":     {false, "3.9.1"}, // too old
		"language bash":       {true, "5.2"},
		"language zsh":        {false, "does not run"},
		"language sh":         {false, "no sh on the search path"},
		"language powershell": {false, "no pwsh on the search path"},
	} {
		c := got[name]
		if c.OK != want.ok || !strings.Contains(c.Detail, want.detail) || c.OK != (c.Advice == "") {
			t.Errorf("%s: %+v", name, c)
		}
	}
	program(t, dir, "python3", "echo 3.14.0rc1")
	if c := byName(Languages(t.Context(), dir))["language python"]; !c.OK {
		t.Errorf("got %+v, want OK", c)
	}
	report := Report{}
	report.Add(got["language zsh"])
	if !report.OK() {
		t.Error("what is not required is missed")
	}
	report.Add(got["language sh"])
	if report.OK() {
		t.Error("what is required is not missed")
	}
}

func TestDataDir(t *testing.T) {
	dir := t.TempDir()
	if got := byName(DataDir(filepath.Join(dir, "a", "b")))["data directory"]; !got.OK || !strings.Contains(got.Detail, "not created yet") {
		t.Errorf("one that can be made: %+v", got)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := byName(DataDir(file))["data directory"]; got.OK || got.Advice == "" {
		t.Errorf("a file: %+v", got)
	}
	token := filepath.Join(dir, "default.token")
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o644: false} {
		if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(token, mode); err != nil {
			t.Fatal(err)
		}
		got := byName(DataDir(dir))["token file"]
		if got.OK != ok || strings.Contains(got.Detail, "secret") {
			t.Errorf("mode %o: %+v, want OK %v, Detail without \"secret\"", mode, got, ok)
		}
	}
	if got := byName(DataDir(dir))["disk space"]; !strings.HasSuffix(got.Detail, "free") {
		t.Errorf("got %+v, want Detail ending in \"free\"", got)
	}
}
