package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/gateway"
)

// verify verifies the log in the node's directory by the command.
func (n *realNode) verify(flags ...string) (gateway.AuditVerdicts, int) {
	n.t.Helper()
	out, errs, status := n.locus(append([]string{"audit", "verify", "--json"}, flags...)...)
	var v gateway.AuditVerdicts
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		n.t.Fatalf("%v in %q %q", err, out, errs)
	}
	return v, status
}

func (n *realNode) auditFile() string {
	n.t.Helper()
	files, err := filepath.Glob(filepath.Join(n.data, "audit", "*.jsonl"))
	if err != nil || len(files) != 1 {
		n.t.Fatalf("got files %q, %v, want one", files, err)
	}
	return files[0]
}

// A node is killed while it writes its log, and the last line is incomplete; the log continues
// and reports it. Any later change of the files is detected.
func TestTheAuditLogOfAKilledNode(t *testing.T) {
	t.Parallel()
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	if res, status := n.result("-m", "stateful", "-s", "work", "x = 'marker-5e11'"); status != 0 {
		t.Fatalf("status %d, want 0: %+v", status, res)
	}
	var busy sync.WaitGroup
	for range 4 {
		busy.Go(func() {
			for status := 0; status == 0; { // until the node is gone
				_, _, status = n.locus("exec", "-l", "sh", "echo marker-5e11")
			}
		})
	}
	eventually(t, "calls are logged", func() bool {
		v, status := n.verify()
		return status == 0 && v.Reports[0].Entries > 10
	})
	n.kill(syscall.SIGKILL)
	busy.Wait()
	before, status := n.verify()
	if status != 0 || !before.OK {
		t.Fatalf("status %d, want 0: %+v", status, before)
	}
	head := before.Reports[0].Head
	f, err := os.OpenFile(n.auditFile(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(f, `{"seq":%d,"prev":"%s","no`, head.Seq+1, head.Hash); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	n.up()
	v, status := n.verify("--head", head.String())
	if r := v.Reports[0]; status != 0 || r.Cuts != before.Reports[0].Cuts+1 || r.Seen != 1 || r.Head.Seq < head.Seq+2 {
		t.Fatalf("status %d, want 0: %+v", status, v)
	}
	out, errs, status := n.locus("audit", "tail", "--what", "log_cut", "--json")
	var list gateway.AuditList
	if err := json.Unmarshal([]byte(out), &list); err != nil || status != 0 || len(list.Entries) == 0 || list.Entries[0].Kind != audit.LogCut {
		t.Fatalf("status %d: %q %q, want an entry of a cut log", status, out, errs)
	}
	out, _, _ = n.locus("audit", "tail", "-n", "1000")
	if !strings.Contains(out, "call_started") || !strings.Contains(out, `session "work"`) || strings.Contains(out, "marker-5e11") {
		t.Errorf("got %s, want stdout with \"call_started\", stdout with session \"work\", stdout without \"marker-5e11\"", out)
	}
	server := "http://" + n.http
	if out, errs, status := n.locus("--server", server, "audit", "verify"); status != 0 || !strings.Contains(out, n.id+"  intact") || !strings.Contains(out, "cut short") {
		t.Errorf("status %d, want 0: %q %q", status, out, errs)
	}
	n.kill(syscall.SIGTERM)

	text, err := os.ReadFile(n.auditFile())
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), `"session_name":"work"`, `"session_name":"play"`, 1)
	if err := os.WriteFile(n.auditFile(), []byte(changed), 0o600); err != nil || changed == string(text) {
		t.Fatal(err)
	}
	if out, _, status := n.locus("audit", "verify"); status != 1 || !strings.Contains(out, "NOT AS IT WAS WRITTEN: entry 2 at 00000000000000000001.jsonl:2 (changed)") {
		t.Errorf("status %d, want 1: %s", status, out)
	}
	n.up() // the node continues, and reports it too
	if out, _, status := n.locus("--server", "http://"+n.http, "audit", "verify"); status != 1 || !strings.Contains(out, "NOT AS IT WAS WRITTEN: entry 2 ") {
		t.Errorf("status %d, want 1: %s", status, out)
	}
}
