package node_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// project returns a pyproject.toml that depends on the packages.
func project(name string, packages ...string) string {
	return fmt.Sprintf("[project]\nname = %q\nversion = \"1\"\ndependencies = [%s]\n", name, `"`+strings.Join(packages, `", "`)+`"`)
}

// venv stores an environment and returns its id.
func (w *world) venv(text string) int {
	w.t.Helper()
	var info gateway.VenvInfo
	if status := w.post("/v1/venvs", args{"pyproject": text}, &info); status != http.StatusOK || info.ID == 0 {
		w.t.Fatalf("store an environment: status %d, want 200: %+v", status, info)
	}
	return info.ID
}

// needsIndex skips a test if no package index can be reached, so that nothing can be built.
func needsIndex(t testing.TB, res surfaces.Result) {
	t.Helper()
	if res.Code != nil && *res.Code == surfaces.CodeBuildFailed && strings.Contains(res.Stderr, "error sending request") {
		t.Skipf("no package index can be reached: %s", res.Stderr)
	}
}

// Two environments with two majors of one library, side by side in all three modes.
func TestEnvironments(t *testing.T) {
	w := fresh(t)
	one, two := w.venv(project("one", "urllib3<2", "idna")), w.venv(project("two", "urllib3>=2,<3"))
	if again := w.venv(project("one", "urllib3<2", "idna") + "\n\n"); again != one || one == two {
		t.Fatalf("ids %d, %d and %d", one, two, again)
	}
	needsIndex(t, w.exec(args{"code": "1", "venv_id": one}))
	for id, major := range map[int]string{one: "1", two: "2"} {
		keep := args{"venv_id": id, "state_mode": "stateful", "session_name": "in " + major}
		read := keep.with(args{"state_mode": "read_only"})
		version := "import urllib3; urllib3.__version__.split('.')[0]"
		value(t, w.exec(args{"code": version, "venv_id": id}), `"`+major+`"`)
		value(t, w.exec(keep.with(args{"code": "import asyncio, urllib3\nx = [await asyncio.sleep(0, urllib3.__version__[0])]\nx"})), `["`+major+`"]`)
		value(t, w.exec(read.with(args{"code": "x.append(urllib3.__version__[0]); x"})), `["`+major+`","`+major+`"]`)
		value(t, w.exec(keep.with(args{"code": "len(x)"})), "1")
		value(t, w.exec(keep.with(args{"code": `
import os, subprocess, sys
said = subprocess.run(["python", "-c", "import urllib3, sys; print(urllib3.__version__[0], sys.prefix == sys.argv[1])", sys.prefix], capture_output=True, text=True)
[said.stdout.strip(), os.environ["VIRTUAL_ENV"] == sys.prefix]`})), `["`+major+` True",true]`)
		res := w.exec(keep.with(args{"code": "open(urllib3.__file__, 'a')"}))
		if res.Exception == nil || !strings.Contains(res.Exception.Message, "Read-only") {
			t.Errorf("code could write into its environment: %s", show(res))
		}
	}
	// The same id in another environment is another session.
	value(t, w.exec(args{"code": "'x' in globals()", "state_mode": "stateful", "session_id": 1}), "false")
	value(t, w.once("import os; os.environ.get('VIRTUAL_ENV')"), "null")
	var list gateway.SessionList
	w.post("/v1/tools/list_sessions", args{}, &list)
	ids := map[int]bool{}
	for _, s := range list.Sessions {
		if s.VenvID != nil {
			ids[*s.VenvID] = true
		}
	}
	if !ids[one] || !ids[two] {
		t.Errorf("sessions of environments %v are listed, want %d and %d", ids, one, two)
	}
}

func TestAnEnvironmentThatCannotBeBuilt(t *testing.T) {
	w := fresh(t)
	id := w.venv(project("never", "urllib3==1.26.99999"))
	for mode, a := range map[string]args{"stateless": {}, "stateful": {"state_mode": "stateful", "session_name": "s"}} {
		res := w.exec(a.with(args{"code": "1", "venv_id": id}))
		needsIndex(t, res)
		code(t, res, surfaces.CodeBuildFailed)
		if res.Status != surfaces.StatusFailed || res.SessionCreated || !strings.Contains(res.Stderr, "urllib3") {
			t.Errorf("%s: %s, want Status %v, no SessionCreated, Stderr with \"urllib3\"", mode, show(res), surfaces.StatusFailed)
		}
	}
	var list gateway.SessionList
	w.post("/v1/tools/list_sessions", args{}, &list)
	if len(list.Sessions) > 0 {
		t.Errorf("a session without an environment is listed: %+v", list.Sessions)
	}
	code(t, w.exec(args{"code": "1", "venv_id": 99999}), surfaces.CodeVenvNotFound)
	code(t, w.exec(args{"code": "1", "venv_id": id, "language": "bash"}), surfaces.CodeVenvWithShell)
}

