package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/locusrun/locus/mesh/netlab"
	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/sandbox"
)

// nodeVariable makes this test binary run one node. Its value is the node's configuration, a
// process, as JSON.
const nodeVariable = "LOCUS_TEST_NODE"

// process is the configuration of a node in a process of its own.
type process struct {
	Dir, Listen, Join, Token, Python string
	Profile                          string // quick, patient, fast or default

	// host is where it runs; nil is this machine.
	host *netlab.Host
}

func init() {
	told := os.Getenv(nodeVariable)
	if told == "" {
		return
	}
	sandbox.RunKeeperIfAsked()
	var p process
	if err := json.Unmarshal([]byte(told), &p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if err := p.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (p process) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := node.Config{
		DataDir: p.Dir, HTTPAddr: "127.0.0.1:0", ListenAddr: p.Listen, Join: p.Join, Token: p.Token, Version: "test",
		Interpreter: p.Python, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Ready: func(http, listen, id string) { fmt.Println("ready", http, listen, id) },
	}
	switch p.Profile {
	case "quick":
		quick(&cfg)
	case "patient":
		quick(&cfg)
		patient(&cfg)
	case "fast":
		cfg = cfg.Fast()
	}
	return node.Run(ctx, cfg)
}

// processWorld is a node in a process of its own.
type processWorld struct {
	*world
	p      process
	cmd    *exec.Cmd
	listen string
	name   string // its id
}

// spawn starts a node in a process of its own, and waits until it is ready.
func spawn(t testing.TB, p process) *processWorld {
	t.Helper()
	p.Python = os.Getenv("LOCUS_TEST_PYTHON")
	if p.Listen == "" {
		p.Listen = "127.0.0.1:0"
	}
	told, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var from *http.Transport
	if p.host != nil {
		self = p.host.Program(self)
		from = &http.Transport{DialContext: p.host.Dial}
		t.Cleanup(from.CloseIdleConnections)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), nodeVariable+"="+string(told))
	if testing.Verbose() {
		cmd.Stderr = testWriter{t}
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &processWorld{p: p, cmd: cmd}
	t.Cleanup(func() { w.end(syscall.SIGTERM) })
	line, err := bufio.NewReader(out).ReadString('\n')
	part := strings.Fields(line)
	if err != nil || len(part) != 4 {
		w.end(syscall.SIGKILL)
		t.Fatalf("the node did not become ready: %v, %q", err, line)
	}
	token, err := os.ReadFile(filepath.Join(p.Dir, node.TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	w.world = &world{t: t, dir: p.Dir, url: "http://" + part[1], token: strings.TrimSpace(string(token)), from: from}
	w.listen, w.name = part[2], part[3]
	return w
}

// signal sends a signal to the node's own process.
func (w *processWorld) signal(s syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

// end ends the process, and waits for that.
func (w *processWorld) end(how syscall.Signal) {
	if w.cmd.ProcessState != nil {
		return // it has ended
	}
	// A process that is stopped sees no SIGTERM.
	for _, s := range []syscall.Signal{how, syscall.SIGCONT} {
		if err := w.cmd.Process.Signal(s); err != nil {
			break
		}
	}
	_ = w.cmd.Wait() // its error is that it was killed
}

// again restarts a node that has ended, at its old address or at another.
func (w *processWorld) again(elsewhere bool) *processWorld {
	w.t.Helper()
	p := w.p
	p.Join, p.Token, p.Listen = "", "", w.listen
	if elsewhere {
		p.Listen = ""
	}
	n := spawn(w.t, p)
	n.token = w.token
	return n
}

// processes starts the nodes of one mesh, each in a process of its own.
func processes(t testing.TB, nodes int, profile string) []*processWorld {
	t.Helper()
	return processesOn(t, make([]*netlab.Host, nodes), profile)
}

// processesOn starts such nodes, one on each host.
func processesOn(t testing.TB, hosts []*netlab.Host, profile string) []*processWorld {
	t.Helper()
	var all []*processWorld
	for _, host := range hosts {
		p := process{Dir: t.TempDir(), Profile: profile, host: host}
		if host != nil {
			p.Listen = host.Addr() + ":7071"
		}
		if len(all) > 0 {
			p.Join, p.Token = all[0].listen, all[0].nodeToken()
		}
		all = append(all, spawn(t, p))
	}
	voting(t, worlds(all))
	return all
}

func worlds(all []*processWorld) (list []*world) {
	for _, w := range all {
		list = append(list, w.world)
	}
	return list
}

// named returns the index of the node with an id.
func named(t testing.TB, all []*processWorld, id string) int {
	t.Helper()
	for i, w := range all {
		if w.name == id {
			return i
		}
	}
	t.Fatalf("no node is %q", id)
	return 0
}

// leading returns the index of the leader, as the running nodes report it.
func leading(t testing.TB, all []*processWorld) (leader int) {
	t.Helper()
	eventually(t, "somebody leads", func() bool {
		for i, w := range all {
			if w.cmd.ProcessState != nil {
				continue
			}
			if s := w.status(); s.Leader == s.Node {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}
