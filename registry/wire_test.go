package registry

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// However often a reply is lost, a command acts once.
func TestLostReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, nil)
		m.grow(2)
		follower := m.nodes["n2"]
		m.until("it follows", func() bool { return follower.View().ClusterID() != "" })
		for lost := range 4 {
			var calls atomic.Int32
			m.net.mu.Lock()
			m.net.lose = func(from, to NodeID) bool { return from == "n2" && int(calls.Add(1)) <= lost }
			m.net.mu.Unlock()
			out, err := follower.RegisterNode(within60(t), RegisterNode{ID: "n2"})
			if err != nil {
				t.Fatal(err)
			}
			want(t, "lives", out.Incarnation, Incarnation(lost+1))
			want(t, "requests", int(calls.Load()), lost+1)
		}
		// With every reply lost the outcome is unknown, in a bounded time, and can be
		// had later under the request id.
		m.net.mu.Lock()
		m.net.lose = func(from, to NodeID) bool { return from == "n2" }
		m.net.mu.Unlock()
		began := time.Now()
		_, err := follower.RegisterNode(within60(t), RegisterNode{ID: "n2"})
		var unknown *UnknownOutcomeError
		if !errors.As(err, &unknown) || errors.Is(err, ErrUnavailable) {
			t.Fatalf("%v", err)
		}
		if took := time.Since(began); took > 4*leaderTimeout {
			t.Errorf("it took %s to say so", took)
		}
		m.net.mu.Lock()
		m.net.lose = nil
		m.net.mu.Unlock()
		out, err := follower.RegisterNode(within60(t), RegisterNode{ID: "n2", Proposal: Proposal{Request: unknown.Request}})
		if err != nil || out.Incarnation != 5 {
			t.Fatalf("%+v, %v", out, err)
		}
		m.stop()
	})
}

// A resent command whose request id may be forgotten is not sent again.
func TestOldCommandIsNotSentAgain(t *testing.T) {
	r := open(t, Config{Dir: t.TempDir()})
	peopled(t, r)
	data, err := encodeCommand(CreateActor{Name: "bob", ID: "b"}, Proposal{Request: NewRequestID(), At: 1}, level)
	if err != nil {
		t.Fatal(err)
	}
	index := r.raft.LastIndex()
	if _, a := r.applyHere(within60(t), commandRequest{since: index, resent: true, command: data}); a.status != statusDone {
		t.Fatalf("a fresh one: %+v", a)
	}
	// As if so many entries had come since.
	old := commandRequest{since: index - min(index, RequestWindow), resent: true, command: data}
	r.dir.store.db.NoSync = true
	var last raft.ApplyFuture
	for range RequestWindow {
		last = r.raft.Apply([]byte("no command"), 0)
	}
	if err := last.Error(); err != nil {
		t.Fatal(err)
	}
	if _, a := r.applyHere(within60(t), old); a.status != statusUnknown {
		t.Fatalf("an old one: %+v", a)
	}
}

func TestServeRefusesWhatIsNotForOthers(t *testing.T) {
	r := open(t, Config{Dir: t.TempDir()})
	life := peopled(t, r)
	command := func(c command) []byte {
		data, err := encodeCommand(c, Proposal{Request: NewRequestID(), At: 1}, level)
		if err != nil {
			t.Fatal(err)
		}
		return commandRequest{command: data}.encode()
	}
	for name, c := range map[string]struct {
		call call
		want status
	}{
		"a command":                 {call{op: opCommand, body: command(CreateActor{Name: "bob", ID: "b"})}, statusDone},
		"a declaration":             {call{op: opCommand, body: command(MarkNode{ID: "n1", Incarnation: life, State: NodeExpired})}, statusRefused},
		"a new identity":            {call{op: opCommand, body: command(initCluster{ID: "x", Level: level})}, statusRefused},
		"a recovery":                {call{op: opCommand, body: command(recoverMesh{})}, statusRefused},
		"no command":                {call{op: opCommand, body: commandRequest{command: []byte("x")}.encode()}, statusRefused},
		"nothing":                   {call{op: opCommand}, statusRefused},
		"another's lease":           {call{op: opRenew, body: []byte(`{"id":"n1","life":1,"applied":0,"load":{}}`)}, statusRefused},
		"a lease nobody registered": {call{op: opRenew, body: []byte(`{"id":"n2","life":1,"applied":0,"load":{}}`)}, statusDone},
		"no lease":                  {call{op: opRenew, body: []byte(`{}`)}, statusRefused},
		"a read":                    {call{op: opReadIndex}, statusDone},
		"a probe":                   {call{op: opProbe}, statusDone},
		"no member":                 {call{op: opMember, body: []byte(`{}`)}, statusRefused},
		"the last voter":            {call{op: opMember, body: []byte(`{"id":"n1","remove":true}`)}, statusRefused},
		"an unknown operation":      {call{op: 200}, statusRefused},
	} {
		reply, err := r.Serve(within60(t), "n2", c.call.encode())
		if err != nil {
			t.Fatal(err)
		}
		a, err := decodeAnswer(reply)
		if err != nil || a.status != c.want {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	for name, b := range map[string][]byte{
		"empty": nil, "short": {wireVersion}, "later version": {wireVersion + 1, 1, 0}, "huge": make([]byte, maxRequest+1),
	} {
		if _, err := r.Serve(within60(t), "n2", b); !errors.Is(err, errWire) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzServe sends arbitrary bytes to a node that leads: an error or a reply that
// can be read, and the node goes on.
func FuzzServe(f *testing.F) {
	r := open(f, Config{Dir: f.TempDir()})
	peopled(f, r)
	for _, c := range goldenCommands() {
		data, err := encodeCommand(c, Proposal{Request: NewRequestID(), At: 1}, level)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(call{op: opCommand, body: commandRequest{command: data}.encode()}.encode())
	}
	for op := range operation(8) {
		f.Add(call{op: op, body: []byte(`{"id":"n2","life":1}`)}.encode())
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		reply, err := r.Serve(ctx, "n2", request)
		if err != nil {
			if !errors.Is(err, errWire) {
				t.Fatalf("%v", err)
			}
			return
		}
		if _, err := decodeAnswer(reply); err != nil {
			t.Fatalf("%x: %v", reply, err)
		}
		if err := r.Health(); err != nil || !r.lead.is() {
			t.Fatalf("the node is ill: %v", err)
		}
	})
}

// FuzzReply reads arbitrary bytes as the reply to each kind of question.
func FuzzReply(f *testing.F) {
	good, err := commandResult{7, reply{verdict: accepted, outcome: RegisterOutcome{Incarnation: 1}}}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(answer{status: statusDone, body: good}.encode())
	f.Add(refuse(refusedLastVoter).encode())
	f.Add(retryLater(errClosed).encode())
	f.Add(notLeader("n1").encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAnswer(b)
		if err != nil {
			return
		}
		if a.status == statusRefused && a.cause == nil {
			t.Fatalf("a refusal without a cause: %x", b)
		}
		if again := a.encode(); !bytes.Equal(again, b) {
			t.Fatalf("%x became %x", b, again)
		}
		for k := range specs {
			if r, err := decodeCommandResult(a.body, k); err == nil && r.reply.verdict == accepted && r.reply.outcome == nil {
				t.Fatalf("an outcome of nothing: %x", b)
			}
		}
	})
}
