package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/locusrun/locus/node/gateway/dashboard"
)

// The dashboard of a real node in a simulated browser: signing in, output shown as text, a
// call watched and steered, a broken stream, signing out.
func TestDashboardInADocument(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no Node.js to run the dashboard with")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("there is no npm to fetch a document with")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	fetch := exec.CommandContext(ctx, npm, "install", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts", "jsdom@26.1.0")
	fetch.Dir = dir
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Skipf("jsdom cannot be fetched: %v\n%s", err, out)
	}
	for _, name := range dashboard.Names() {
		asset, _ := dashboard.Find(name)
		writeFile(t, filepath.Join(dir, "page", name), asset.Body)
	}
	writeFile(t, filepath.Join(dir, "page", "package.json"), []byte(`{"type": "module"}`))
	script, err := os.ReadFile(filepath.Join("testdata", "dashboard.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "dashboard.mjs"), script)

	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	token, err := os.ReadFile(filepath.Join(n.data, "default.token"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, node, filepath.Join(dir, "dashboard.mjs"))
	cmd.Env = append(os.Environ(), "LOCUS_URL=http://"+n.http+"/", "LOCUS_TOKEN="+string(token))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func writeFile(t *testing.T, path string, body []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
}
