package node_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/node"
)

// authority opens the certificate authority that a node keeps in its directory.
func authority(t *testing.T, dir string) *certs.Authority {
	t.Helper()
	var key certs.SealKey
	b, err := os.ReadFile(filepath.Join(dir, "member", "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	copy(key[:], b)
	var sealed struct{ Authorities [][]byte }
	if b, err = os.ReadFile(filepath.Join(dir, "member", "ca.sealed")); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &sealed); err != nil {
		t.Fatal(err)
	}
	a, err := certs.OpenAuthority(sealed.Authorities[0], key)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// expire gives the node in a directory a certificate that expired some time ago, by less than
// an hour, because the test's authority is not older.
func expire(t *testing.T, a *certs.Authority, dir string, ago time.Duration) {
	t.Helper()
	dir = filepath.Join(dir, "member")
	c, err := certs.LoadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	key, err := certs.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	chain, err := a.Issue(c.Identity(), key.Public(), time.Now().Add(-ago-certs.Skew), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	old, err := certs.NewCredentials(tls.Certificate{Certificate: chain, PrivateKey: key}, c.Trust())
	if err != nil {
		t.Fatal(err)
	}
	if err := certs.SaveCredentials(dir, old); err != nil {
		t.Fatal(err)
	}
}

// A node that was down for longer than its certificate is valid rejoins by itself, unless it
// was removed meanwhile.
func TestANodeWithAnExpiredCertificateRejoins(t *testing.T) {
	a := start(t, t.TempDir(), quick)
	dir := t.TempDir()
	b := a.joined(dir, quick) // two nodes have one voter: b cannot issue itself one
	id := b.id()
	b.stop()
	ca := authority(t, a.dir)
	expire(t, ca, dir, 40*time.Minute)
	b = start(t, dir, quick)
	if b.id() != id {
		t.Fatalf("node %s came back as %s", id, b.id())
	}
	b.token = a.token
	value(t, b.once("1+1"), "2")
	b.stop()

	eventually(t, "the node is known to be gone", func() bool {
		for _, n := range a.nodes() {
			if n.ID == id {
				return n.State == "expired"
			}
		}
		return false
	})
	if status := a.delete("/v1/nodes/" + id); status != 200 {
		t.Fatalf("removing it: %d", status)
	}
	for name, prepare := range map[string]func(){"removed": func() {}, "removed and expired": func() { expire(t, ca, dir, 40*time.Minute) }} {
		prepare()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := node.Run(ctx, node.Config{
			DataDir: dir, HTTPAddr: "127.0.0.1:0", ListenAddr: "127.0.0.1:0",
			Ready: func(string, string, string) { cancel() },
		})
		if err == nil || ctx.Err() != nil {
			t.Errorf("a node that is %s came back, or waits for ever: %v", name, err)
		}
		cancel()
	}
}
