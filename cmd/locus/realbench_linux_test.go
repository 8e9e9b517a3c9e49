package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// runBench runs locus bench and checks the form of its report.
func runBench(t *testing.T, path, tmp string, flags ...string) benchReport {
	t.Helper()
	cmd := exec.Command(path, append([]string{"bench", "--for", "10ms", "--json"}, flags...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "XDG_CACHE_HOME="+tmp, "LOCUS_SERVER=", "LOCUS_TOKEN=", "LOCUS_DATA=")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var r benchReport
	if bad := json.Unmarshal(out, &r); err != nil || bad != nil {
		t.Fatalf("%v, %v in %q %s", err, bad, out, errs.String())
	}
	if r.Version == "" || r.NodeVersion != r.Version || r.Node == "" || r.StartedAt.IsZero() || r.ForS != 0.01 || r.LoadBefore == "" || r.LoadAfter == "" {
		t.Errorf("got %s", out)
	}
	if m := r.Machine; m.OS != "linux" || m.Cores < 1 || m.Kernel == "" || m.Arch == "" {
		t.Errorf("got %+v, want OS \"linux\", Cores at least 1, a Kernel, an architecture", m)
	}
	var names []string
	for _, row := range r.Rows {
		names = append(names, row.Name)
		if row.Rounds < 5 || row.Min <= 0 || row.Median < row.Min || row.P99 < row.Median {
			t.Errorf("got %+v, want row.Rounds at least 5, row.Min more than 0, row.Median at least %v, row.P99 at least %v", row, row.Min, row.Median)
		}
		if f := row.Floor; f == nil || f.Rounds != row.Rounds || f.Min <= 0 || row.Ratio != row.Median/f.Median {
			t.Errorf("got %+v, beside %+v", row, f)
		}
	}
	if got, want := strings.Join(names, " "), "stateless_python stateful_python read_only_python stateless_bash new_session output"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	return r
}

// The benchmark measures a node that it starts itself and removes completely, and one that
// runs already, in which it leaves no session.
func TestBench(t *testing.T) {
	t.Parallel()
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	tmp := t.TempDir()
	if r := runBench(t, n.path, tmp); !strings.HasPrefix(r.Node, "http://127.0.0.1:") {
		t.Errorf("got %s, want Node starting with \"http://127.0.0.1:\"", r.Node)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	n.up()
	if r := runBench(t, n.path, tmp, "--data", n.data, "--server", n.http); r.Node != "http://"+n.http {
		t.Errorf("got %s", r.Node)
	}
	if list := decoded[gateway.SessionList](n, "sessions"); len(list.Sessions) > 0 {
		t.Errorf("it left %s", say(list))
	}
}

func TestBenchMisused(t *testing.T) {
	for _, row := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--for", "0s"}, surfaces.ExitRefused, "more than zero"},
		{[]string{"--data", t.TempDir()}, surfaces.ExitRefused, "give --server too"},
		{[]string{"now"}, surfaces.ExitRefused, "takes only flags"},
		{[]string{"--server", "127.0.0.1:1", "--token", "x"}, surfaces.ExitUnavailable, "127.0.0.1:1"},
	} {
		s := command(t, nil, "")
		if status := s.a.run(t.Context(), append([]string{"bench"}, row.args...)); status != row.status || !strings.Contains(s.err.String(), row.want) {
			t.Errorf("%v: status %d: %s%s", row.args, status, s.out.String(), s.err.String())
		}
	}
}
