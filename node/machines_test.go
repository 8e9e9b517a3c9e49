package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/agentlink"
	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// script is the programs of a machine in these tests: a call's code names one of them.
type script struct {
	mu     sync.Mutex
	starts map[string]int
	hold   chan struct{} // "hold" waits for it
}

func newScript() *script { return &script{starts: map[string]int{}, hold: make(chan struct{})} }

func (s *script) Languages(context.Context) []string { return []string{"python", "sh"} }

func (s *script) started(code string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starts[code]
}

func (s *script) Run(ctx context.Context, p agentlink.Program, sink surfaces.Sink, host surfaces.Host) surfaces.Result {
	s.mu.Lock()
	s.starts[p.Code]++
	s.mu.Unlock()
	done := func(result string) surfaces.Result {
		return surfaces.Result{CallID: p.CallID, Status: surfaces.StatusDone, Result: json.RawMessage(result), Usage: &surfaces.Usage{CPUMS: 1}}
	}
	verb, rest, _ := strings.Cut(p.Code, " ")
	switch verb {
	case "say":
		sink.Output(surfaces.StreamStdout, []byte(rest+"\n"))
		sink.Output(surfaces.StreamStderr, []byte("so it is\n"))
		sink.Event(surfaces.Event{Kind: surfaces.EventDisplay, Display: &surfaces.Display{MIME: "text/plain", Data: rest}})
		return done("1")
	case "much":
		for i := range 100_000 {
			sink.Output(surfaces.StreamStdout, fmt.Appendf(nil, "line %d\n", i))
		}
		return done("2")
	case "files":
		res := done("3")
		for _, f := range p.Files {
			res.Files = append(res.Files, surfaces.NewFile("out/"+f.Name, append([]byte("got "), f.Data...)))
		}
		return res
	case "hold":
		sink.Output(surfaces.StreamStdout, []byte("before\n"))
		timeout := time.NewTimer(p.Timeout)
		defer timeout.Stop()
		select {
		case <-s.hold:
			sink.Output(surfaces.StreamStdout, []byte("after\n"))
			return done("4")
		case <-ctx.Done():
			return surfaces.Failed(surfaces.Partial{CallID: p.CallID}, surfaces.CodeStopped, "the call was stopped")
		case <-timeout.C:
			return surfaces.Failed(surfaces.Partial{CallID: p.CallID}, surfaces.CodeTimeout, "the call's time is over")
		}
	case "ask":
		wait := host.Ask(surfaces.Use{CallID: p.CallID, Seq: "1", Name: "caller.double", Data: json.RawMessage(`{"x": 21}`)})
		return done(string(wait(ctx)))
	}
	return surfaces.Failed(surfaces.Partial{CallID: p.CallID}, surfaces.CodeException, "no such program")
}

// laptop is a linked machine.
type laptop struct {
	t      testing.TB
	dir    string
	runner *script
	ended  chan error
	stop   func()
}

// joinToken makes a token for a machine of the actor of w.
func (w *world) joinToken(t testing.TB, role, owner string) string {
	t.Helper()
	var token gateway.TokenInfo
	if status := w.post("/v1/tokens", args{"role": role, "owner": owner}, &token); status != http.StatusOK {
		t.Fatalf("no token: status %d, want 200", status)
	}
	return token.Token
}

// link links a machine with the mesh of w, or restarts the one in dir, and waits until the
// mesh lists it as connected.
func (w *world) link(t testing.TB, dir, token string, runner *script, change ...func(*agentlink.Config)) *laptop {
	t.Helper()
	cfg := agentlink.Config{
		Dir: dir, Role: certs.RoleLink, Join: w.status().Listen, Token: token, Name: "laptop", Runner: runner,
		Policy: agentlink.Policy{Consent: agentlink.ConsentAllow}, Log: slog.New(slog.DiscardHandler),
	}
	if testing.Verbose() {
		cfg.Log = slog.New(slog.NewTextHandler(testWriter{t}, nil))
	}
	for _, c := range change {
		c(&cfg)
	}
	a, err := agentlink.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &laptop{t: t, dir: dir, runner: runner, ended: make(chan error, 1)}
	go func() { l.ended <- a.Run(ctx) }()
	l.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-l.ended:
			if err != nil && !errors.Is(err, agentlink.ErrUnlinked) {
				t.Errorf("the agent ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("the agent did not end in time")
		}
	})
	t.Cleanup(l.stop)
	return l
}

