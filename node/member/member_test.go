package member

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
)

func open(t *testing.T, dir string, registryThere bool) (*Member, error) {
	t.Helper()
	return Open(t.Context(), Config{Dir: dir, ID: "n1", Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, registryThere)
}

func TestAMeshIsFoundedOnce(t *testing.T) {
	dir := t.TempDir()
	m, err := open(t, dir, false)
	if err != nil || !m.IsFounding() || !m.CanIssue() || m.ID() != "n1" {
		t.Fatalf("founding: %+v, %v", m, err)
	}
	// Cut off before the registry was made: the same mesh is founded.
	again, err := open(t, dir, false)
	if err != nil || !again.IsFounding() || again.Cluster() != m.Cluster() || string(again.GossipKey()) != string(m.GossipKey()) {
		t.Fatalf("again: %v", err)
	}
	if err := again.MarkEstablished(); err != nil {
		t.Fatal(err)
	}
	settled, err := open(t, dir, true)
	if err != nil || settled.IsFounding() || settled.IsJoining() || !settled.CanIssue() {
		t.Fatalf("settled: %v", err)
	}
	if *settled.ResetKey() != *m.ResetKey() {
		t.Fatal("the reset key did not last")
	}
	// Never a second mesh under the same name.
	if _, err := open(t, dir, false); !errors.Is(err, ErrLostRegistry) {
		t.Fatalf("without its registry: %v", err)
	}
}

func TestJoiningTakesAToken(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), ID: "n1", Join: "127.0.0.1:1", Log: slog.New(slog.DiscardHandler)}
	if _, err := Open(t.Context(), cfg, false); !errors.Is(err, ErrNoToken) {
		t.Fatal(err)
	}
	cfg.Token = "locus1.n.mistyped"
	var wrong *certs.TokenError
	if _, err := Open(t.Context(), cfg, false); !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	cfg.Token = certs.NewToken(certs.RoleLink, certs.Pin("a")).String()
	if _, err := Open(t.Context(), cfg, false); err == nil {
		t.Fatal("a machine's token makes a node")
	}
}

// What is sealed cannot be read with another key, and is not silently left out.
func TestASealedAuthorityNeedsItsKey(t *testing.T) {
	dir := t.TempDir()
	if _, err := open(t, dir, false); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, sealKeyFile), make([]byte, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, dir, false); !errors.Is(err, certs.ErrSealBroken) {
		t.Fatal(err)
	}
}

// A mesh whose nodes were all down for longer than a certificate lasts comes back.
func TestAVoterRenewsItselfAfterALongTimeDown(t *testing.T) {
	m, err := open(t, t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	before := m.Credentials().Leaf()
	if err := m.refresh(time.Now()); err != nil || !m.Credentials().Leaf().Equal(before) {
		t.Fatalf("a fresh certificate was replaced: %v", err)
	}
	later := time.Now().Add(30 * 24 * time.Hour)
	if err := m.refresh(later); err != nil {
		t.Fatal(err)
	}
	if end := m.Credentials().Leaf().NotAfter; !end.After(later) {
		t.Fatalf("the new certificate ends on %v", end)
	}
}
