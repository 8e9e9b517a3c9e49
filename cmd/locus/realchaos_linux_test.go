package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/locusrun/locus/cmd/locus/chaos"
	"github.com/locusrun/locus/surfaces"
)

// chaosRun is a run of locus chaos in a process of its own.
type chaosRun struct {
	t    *testing.T
	cmd  *exec.Cmd
	dir  string
	out  bytes.Buffer
	errs safeBuffer
}

func startChaos(t *testing.T, flags ...string) *chaosRun {
	t.Helper()
	r := &chaosRun{t: t, dir: filepath.Join(t.TempDir(), "run")}
	// Answers may be late while other tests run.
	r.cmd = exec.Command(binary(t), append([]string{"chaos", "run", "--fast", "--out", r.dir, "--slack", "1m", "--json"}, flags...)...)
	// A run that is killed leaves a folder there, which running code must reach.
	tmp, err := os.MkdirTemp("", "locus-test-chaos-")
	if err == nil {
		err = os.Chmod(tmp, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(tmp); err != nil {
			t.Error(err)
		}
	})
	r.cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.errs
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Process.Kill() // the nodes end with it
			_ = r.cmd.Wait()
		}
	})
	return r
}

// end waits for the end, and gives the report and the exit status.
func (r *chaosRun) end() (report chaos.Report, status int) {
	r.t.Helper()
	var exit *exec.ExitError
	if err := r.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	if err := json.Unmarshal(r.out.Bytes(), &report); err != nil {
		r.t.Fatalf("%v in %q\n%s", err, r.out.String(), r.errs.String())
	}
	return report, r.cmd.ProcessState.ExitCode()
}

