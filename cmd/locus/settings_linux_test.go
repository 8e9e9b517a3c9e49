package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusrun/locus/cmd/locus/settings"
	"github.com/locusrun/locus/node"
)

func TestUpSettingsPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "locus.yaml")
	if err := os.WriteFile(file, []byte("data: /file\nhttp: 127.0.0.1:1\nlog_level: debug\nlabels: {zone: file}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HOME": "/h", "LOCUS_DATA": "/env"}
	a := &app{getenv: func(k string) string { return env[k] }}
	got, err := a.settings(settings.Settings{HTTP: "127.0.0.1:2"}, "zone=flag", file)
	if err != nil {
		t.Fatal(err)
	}
	if got.Data != "/env" || got.HTTP != "127.0.0.1:2" || got.LogLevel != "debug" || got.LogFormat != "text" || got.Labels["zone"] != "flag" || got.Listen != settings.DefaultListen {
		t.Errorf("%+v", got)
	}
	a.hints.Data = "/flag"
	if got, err = a.settings(settings.Settings{}, "", file); err != nil || got.Data != "/flag" || got.HTTP != "127.0.0.1:1" || got.Labels["zone"] != "file" {
		t.Errorf("%+v %v", got, err)
	}
	a.hints.Data, env = "", map[string]string{"HOME": "/h"}
	if got, err = a.settings(settings.Settings{}, "", ""); err != nil || got.Data != "/h/.local/share/locus" || got.HTTP != "127.0.0.1:7070" {
		t.Errorf("%+v %v", got, err)
	}
}

func TestUpMisused(t *testing.T) {
	dir := t.TempDir()
	odd := filepath.Join(dir, "odd.yaml")
	if err := os.WriteFile(odd, []byte("htpp: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"unknown setting": {[]string{"--config", odd}, "htpp"},
		"no such file":    {[]string{"--config", filepath.Join(dir, "none.yaml")}, "no such file"},
		"labels":          {[]string{"--labels", "zone"}, `label "zone" is not of the form k=v`},
		"join alone":      {[]string{"--join", "h:1"}, "both an address to join and a token"},
		"token alone":     {[]string{"--token", "t"}, "locus token create --role node"},
		"no address":      {[]string{"--http", "nonsense"}, `is HOST:PORT, not "nonsense"`},
		"no port":         {[]string{"--http", "127.0.0.1:http"}, `not "127.0.0.1:http"`},
		"port too high":   {[]string{"--listen", "127.0.0.1:70000"}, `not "127.0.0.1:70000"`},
		"other machine's": {[]string{"--http", "192.0.2.1:7070"}, "give an address of this machine"},
		"join a name":     {[]string{"--join", "h", "--token", "t"}, `HOST:PORT, not "h"`},
		"no such token":   {[]string{"--join", "127.0.0.1:1", "--token", "locus_abc"}, "not a join token"},
		"voters":          {[]string{"--voters", "2"}, "1, 3 or 5 voters, not 2"},
		"max sessions":    {[]string{"--max-sessions", "-1"}, "cannot take -1 sessions"},
		"trace endpoint":  {[]string{"--trace-endpoint", "127.0.0.1:4318"}, "give one such as http://127.0.0.1:4318"},
		"log level":       {[]string{"--log-level", "loud"}, `no log level "loud"`},
		"log format":      {[]string{"--log-format", "xml"}, `no log format "xml"`},
		"argument":        {[]string{"now"}, "takes only flags"},
	} {
		s := command(t, nil, "")
		if status := s.a.run(t.Context(), append([]string{"up", "--data", dir}, row.args...)); status != 2 || !strings.Contains(s.err.String(), row.want) {
			t.Errorf("%s: status %d, want 2: %s", name, status, s.err.String())
		}
	}
}

func TestSecondUpIsRefused(t *testing.T) {
	dir := t.TempDir()
	release, err := settings.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := command(t, nil, "")
	if status := s.a.run(t.Context(), []string{"up", "--data", dir}); status != 2 || !strings.Contains(s.err.String(), "a node runs on "+dir+" already") {
		t.Errorf("status %d, want 2: %s", status, s.err.String())
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

// A node that is already a member needs only --join to find the others, no token.
func TestAMemberJoinsWithoutAToken(t *testing.T) {
	dir := t.TempDir()
	cfg := node.Config{DataDir: dir, Join: "127.0.0.1:1", Log: slog.New(slog.DiscardHandler)}
	if err := (settings.Settings{HTTP: "127.0.0.1:0", Listen: "127.0.0.1:0", LogLevel: "info", LogFormat: "text", Join: cfg.Join}).Check(); err != nil {
		t.Errorf("the settings: %v", err)
	}
	if err := mayJoin(cfg); !errors.Is(err, settings.ErrIncompleteJoin) {
		t.Errorf("a new machine: got %v, want %v", err, settings.ErrIncompleteJoin)
	}
	if err := os.MkdirAll(filepath.Join(dir, "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "member", "stage"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := mayJoin(cfg); err != nil {
		t.Errorf("a member: %v", err)
	}
}
