package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// built is the command, built once for all tests.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "locus-test-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	path := filepath.Join(dir, "locus")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// buildDir is where the command was built, empty if no test has needed it.
var buildDir string

func TestMain(m *testing.M) {
	status := m.Run()
	if err := os.RemoveAll(buildDir); err != nil {
		panic(err)
	}
	os.Exit(status)
}

func binary(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// realNode is a node in a process of its own. While it is up, http, listen and id
// are what it said of itself.
type realNode struct {
	t    *testing.T
	path string
	data string
	cmd  *exec.Cmd

	http, listen, id string
}

func (n *realNode) up(flags ...string) {
	n.t.Helper()
	n.cmd = exec.Command(n.path, append([]string{"up", "--data", n.data, "--http", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--log-level", "error"}, flags...)...)
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	n.cmd.Stderr = os.Stderr
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { n.kill(syscall.SIGKILL) })
	ready := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		ready <- line
	}()
	select {
	case line := <-ready:
		if m := readyLine.FindStringSubmatch(line); m == nil {
			n.t.Fatalf("got %q, want a match of the line that says where the node serves", line)
		} else {
			n.http, n.listen, n.id = m[1], m[2], m[3]
		}
	case <-time.After(patience):
		n.t.Fatal("not ready in time")
	}
}

var readyLine = regexp.MustCompile(`^ready http=(127\.0\.0\.1:\d+) listen=([\d.]+:\d+) node=(node-[0-9a-f]+)\n$`)

// kill ends the node's process with a signal and gives its exit status.
func (n *realNode) kill(sig syscall.Signal) int {
	if n.cmd == nil {
		return 0
	}
	_ = n.cmd.Process.Signal(sig) // it may be gone already
	var exit *exec.ExitError
	if err := n.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		n.t.Errorf("the node ended with %v", err)
	}
	code := n.cmd.ProcessState.ExitCode()
	n.cmd = nil
	return code
}

// locus runs the command against the node.
func (n *realNode) locus(args ...string) (stdout, stderr string, status int) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.path, append([]string{"--data", n.data}, args...)...)
	cmd.Env = append(os.Environ(), "LOCUS_SERVER=", "LOCUS_TOKEN=", "LOCUS_DATA=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		n.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (n *realNode) result(args ...string) (surfaces.Result, int) {
	n.t.Helper()
	out, errs, status := n.locus(append([]string{"--json", "exec"}, args...)...)
	var res surfaces.Result
	if err := json.Unmarshal([]byte(out), &res); err != nil {
		n.t.Fatalf("%v in %q %q", err, out, errs)
	}
	return res, status
}

// A killed node leaves no process behind. After its restart the sessions are lost, keep their
// names, and the first caller of each is told.
func TestANodeIsKilledAndStartedAgain(t *testing.T) {
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	if res, status := n.result("-m", "stateful", "-s", "work", "x = 1\nimport os, subprocess\njob = subprocess.Popen(['sleep', '1000'])\nos.getcwd()"); status != 0 {
		t.Fatalf("status %d, want 0: %+v", status, res)
	}
	marker := filepath.Join(n.data, "workspaces", "default")
	if len(worksIn(marker)) == 0 {
		t.Fatal("no process works in " + marker)
	}
	n.kill(syscall.SIGKILL)
	eventually(t, "no process outlives the node", func() bool { return len(worksIn(marker)) == 0 })

	n.up()
	res, status := n.result("-m", "read_only", "-s", "work", "x")
	if status != surfaces.ExitLost || *res.Code != surfaces.CodeSessionLost {
		t.Fatalf("status %d: %+v, want status %v, Code %v", status, res, surfaces.ExitLost, surfaces.CodeSessionLost)
	}
	res, status = n.result("-m", "stateful", "-s", "work", "'x' in globals()")
	if status != 0 || string(res.Result) != "false" || res.StateLost.Loss == nil || res.StateLost.Reason != "node_restarted" || res.Attempts != 1 {
		t.Fatalf("status %d, want 0: %+v", status, res)
	}
	if res, _ = n.result("-m", "stateful", "-s", "work", "1"); res.StateLost.Loss != nil {
		t.Fatalf("told twice: %+v", res)
	}
	if code := n.kill(syscall.SIGTERM); code != 0 {
		t.Fatalf("SIGTERM ended the node with status %d", code)
	}
	if pids := worksIn(marker); len(pids) > 0 {
		t.Fatalf("processes %v outlive the node", pids)
	}
}

