package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

func TestMain(m *testing.M) {
	sandbox.RunKeeperIfAsked()
	serveToolsIfAsked()
	flag.Parse()
	// Tests of whole meshes wait far more than they work.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	status := m.Run()
	if !closeShared() {
		status = max(status, 1)
	}
	os.Exit(status)
}

// patience bounds every wait of these tests. No test is expected to need it.
const patience = 2 * time.Minute

// args are the arguments of a tool.
type args map[string]any

func (a args) with(more args) args {
	m := args{}
	for k, v := range a {
		m[k] = v
	}
	for k, v := range more {
		m[k] = v
	}
	return m
}

// world is a running node, used through its HTTP API by one actor.
type world struct {
	t     testing.TB
	dir   string
	url   string
	token string
	stop  func()
	// from is where requests come from; nil is this machine.
	from *http.Transport
}

// send sends a request to the node.
func (w *world) send(req *http.Request) (*http.Response, error) {
	if w.from == nil {
		return http.DefaultClient.Do(req)
	}
	return (&http.Client{Transport: w.from}).Do(req)
}

// start runs a node on a data directory until the test ends or stop is called.
func start(t testing.TB, dir string, change ...func(*node.Config)) *world {
	t.Helper()
	var logs io.Writer = testWriter{t} // shown if the test fails
	if _, outlives := t.(sharedT); outlives {
		logs = io.Discard
		if testing.Verbose() {
			logs = os.Stderr
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan string, 1)
	ended := make(chan error, 1)
	cfg := node.Config{
		DataDir: dir, HTTPAddr: "127.0.0.1:0", ListenAddr: "127.0.0.1:0", Version: "test",
		Log:         slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Interpreter: os.Getenv("LOCUS_TEST_PYTHON"), Drain: 500 * time.Millisecond,
		Ready: func(http, _, _ string) { ready <- http },
	}
	for _, c := range change {
		c(&cfg)
	}
	go func() { ended <- node.Run(ctx, cfg) }()
	w := &world{t: t, dir: dir}
	select {
	case addr := <-ready:
		w.url = "http://" + addr
	case err := <-ended:
		cancel()
		t.Fatalf("the node did not start: %v", err)
	case <-time.After(patience):
		cancel()
		t.Fatal("the node did not start in time")
	}
	w.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the node ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("the node did not end in time")
		}
	})
	t.Cleanup(w.stop)
	token, err := os.ReadFile(filepath.Join(dir, node.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	w.token = strings.TrimSpace(string(token))
	return w
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimRight(p, "\n"))
	return len(p), nil
}

// shared is the node that most tests use, each with an actor of its own.
var shared struct {
	sync.Mutex
	world    *world
	dir      string
	actors   int
	cleanups []func()
	failed   bool
}

// fresh returns the shared node with an actor that nobody else uses.
func fresh(t testing.TB) *world {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.world == nil {
		if shared.dir == "" {
			dir, err := os.MkdirTemp("", "locus-test")
			if err != nil {
				t.Fatal(err)
			}
			shared.dir = dir
		}
		shared.world = start(sharedT{t}, shared.dir)
	}
	shared.actors++
	return shared.world.newActor(t, fmt.Sprintf("actor-%d", shared.actors))
}

// closeShared stops the shared node after the last test and removes its data. It reports
// whether all went well.
func closeShared() bool {
	for _, cleanup := range slices.Backward(shared.cleanups) {
		cleanup()
	}
	if shared.dir != "" {
		if err := os.RemoveAll(shared.dir); err != nil {
			sharedT{}.Errorf("remove the shared node's data: %v", err)
		}
	}
	return !shared.failed
}

// sharedT is what the shared node reports to. The node outlives the test that started it,
// and that test's T must not be used after its end.
type sharedT struct{ testing.TB }

// Cleanup is called by start, under shared's lock.
func (sharedT) Cleanup(f func()) { shared.cleanups = append(shared.cleanups, f) }

func (sharedT) Helper() {}

func (s sharedT) Error(args ...any) { s.Errorf("%s", fmt.Sprint(args...)) }

func (sharedT) Errorf(format string, args ...any) {
	shared.failed = true
	fmt.Fprintf(os.Stderr, "the shared node: "+format+"\n", args...)
}

func (w *world) newActor(t testing.TB, name string) *world {
	t.Helper()
	var info gateway.ActorInfo
	if status := w.post("/v1/actors", args{"name": name}, &info); status >= 300 {
		t.Fatalf("create an actor: status %d", status)
	}
	a := &world{t: t, dir: w.dir, url: w.url, token: info.Token, stop: func() {}, from: w.from}
	t.Cleanup(func() {
		// The test may have ended the node.
		if resp, err := w.request(context.Background(), "DELETE", "/v1/actors/"+name, nil); err == nil {
			resp.Body.Close()
		}
	})
	return a
}

// newRequest makes a request with the actor's token.
func (w *world) newRequest(ctx context.Context, method, path string, body any) *http.Request {
	w.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, bytes.NewReader(b))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	req.Header.Set("Content-Type", "application/json")
	return req
}

func (w *world) request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	w.t.Helper()
	return w.send(w.newRequest(ctx, method, path, body))
}

// post sends a body and reads the answer into out.
func (w *world) post(path string, body, out any) (status int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := w.request(ctx, "POST", path, body)
	if err != nil {
		w.t.Errorf("%s: %v", path, err)
		return 0
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(b, out)
	}
	if err != nil {
		w.t.Errorf("%s: %v in %.300s", path, err, b)
	}
	return resp.StatusCode
}

func (w *world) get(path string, out any) (status int) {
	w.t.Helper()
	resp, err := w.request(context.Background(), "GET", path, nil)
	if err != nil {
		w.t.Errorf("%s: %v", path, err)
		return 0
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		w.t.Errorf("%s: %v", path, err)
	}
	return resp.StatusCode
}

func (w *world) delete(path string) (status int) {
	w.t.Helper()
	resp, err := w.request(context.Background(), "DELETE", path, nil)
	if err != nil {
		w.t.Errorf("%s: %v", path, err)
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// exec calls execute_code. language is python unless given.
func (w *world) exec(a args) surfaces.Result {
	w.t.Helper()
	var res surfaces.Result
	w.post("/v1/tools/execute_code", args{"language": "python"}.with(a), &res)
	return res
}

// These call execute_code with the usual combinations of state mode and language.
func (w *world) once(code string) surfaces.Result { return w.exec(args{"code": code}) }
func (w *world) keep(session, code string) surfaces.Result {
	return w.exec(args{"code": code, "state_mode": "stateful", "session_name": session})
}
func (w *world) read(session, code string) surfaces.Result {
	return w.exec(args{"code": code, "state_mode": "read_only", "session_name": session})
}
func (w *world) shell(language, code string) surfaces.Result {
	return w.exec(args{"code": code, "language": language})
}
func (w *world) keepShell(language, session, code string) surfaces.Result {
	return w.exec(args{"code": code, "language": language, "state_mode": "stateful", "session_name": session})
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // between two checks of another process
	}
}

// needs skips a test on a machine that does not have a language.
func (w *world) needs(t testing.TB, language string) {
	t.Helper()
	var s gateway.StatusInfo
	w.get("/v1/status", &s)
	if !slices.Contains(s.Languages, language) {
		t.Skipf("this machine has no %s", language)
	}
}

// enforces reports whether the node says that it enforces a kind of isolation.
func (w *world) enforces(what string) bool {
	w.t.Helper()
	var s gateway.StatusInfo
	w.get("/v1/status", &s)
	return s.Enforced[what] == "true"
}