// processes returns the command lines of a run's processes that still exist.
func (r *chaosRun) processes() (all []string) {
	r.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // no process, or none any more
		}
		at, err := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		if err != nil {
			continue // it has ended
		}
		if strings.Contains(string(line), r.dir) || strings.HasPrefix(at, r.dir) {
			all = append(all, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return all
}

// A mesh of three nodes is broken, and every promise holds. The same history is judged the
// same afterwards, and a copy in which a loss is not reported is judged wrong.
func TestChaos(t *testing.T) {
	r := startChaos(t, "--for", "8s", "--seed", "52", "--nodes", "3")
	report, status := r.end()
	if status != 0 || !report.Held || report.Seed != 52 || report.Nodes != 3 || len(report.Faults) == 0 || report.Outcomes["done"] < 10 {
		t.Fatalf("status %d, want 0: %s\n%s", status, say(report), r.errs.String())
	}
	if left := r.processes(); len(left) > 0 {
		t.Errorf("it left running: %q", left)
	}
	if stored, err := filepath.Glob(filepath.Join(r.dir, chaos.StoredPattern)); err != nil || len(stored) > 0 {
		t.Errorf("it left %q, %v", stored, err)
	}
	if !regexp.MustCompile(`(?m)^ +\d+\.\ds +(kill|stop|restart|cut|deaf|mute|spoil) .+ for `).MatchString(r.errs.String()) {
		t.Errorf("it tells nothing of what it does: %s", r.errs.String())
	}

	history := filepath.Join(r.dir, chaos.HistoryFile)
	for _, path := range []string{r.dir, history} {
		s := command(t, nil, "")
		status := s.a.run(t.Context(), []string{"chaos", "report", path, "--json"})
		var again chaos.Report
		if err := json.Unmarshal([]byte(s.out.String()), &again); err != nil || status != 0 || say(again) != say(report) {
			t.Errorf("%s is judged with status %d, %v:\n%s, and by the run\n%s", path, status, err, say(again), say(report))
		}
	}
	s := command(t, nil, "")
	if status := s.a.run(t.Context(), []string{"chaos", "report", r.dir}); status != 0 || !strings.Contains(s.out.String(), "every promise held") || !strings.Contains(s.out.String(), report.Again) {
		t.Errorf("status %d, want 0: %s", status, s.out.String())
	}

	text, err := os.ReadFile(history)
	if err != nil {
		t.Fatal(err)
	}
	// Two more calls, of which the second finds the first one's state missing, without a
	// reported loss.
	// Losses that were reported to others in the run do not concern their session.
	end := strings.LastIndex(strings.TrimSpace(string(text)), "\n") + 1
	doctored := string(text[:end]) + untold("before", 0) + untold("after", 1) + string(text[end:])
	path := filepath.Join(t.TempDir(), "doctored.jsonl")
	if err := os.WriteFile(path, []byte(doctored), 0o600); err != nil {
		t.Fatal(err)
	}
	s = command(t, nil, "")
	if status := s.a.run(t.Context(), []string{"chaos", "report", path}); status != surfaces.ExitCodeFailed || !strings.Contains(s.out.String(), "BROKEN") || !strings.Contains(s.out.String(), "loss_told: ") {
		t.Errorf("status %d: %s%s", status, s.out.String(), s.err.String())
	}
}

// untold returns the lines of a call that appends to a list in a session of its own and is
// answered from a generation of it, without a reported loss, and of the mark that its code
// left.
func untold(generation string, number int) string {
	token, at := fmt.Sprint("untold.", number), int64(time.Hour)+int64(number)
	return fmt.Sprintf(`{"call":{"token":%q,"node":1,"program":"append","arguments":{"language":"python","state_mode":"stateful","session_name":"untold","timeout_s":6},`+
		`"began_ns":%d,"ended_ns":%[2]d,"answer":{"call_id":"call_%[1]s","status":"done","code":null,"result":[%[3]q,[%[1]q]],"attempts":1,"state_lost":false,"node":1}}}
{"mark":{"session":"untold","generation":%[3]q,"token":%[1]q,"start":true,"at_ns":%[2]d}}
`, token, at, generation)
}

// A run that is interrupted or killed leaves no node behind.
func TestChaosIsEndedEarly(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"interrupted": syscall.SIGINT, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startChaos(t, "--for", "10m", "--faults", "stop", "--nodes", "2")
			eventually(t, "something is broken", func() bool { return strings.Contains(r.errs.String(), "stop node") })
			if len(r.processes()) == 0 {
				t.Fatal("no process of a node is found")
			}
			if err := r.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if sig == syscall.SIGINT {
				if report, status := r.end(); status != surfaces.ExitLost || report.Held || !strings.Contains(report.Undecided, "interrupted") || len(report.Violations) > 0 {
					t.Errorf("status %d: %s, want status %v, no report.Held, report.Undecided with \"interrupted\", no report.Violations", status, say(report), surfaces.ExitLost)
				}
				if left := r.processes(); len(left) > 0 {
					t.Errorf("it left running: %q", left)
				}
				return
			}
			_ = r.cmd.Wait() // its error is that it was killed
			eventually(t, "the nodes have ended", func() bool { return len(r.processes()) == 0 })
			s := command(t, nil, "")
			if status := s.a.run(t.Context(), []string{"chaos", "report", r.dir}); status != surfaces.ExitLost || !strings.Contains(s.out.String(), "undecided: the history has no end") {
				t.Errorf("status %d: %s%s", status, s.out.String(), s.err.String())
			}
		})
	}
}

func TestChaosMisused(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--server", "127.0.0.1:7070"}, "only a mesh that it starts itself"},
		{[]string{"run", "--data", full}, "only a mesh that it starts itself"},
		{[]string{"run", "--out", full}, "is not empty"},
		{[]string{"run", "--nodes", "1"}, "a run has 2 to 9"},
		{[]string{"run", "--for", "0s"}, "more than zero"},
		{[]string{"run", "--faults", "kill,fire"}, `there is no kind of fault "fire"`},
		{[]string{"run", "now"}, "takes only flags"},
		{[]string{"report", filepath.Join(full, "none")}, "no such file"},
		{[]string{"report", full}, "no such file"},
		{[]string{"report", filepath.Join(full, "mine")}, "is not the history of a run"},
		{[]string{"report"}, "takes one history"},
		{[]string{"rum"}, `did you mean "locus chaos run"?`},
	} {
		s := command(t, nil, "")
		if status := s.a.run(t.Context(), append([]string{"chaos"}, row.args...)); status != surfaces.ExitRefused || !strings.Contains(s.err.String(), row.want) {
			t.Errorf("%v: status %d: %s%s", row.args, status, s.out.String(), s.err.String())
		}
	}
	if entries, err := os.ReadDir(full); err != nil || len(entries) != 1 {
		t.Errorf("something is left: %v, %v", entries, err)
	}
}