func (w *world) machines(t testing.TB) []gateway.MachineInfo {
	t.Helper()
	var list gateway.MachineList
	if status := w.get("/v1/machines", &list); status != http.StatusOK {
		t.Fatalf("no list of machines: status %d, want 200", status)
	}
	return list.Machines
}

// connected waits until a machine has a state.
func (w *world) connected(t testing.TB, state string) gateway.MachineInfo {
	t.Helper()
	var m gateway.MachineInfo
	eventually(t, "the machine is "+state, func() bool {
		list := w.machines(t)
		if len(list) != 1 {
			return false
		}
		m = list[0]
		return m.State == state
	})
	return m
}

// there calls execute_code on the user's machine.
func (w *world) there(code string, more ...args) surfaces.Result {
	w.t.Helper()
	a := args{"code": code, "surface": "user_machine"}
	for _, m := range more {
		a = a.with(m)
	}
	return w.exec(a)
}

// linked starts a node and a machine that is linked with it.
func linked(t testing.TB, change ...func(*agentlink.Config)) (*world, *laptop) {
	t.Helper()
	w := start(t, t.TempDir())
	l := w.link(t, t.TempDir(), w.joinToken(t, "link", ""), newScript(), change...)
	w.connected(t, gateway.MachineConnected)
	return w, l
}

