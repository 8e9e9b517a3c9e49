package node_test

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/locusrun/locus/agentlink"
	"github.com/locusrun/locus/certs"
	wire "github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// A linked machine can be called through every node, whichever holds its connection.
func TestAMachineIsReachedThroughEveryNode(t *testing.T) {
	all := mesh(t, 3)
	l := all[0].link(t, t.TempDir(), all[0].joinToken(t, "link", ""), newScript())
	for _, w := range all {
		w.connected(t, gateway.MachineConnected)
		res := ok(t, w.there("say hello"))
		if res.Stdout != "hello\n" || res.Node != w.id() {
			t.Fatalf("got %s, want Stdout \"hello\\n\", Node %v", show(res), w.id())
		}
		big := ok(t, w.there("files", args{"files": []args{{"name": "big", "text": string(make([]byte, 2<<20))}}}))
		if len(big.Files) != 1 || len(big.Files[0].Data) != 2<<20+4 {
			t.Fatalf("got %d files, want one of %d bytes", len(big.Files), 2<<20+4)
		}
		if got := ok(t, w.there("much")); got.Truncated == nil || got.Truncated.Stdout.Total != 1_088_890 {
			t.Fatalf("got %+v, want Truncated.Stdout.Total 1088890", got.Truncated)
		}
	}
	if n := l.runner.started("say hello"); n != len(all) {
		t.Fatalf("%d calls have run %d times, want once each", len(all), n)
	}
}

// The node that holds a machine's connection goes down during a call that came in at another
// node. The machine connects to another node, and the call ends as if nothing had happened.
func TestARunningCallOutlivesTheNodeOfItsMachine(t *testing.T) {
	all := mesh(t, 3)
	l := all[0].link(t, t.TempDir(), all[0].joinToken(t, "link", ""), newScript())
	hub := all[0].connected(t, gateway.MachineConnected).Node
	var home *world
	for _, w := range all {
		if w.id() != hub {
			home = w
		}
	}
	running := make(chan surfaces.Result, 1)
	go func() { running <- home.there("hold", args{"timeout_s": 100}) }()
	eventually(t, "the program runs", func() bool { return l.runner.started("hold") == 1 })
	for _, w := range all {
		if w.id() == hub {
			w.stop()
			break
		}
	}
	eventually(t, "the machine is at another node", func() bool {
		m := home.machines(t)
		return len(m) == 1 && m[0].State == gateway.MachineConnected && m[0].Node != hub
	})
	close(l.runner.hold)
	res := ok(t, <-running)
	if res.Stdout != "before\nafter\n" || l.runner.started("hold") != 1 || res.Attempts != 1 {
		t.Fatalf("got %s and %d runs, want the whole output, one attempt and one run", show(res), l.runner.started("hold"))
	}
}

