package agentlink

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
)

// A truncated file of addresses would keep the machine from reconnecting.
func TestNodeAddressesAreReplacedAtomically(t *testing.T) {
	dir := newTown(t).settle("m", time.Now())
	file, before := filepath.Join(dir, nodesFile), filepath.Join(dir, "before")
	if err := os.Link(file, before); err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(before)
	if err != nil {
		t.Fatal(err)
	}
	s := &membership{dir: dir}
	if err := s.load(""); err != nil {
		t.Fatal(err)
	}
	if err := s.saveAddresses([]mesh.NodeAddr{{ID: "o", Addr: "192.0.2.1:7"}}); err != nil {
		t.Fatal(err)
	}
	if is, err := os.ReadFile(before); err != nil || string(is) != string(was) {
		t.Errorf("the old file was written over: %q, %v", is, err)
	}
	again := &membership{dir: dir}
	if err := again.load(""); err != nil || len(again.addresses) != 2 || again.addresses[1] != "192.0.2.1:7" {
		t.Errorf("%q, %v", again.addresses, err)
	}
}

func TestAMachineOfAnotherRole(t *testing.T) {
	dir := newTown(t).settle("m", time.Now())
	_, err := Open(t.Context(), Config{Dir: dir, Role: certs.RoleVM, Policy: Policy{Consent: ConsentAllow}, Log: slog.New(slog.DiscardHandler)})
	var role *RoleError
	if !errors.As(err, &role) || *role != (RoleError{Actual: certs.RoleLink, Wanted: certs.RoleVM, Stored: true}) {
		t.Fatalf("%v", err)
	}
	for _, row := range []struct {
		err           RoleError
		message, adds string
	}{
		{*role, "the directory is that of a machine of role link, and this one is to be of role vm", "--as link"},
		{RoleError{Actual: certs.RoleVM, Wanted: certs.RoleLink}, "the token is for the role vm, and this machine is to be of role link", "--as vm"},
		{RoleError{Actual: certs.RoleNode, Wanted: certs.RoleLink}, "the token is for the role node, and this machine is to be of role link", makeToken},
	} {
		p := Explain(&row.err, "")
		if p == nil || p.Message != row.message || !strings.Contains(p.Advice, row.adds) || strings.Contains(p.Advice, "--as node") {
			t.Errorf("%+v: %+v", row.err, p)
		}
	}
}

// After a failed Open the directory is unlocked, so the same process can try again.
func TestAFailedOpenUnlocksTheDirectory(t *testing.T) {
	w := newTown(t)
	dir := w.settle("m", time.Now())
	file := filepath.Join(dir, nodesFile)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`["no address"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-w.runs(dir, quickly{}); err == nil {
		t.Fatal("it ran")
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	w.runs(dir, quickly{})
}