// slowUv is a uv that waits for a file to exist before it works.
func slowUv(t *testing.T) (path, gate string) {
	t.Helper()
	real := findUv(t)
	dir := t.TempDir()
	path, gate = filepath.Join(dir, "uv"), filepath.Join(dir, "go")
	script := fmt.Sprintf("#!/bin/sh\ncase $1 in lock|sync|venv) echo waiting >&2; while [ ! -e %s ]; do sleep 0.05; done;; esac\nexec %s \"$@\"\n", gate, real)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, gate
}

func findUv(t *testing.T) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if path := filepath.Join(dir, "uv"); isExecutable(path) {
			return path
		}
	}
	t.Skip("uv is not on PATH")
	return ""
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// Many callers wait for one build and see its progress. Stopping one of them does not affect
// the others, and their deadlines start when the build is done.
func TestConcurrentCallersShareOneBuild(t *testing.T) {
	uv, gate := slowUv(t)
	w := start(t, t.TempDir(), func(c *node.Config) { c.Environments.Uv = uv })
	id := w.venv(project("slow", "idna"))
	const callers = 4
	results := make([]surfaces.Result, callers)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			results[i] = w.exec(args{"code": "import idna; idna.encode('ä.de').decode()", "venv_id": id, "timeout_s": 30})
		})
	}
	stopped := w.exec(args{"code": "2", "venv_id": id, "background": true}).CallID
	events := w.follow(t, stopped)
	for !strings.Contains(fmt.Sprint(await(t, events, "notice").data), "waiting") {
	}
	var told map[string]any
	if status := w.post("/v1/executions/"+stopped+"/stop", args{}, &told); status != 200 {
		t.Fatalf("stop: status %d, want 200: %v", status, told)
	}
	code(t, w.ended(t, stopped), surfaces.CodeStopped)
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for _, res := range results {
		needsIndex(t, res)
		value(t, res, `"xn--4ca.de"`)
	}
}

// After a restart an environment on the disk is used without running the builder.
func TestAnEnvironmentIsUsedAfterARestart(t *testing.T) {
	dir := t.TempDir()
	w := start(t, dir)
	id := w.venv(project("kept", "idna"))
	res := w.exec(args{"code": "import idna; idna.__version__", "venv_id": id})
	needsIndex(t, res)
	ok(t, res)
	w.stop()
	w = start(t, dir, func(c *node.Config) { c.Environments.Uv = "/bin/false" })
	value(t, w.exec(args{"code": "import idna; idna.__version__", "venv_id": id}), string(res.Result))
}

// All nodes build what the first one has resolved, and calls are placed where it is built.
func TestEnvironmentsOfAMesh(t *testing.T) {
	all := mesh(t, 3)
	id := all[1].venv(project("shared", "idna"))
	first := all[1].exec(args{"code": "1", "venv_id": id})
	needsIndex(t, first)
	ok(t, first)
	builtOn := func(w *world) []string {
		var info gateway.VenvInfo
		w.get(fmt.Sprintf("/v1/venvs/%d", id), &info)
		return info.Built
	}
	eventually(t, "the others know who has built it", func() bool { return slices.Contains(builtOn(all[2]), all[1].id()) })
	for i := range 6 {
		res := all[i%3].exec(args{"code": "i = 1", "venv_id": id, "state_mode": "stateful", "session_name": fmt.Sprint("s", i)})
		ok(t, res)
		if res.Node != all[1].id() {
			t.Fatalf("the session went to %s, and the environment is on %s", res.Node, all[1].id())
		}
	}
	gone := all[1].id()
	all[1].stop()
	eventually(t, "another node has built it", func() bool {
		res := all[0].exec(args{"code": "import idna; idna.__version__", "venv_id": id, "state_mode": "stateful", "session_name": "s0"})
		return res.Error == nil && res.Node != gone
	})
}

// follow streams the events of a call that was started before.
func (w *world) follow(t *testing.T, callID string) <-chan event {
	t.Helper()
	return w.events(w.newRequest(t.Context(), "GET", "/v1/executions/"+callID+"?from=0", nil))
}