// worksIn returns the processes whose working directory is dir or below it.
func worksIn(dir string) []string {
	var pids []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		if cwd, err := os.Readlink(p + "/cwd"); err == nil && strings.HasPrefix(cwd+"/", dir+"/") {
			pids = append(pids, filepath.Base(p))
		}
	}
	return pids
}

func TestExitStatusesOfARealNode(t *testing.T) {
	t.Parallel()
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	if _, errs, status := n.locus("exec", "--server", "127.0.0.1:1", "--token", "x", "1"); status != surfaces.ExitUnavailable || !strings.Contains(errs, "locus up") {
		t.Fatalf("without a node: status %d, %q", status, errs)
	}
	n.up()
	for _, c := range []struct {
		args   []string
		stdout string
		status int
	}{
		{[]string{"exec", "print('out'); 1 + 1"}, "out\n2\n", surfaces.ExitOK},
		{[]string{"exec", "raise ValueError"}, "", surfaces.ExitCodeFailed},
		{[]string{"exec", "-s", "s", "-m", "stateless", "1"}, "", surfaces.ExitRefused},
		{[]string{"exec", "--no-such-flag", "1"}, "", surfaces.ExitRefused},
		{[]string{"exec", "-t", "0.5", "while True: pass"}, "", surfaces.ExitTimeout},
		{[]string{"exec", "-l", "sh", "echo from sh; exit 3"}, "from sh\n", surfaces.ExitOK},
	} {
		out, errs, status := n.locus(c.args...)
		if out != c.stdout || status != c.status {
			t.Errorf("%q: status %d, stdout %q, want %d, %q; stderr %q", c.args, status, out, c.status, c.stdout, errs)
		}
	}
}

// The exit status of a question to a running call is that of the question's own program.
func TestAskEndsWithTheStatusOfItsProgram(t *testing.T) {
	t.Parallel()
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	call, status := n.result("--background", "import time\nprint('so far', flush=True)\nseen = [1]\ntime.sleep(600)")
	if status != surfaces.ExitOK {
		t.Fatal(status)
	}
	var out, errs string
	eventually(t, "the call has printed and sleeps", func() bool {
		out, errs, status = n.locus("calls", "ask", call.CallID)
		return strings.Contains(errs, "  so far\n") && strings.Contains(errs, "time.sleep(600)\n")
	})
	if status != surfaces.ExitOK || out != "" {
		t.Errorf("where the code is: status %d, %q, %q", status, out, errs)
	}
	for code, want := range map[string]struct {
		out    string
		status int
	}{
		"print('looked'); len(seen)": {"looked\n1\n", surfaces.ExitOK},
		"seen[7]":                    {"", surfaces.ExitCodeFailed},
	} {
		out, errs, status := n.locus("calls", "ask", call.CallID, code)
		if out != want.out || status != want.status {
			t.Errorf("%q: status %d, stdout %q, want %d, %q; stderr %q", code, status, out, want.status, want.out, errs)
		}
		if out, _, status := n.locus("calls", "ask", call.CallID, code, "--json"); status != want.status || !strings.HasPrefix(out, `{"result":{`) {
			t.Errorf("%q: status %d, %q, want %d and a result", code, status, out, want.status)
		}
	}
}

// A node that is shut down stops the calls that do not end in time, and tells their callers.
func TestShutdownAnswersItsCalls(t *testing.T) {
	t.Parallel()
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	call := exec.Command(n.path, "--data", n.data, "--json", "exec", "-m", "stateful", "-s", "long", "open('begun', 'w').close()\nimport time\ntime.sleep(600)")
	call.Env = append(os.Environ(), "LOCUS_SERVER=", "LOCUS_TOKEN=", "LOCUS_DATA=")
	var out bytes.Buffer
	call.Stdout = &out
	if err := call.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the call runs", func() bool {
		res, _ := n.result("import os; os.path.exists('begun')")
		return string(res.Result) == "true"
	})
	if status := n.kill(syscall.SIGTERM); status != 0 {
		t.Errorf("the node's exit status is %d", status)
	}
	var exit *exec.ExitError
	if err := call.Wait(); !errors.As(err, &exit) || exit.ExitCode() != surfaces.ExitCodeFailed {
		t.Errorf("the call's command ended with %v", err)
	}
	var res surfaces.Result
	if err := json.Unmarshal(out.Bytes(), &res); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	if res.Code == nil || *res.Code != surfaces.CodeStopped {
		t.Errorf("got %s, want Code %v", out.String(), surfaces.CodeStopped)
	}
	if !slices.ContainsFunc(res.Notice, func(n surfaces.Notice) bool { return n.Kind == "node_stopping" }) {
		t.Errorf("it is not said why: %v", res.Notice)
	}
}
