package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDiscover(t *testing.T) {
	home := t.TempDir()
	data := filepath.Join(home, ".local", "share", "locus")
	other := t.TempDir()
	write := func(dir, name, text string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(data, TokenFile, "home-token\n")
	write(other, TokenFile, "other-token")
	write(other, AddressFile, "0.0.0.0:4321\n")
	for _, row := range []struct {
		name             string
		hints            Hints
		env              map[string]string
		server, token    string
		serverFrom       string
		missingMentions  string
		tokenFromHasFile bool
	}{
		{name: "nothing given", server: DefaultServer, token: "home-token", serverFrom: "default", tokenFromHasFile: true},
		{name: "data by flag", hints: Hints{Data: other}, server: "http://127.0.0.1:4321", token: "other-token", serverFrom: filepath.Join(other, AddressFile), tokenFromHasFile: true},
		{name: "data by variable", env: map[string]string{"LOCUS_DATA": other}, server: "http://127.0.0.1:4321", token: "other-token", serverFrom: filepath.Join(other, AddressFile), tokenFromHasFile: true},
		{name: "server by variable", env: map[string]string{"LOCUS_SERVER": "localhost:9"}, server: "localhost:9", token: "home-token", serverFrom: "$LOCUS_SERVER", tokenFromHasFile: true},
		{name: "flags win", hints: Hints{Server: "http://[::1]:1", Token: "t"}, env: map[string]string{"LOCUS_SERVER": "x:1", "LOCUS_TOKEN": "u"}, server: "http://[::1]:1", token: "t", serverFrom: "--server"},
		{name: "token by variable", env: map[string]string{"LOCUS_TOKEN": "u"}, server: DefaultServer, token: "u", serverFrom: "default"},
		{name: "a far server gets no token of this machine", hints: Hints{Server: "https://mesh.example"}, server: "https://mesh.example", serverFrom: "--server", missingMentions: "was not sent to https://mesh.example"},
		{name: "unless its directory was named", hints: Hints{Server: "https://mesh.example", Data: other}, server: "https://mesh.example", token: "other-token", serverFrom: "--server", tokenFromHasFile: true},
		{name: "no token there", hints: Hints{Data: filepath.Join(home, "none")}, server: DefaultServer, serverFrom: "default", missingMentions: "there is no " + filepath.Join(home, "none", TokenFile)},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.hints.Getenv = func(k string) string {
				if k == "HOME" {
					return home
				}
				return row.env[k]
			}
			got, err := Discover(row.hints)
			if err != nil {
				t.Fatal(err)
			}
			if got.Server != row.server || got.Token != row.token || got.ServerFrom != row.serverFrom {
				t.Errorf("got %+v, want Server %v, Token %v, ServerFrom %v", got, row.server, row.token, row.serverFrom)
			}
			if row.missingMentions == "" != (got.Missing == "") || !strings.Contains(got.Missing, row.missingMentions) {
				t.Errorf("missing: %q, want %q", got.Missing, row.missingMentions)
			}
			if row.tokenFromHasFile != strings.HasSuffix(got.TokenFrom, TokenFile) {
				t.Errorf("token from %q", got.TokenFrom)
			}
		})
	}
}

func TestDialable(t *testing.T) {
	for in, want := range map[string]string{
		"0.0.0.0:1": "127.0.0.1:1", "[::]:1": "[::1]:1", ":1": "127.0.0.1:1", "10.0.0.1:1": "10.0.0.1:1", "odd": "odd",
	} {
		if got := dialable(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