// intruder is a mesh endpoint with a machine's certificate that does not follow the link's
// protocol.
func intruder(t *testing.T, w *world) *wire.Mesh {
	t.Helper()
	token, err := certs.ParseToken(w.joinToken(t, "link", ""))
	if err != nil {
		t.Fatal(err)
	}
	key, err := certs.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := wire.Enrol(t.Context(), wire.Joiner{Conn: conn, Token: token, Key: key, Name: "intruder"}, w.status().Listen)
	if err != nil {
		t.Fatal(err)
	}
	if len(reply.GossipKey) != 0 {
		t.Fatal("a machine was given the key of the nodes' gossip")
	}
	credentials, err := certs.NewCredentials(tls.Certificate{Certificate: reply.Chain, PrivateKey: key}, reply.Trust)
	if err != nil {
		t.Fatal(err)
	}
	m, err := wire.Open(wire.Config{Conn: conn, Credentials: credentials, DialOnly: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// say sends frames to a method and returns the first answer.
func say(t *testing.T, m *wire.Mesh, w *world, method string, frames ...[]byte) ([]byte, error) {
	t.Helper()
	s, err := m.StreamAt(t.Context(), w.status().Listen, method)
	if err != nil {
		return nil, err
	}
	defer s.Cancel()
	for _, frame := range frames {
		if err := s.Send(frame); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	if err := s.CloseSend(); err != nil {
		return nil, err
	}
	return s.Receive()
}

// A hostile machine can open nothing but its own link, and affects nobody else.
func TestAHostileMachineIsContained(t *testing.T) {
	w, l := linked(t)
	m := intruder(t, w)
	for _, method := range []string{
		"registry/ask", "member/issue", "member/renew", "member/vouch", "member/share", "calls/execute", "calls/find", "calls/host", "calls/list",
		"sessions/status", "nodes/admit", "events/follow", "events/after", "audit/read", "audit/follow", "audit/verify", "audit/witness", "audit/witnessed", "machines/offer", "machines/relay",
	} {
		if _, err := say(t, m, w, method, []byte("\x00{}")); !errors.Is(err, wire.ErrForbidden) {
			t.Errorf("%s: got %v, want %v", method, err, wire.ErrForbidden)
		}
	}
	if _, err := say(t, m, w, "no/such"); !errors.Is(err, wire.ErrUnknownMethod) {
		t.Errorf("a method that is none: %v", err)
	}

	// While the other machine runs a call, its result is claimed, guessed and forged.
	running := make(chan surfaces.Result, 1)
	go func() { running <- w.there("hold", args{"machine": "laptop"}) }()
	eventually(t, "the program runs", func() bool { return l.runner.started("hold") == 1 })
	var list struct {
		Executions []gateway.CallSummary `json:"executions"`
	}
	w.get("/v1/executions", &list)
	id := list.Executions[0].CallID
	forged := [][]byte{
		[]byte("\x00" + `{"call_id":"` + id + `","home":"` + w.id() + `","need":true}`),
		[]byte("\x00\x06\x01" + `{"status":"done","result":"forged"}`),
	}
	var told *wire.Error
	if got, err := say(t, m, w, "link/call", forged...); !errors.As(err, &told) || told.Code != "forgotten" {
		t.Errorf("another machine's call was given to it: %q, %v", got, err)
	}
	for _, frames := range [][][]byte{
		{nil}, {[]byte("\x07")}, {[]byte("\x00nonsense")}, {[]byte("\x00" + `{"call_id":"none","home":"nowhere"}`)}, {make([]byte, wire.MaxFrame)},
		{[]byte("\x00" + `{"protocol":99}`)},
	} {
		for _, method := range []string{"link/attach", "link/call", "link/renew", "link/leave"} {
			if method == "link/leave" && len(frames[0]) > 1 && frames[0][1] == '{' {
				continue // that one is a request to leave
			}
			if got, err := say(t, m, w, method, frames...); err == nil {
				t.Errorf("%s has answered %q", method, got)
			}
		}
	}
	// Streams on which nothing is sent, and attachments that never read.
	for range 200 {
		s, err := m.StreamAt(t.Context(), w.status().Listen, "link/call")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Cancel()
		if err := s.Send([]byte("\x01")); err != nil {
			t.Fatal(err)
		}
	}
	s, err := m.StreamAt(t.Context(), w.status().Listen, "link/attach")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Cancel()
	hi := `{"protocol":1,"facts":{"os":"evil","languages":["python","rm -rf"],"consent":"` + "\u202e" + `"}}`
	if err := s.Send([]byte("\x00" + hi)); err != nil {
		t.Fatal(err)
	}
	var info gateway.MachineInfo
	eventually(t, "the intruder is listed", func() bool {
		for _, info = range w.machines(t) {
			if info.OS == "evil" {
				return true
			}
		}
		return false
	})
	if len(info.Languages) != 1 || info.Languages[0] != "python" {
		t.Errorf("it says %v", info.Languages)
	}
	// A call that it takes and never answers ends at its deadline.
	res := code(t, w.there("say x", args{"machine": "intruder", "timeout_s": 1}), surfaces.CodeOutcomeUnknown)
	if res.Machine == nil || *res.Machine != "intruder" {
		t.Errorf("got %s, want Machine \"intruder\"", show(res))
	}

	close(l.runner.hold)
	value(t, <-running, "4")
	value(t, w.once("6*7"), "42")
}

// A second agent cannot open the directory of a running one.
func TestOneDirectoryHasOneAgent(t *testing.T) {
	w, l := linked(t)
	_, err := agentlink.Open(t.Context(), agentlink.Config{Dir: l.dir, Role: certs.RoleLink, Runner: l.runner, Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, agentlink.ErrLocked) {
		t.Fatalf("got %v, want %v", err, agentlink.ErrLocked)
	}
	ok(t, w.there("say hello"))
}