func TestCodeRunsOnALinkedMachine(t *testing.T) {
	w, l := linked(t)
	m := w.machines(t)[0]
	if m.Name != "laptop" || m.Surface != surfaces.UserMachine || m.Actor != "default" || m.OS == "" || m.Consent != "allows" ||
		strings.Join(m.Languages, " ") != "python sh" || m.Node != w.id() {
		t.Fatalf("got %+v, want laptop of actor default on node %s, which runs python and sh and allows", m, w.id())
	}

	res := ok(t, w.there("say hello"))
	if res.Stdout != "hello\n" || res.Stderr != "so it is\n" || string(res.Result) != "1" || res.Machine == nil || *res.Machine != "laptop" ||
		*res.Surface != surfaces.UserMachine || res.Attempts != 1 || res.Usage == nil || *res.StateMode != surfaces.Stateless {
		t.Fatalf("got %s, want a stateless call on laptop with one attempt, its output and the result 1", show(res))
	}
	res = ok(t, w.there("much"))
	if res.Truncated == nil || res.Truncated.Stdout.Total != 1_088_890 || !strings.HasSuffix(res.Stdout, "line 99999\n") || !strings.HasPrefix(res.Stdout, "line 0\n") {
		t.Fatalf("got %+v, want Truncated.Stdout.Total 1088890, Stdout ending in \"line 99999\\n\", Stdout starting with \"line 0\\n\"", res.Truncated)
	}
	res = ok(t, w.there("files", args{"files": []args{{"name": "a/b.txt", "text": "text"}}}))
	if len(res.Files) != 1 || res.Files[0].Name != "out/a/b.txt" || string(res.Files[0].Data) != "got text" || res.Files[0].SHA256 == "" {
		t.Fatalf("got %s, want the file out/a/b.txt with its digest", show(res))
	}
	big := strings.Repeat("x", 3<<20)
	res = ok(t, w.there("files", args{"files": []args{{"name": "big", "text": big}}}))
	if len(res.Files) != 1 || len(res.Files[0].Data) != len(big)+4 {
		t.Fatalf("got %d files, want one of %d bytes", len(res.Files), len(big)+4)
	}
	code(t, w.there("nothing of the kind"), surfaces.CodeException)
	code(t, w.there("hold", args{"timeout_s": 0.5}), surfaces.CodeTimeout)

	var asked, ended []agentlink.Entry
	eventually(t, "the log has all of it", func() bool { // the last lines are written while the results are being sent
		asked, ended = nil, nil
		err := agentlink.ReadLog(l.dir, func(e agentlink.Entry) error {
			if e.What == "asked" {
				asked = append(asked, e)
			} else {
				ended = append(ended, e)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(ended) == 6
	})
	if len(asked) != 6 || asked[0].Code != "say hello" || asked[0].Actor != "default" || ended[5].Outcome != "timeout" {
		t.Fatalf("the log has %+v and %+v", asked, ended)
	}
}

func TestPrimitivesOnALinkedMachine(t *testing.T) {
	w, _ := linked(t)
	events := w.stream(t.Context(), args{"code": "ask", "surface": "user_machine"})
	id := await(t, events, "started").data["call_id"].(string)
	asked := await(t, events, "primitive")
	if asked.data["name"] != "caller.double" {
		t.Fatalf("got %v, want caller.double", asked.data)
	}
	var delivered map[string]any
	w.post("/v1/executions/"+id+"/primitives/1", args{"result": 42}, &delivered)
	res := await(t, events, "result")
	if b, _ := json.Marshal(res.data["result"]); string(b) != `{"result":42}` {
		t.Fatalf("got %s, want {\"result\":42}", b)
	}
	if used := res.data["usage"].(map[string]any)["primitives"]; used != float64(1) {
		t.Fatalf("%v primitives were used, want 1", used)
	}
}

func TestCallsOnMachinesCanOnlyBeStopped(t *testing.T) {
	w, l := linked(t)
	var begun surfaces.Result
	w.post("/v1/tools/execute_code", args{"language": "python", "code": "hold", "surface": "user_machine", "background": true}, &begun)
	eventually(t, "the program runs", func() bool { return l.runner.started("hold") == 1 })
	var refused surfaces.Result
	if status := w.post("/v1/executions/"+begun.CallID+"/pause", args{}, &refused); status != 422 || !strings.Contains(*refused.Error, "can only be stopped") {
		t.Fatalf("got %d %s, want status 422, Error with \"can only be stopped\"", status, show(refused))
	}
	var said map[string]any
	w.post("/v1/executions/"+begun.CallID+"/stop", args{}, &said)
	eventually(t, "the call ends", func() bool { return w.result(begun.CallID).Status == surfaces.StatusFailed })
	code(t, w.result(begun.CallID), surfaces.CodeStopped)
}

func TestAnOfflineMachineIsReportedAway(t *testing.T) {
	w, l := linked(t)
	l.stop()
	w.connected(t, gateway.MachineAway)
	res := code(t, w.there("say hello"), surfaces.CodeMachineUnreachable)
	if res.Status != surfaces.StatusRefused || res.RetryAfterS == nil || res.Attempts != 0 {
		t.Fatalf("got %s, want Status %v, a RetryAfterS, Attempts 0", show(res), surfaces.StatusRefused)
	}
	// It reconnects by itself, without its token.
	w.link(t, l.dir, "", l.runner)
	w.connected(t, gateway.MachineConnected)
	ok(t, w.there("say hello"))
	if l.runner.started("say hello") != 1 {
		t.Fatal("a call that was refused has run")
	}
}

// An agent that is shut down stops what it runs, and the caller is told before the link ends.
// When the agent is back nothing runs again, and the result is unchanged.
func TestAnAgentIsShutDownDuringACall(t *testing.T) {
	w, l := linked(t)
	var begun surfaces.Result
	w.post("/v1/tools/execute_code", args{"language": "python", "code": "hold", "surface": "user_machine", "background": true}, &begun)
	eventually(t, "the program runs", func() bool { return l.runner.started("hold") == 1 })
	l.stop()
	eventually(t, "the call has ended", func() bool { return w.result(begun.CallID).Status == surfaces.StatusFailed })
	stopped := code(t, w.result(begun.CallID), surfaces.CodeStopped)
	if stopped.Stdout != "before\n" {
		t.Fatalf("got %s, want Stdout \"before\\n\"", show(stopped))
	}
	w.connected(t, gateway.MachineAway)
	w.link(t, l.dir, "", l.runner)
	w.connected(t, gateway.MachineConnected)
	ok(t, w.there("say hello"))
	if got := w.result(begun.CallID); l.runner.started("hold") != 1 || !reflect.DeepEqual(got, stopped) {
		t.Fatalf("got %s and %d runs, want %s and one run", show(got), l.runner.started("hold"), show(stopped))
	}
}

func TestAnUnlinkedMachineIsCutOff(t *testing.T) {
	for name, unlink := range map[string]func(*world, *laptop){
		"by the mesh": func(w *world, _ *laptop) {
			if status := w.delete("/v1/machines/laptop"); status != 200 {
				t.Errorf("unlink: status %d, want 200", status)
			}
		},
		"by the machine": func(_ *world, l *laptop) {
			if err := agentlink.Leave(t.Context(), l.dir); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, l := linked(t)
			running := make(chan surfaces.Result, 1)
			go func() { running <- w.there("hold") }()
			eventually(t, "the program runs", func() bool { return l.runner.started("hold") == 1 })
			unlink(w, l)
			select {
			case err := <-l.ended:
				if !errors.Is(err, agentlink.ErrUnlinked) {
					t.Fatalf("the agent ended with %v", err)
				}
				l.ended <- err
			case <-time.After(patience):
				t.Fatal("the agent goes on")
			}
			code(t, <-running, surfaces.CodeOutcomeUnknown)
			code(t, w.there("say x"), surfaces.CodeMachineNotLinked)
			if list := w.machines(t); len(list) != 0 {
				t.Fatalf("still there: %+v", list)
			}
			if _, err := agentlink.Open(t.Context(), agentlink.Config{Dir: l.dir, Role: certs.RoleLink, Runner: l.runner, Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, agentlink.ErrNoToken) {
				t.Fatalf("it has not forgotten who it was: %v", err)
			}
		})
	}
}

func TestMachinesAreForTheirOwnersOnly(t *testing.T) {
	w := start(t, t.TempDir())
	ada, bob := w.newActor(t, "ada"), w.newActor(t, "bob")
	w.link(t, t.TempDir(), w.joinToken(t, "link", "ada"), newScript())
	ada.connected(t, gateway.MachineConnected)
	ok(t, ada.there("say hello"))
	code(t, bob.there("say hello"), surfaces.CodeMachineNotLinked)
	if len(bob.machines(t)) != 0 || len(w.machines(t)) != 1 {
		t.Fatal("who may see the machine sees it not, or who may not does")
	}
	w.link(t, t.TempDir(), w.joinToken(t, "vm", "ada"), newScript(), func(c *agentlink.Config) { c.Role, c.Name = certs.RoleVM, "vm" })
	eventually(t, "the other machine is there", func() bool { return len(ada.machines(t)) == 2 })
	eventually(t, "it takes calls", func() bool { return ada.exec(args{"code": "say x", "surface": "assistant_vm"}).Error == nil })
	// With two machines on one surface a call must name one.
	w.link(t, t.TempDir(), w.joinToken(t, "link", "ada"), newScript())
	eventually(t, "the third machine is there", func() bool { return len(ada.machines(t)) == 3 })
	code(t, ada.there("say hello"), surfaces.CodeMachineRequired)
	eventually(t, "the one that is named runs it", func() bool { return ada.there("say hello", args{"machine": "laptop-2"}).Error == nil })
}
