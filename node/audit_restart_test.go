package node_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/gateway"
)

// A restarted node continues its log, and a log that cannot be written stops no call.
func TestTheAuditLogAfterARestart(t *testing.T) {
	dir := t.TempDir()
	w := start(t, dir)
	ok(t, w.once("1"))
	head := w.status().Audit.Head
	w.stop()
	w = start(t, dir)
	ok(t, w.once("1"))
	var v gateway.AuditVerdicts
	w.get("/v1/audit/verify", &v)
	if !v.OK || len(v.Reports) != 1 || v.Reports[0].Fault != nil || v.Reports[0].Entries < head.Seq+4 {
		t.Fatalf("got %+v, want one correct log of at least %d entries", v, head.Seq+4)
	}
	if r, err := audit.Verify(t.Context(), filepath.Join(dir, "audit"), head); err != nil || r.Fault != nil || r.Seen != 1 {
		t.Fatalf("got %+v, %v, want a correct log with the head that was seen", r, err)
	}
	whats := []audit.Kind{}
	for _, e := range w.auditEntries(t, url.Values{}).Entries {
		whats = append(whats, e.Kind)
	}
	call := []audit.Kind{audit.CallStarted, audit.CallEnded}
	if want := slices.Concat([]audit.Kind{audit.NodeStarted}, call, []audit.Kind{audit.NodeStopped, audit.NodeStarted}, call); !slices.Equal(whats, want) {
		t.Fatalf("got %q, want %q", whats, want)
	}

	// If the log cannot be written, calls are answered as usual, and the failure is reported.
	away := filepath.Join(t.TempDir(), "audit")
	if err := os.Rename(filepath.Join(dir, "audit"), away); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "audit"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	value(t, w.once("6 * 7"), "42")
	eventually(t, "the node says that it cannot write its log", func() bool { return w.status().Audit.Failing != "" })
	resp, err := w.request(t.Context(), "GET", "/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/readyz: status %d, want %d", resp.StatusCode, http.StatusServiceUnavailable)
	}
	if text := w.text(t, "/metrics"); !strings.Contains(text, "locus_audit_failing 1\n") || !strings.Contains(text, "locus_audit_lost_total ") {
		t.Errorf("the metrics do not say it: %s", text)
	}
	value(t, w.once("6 * 7"), "42")
	if err := os.Remove(filepath.Join(dir, "audit")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, filepath.Join(dir, "audit")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes on", func() bool { return w.status().Audit.Failing == "" })
	v = gateway.AuditVerdicts{}
	if w.get("/v1/audit/verify", &v); !v.OK {
		t.Errorf("got %+v, want a correct log", v)
	}
}

func (w *world) text(t testing.TB, path string) string {
	t.Helper()
	resp, err := w.request(t.Context(), "GET", path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
