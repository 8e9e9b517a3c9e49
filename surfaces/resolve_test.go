package surfaces

import (
	"testing"
	"time"
)

func mustCall(t testing.TB, body string, v View) Call {
	t.Helper()
	c, r := Resolve([]byte(body), v)
	if r != nil {
		t.Fatalf("%s: %s\n%s", body, r.Message, r.Suggestion)
	}
	return c
}

// TestValidCallsAreResolved checks what valid calls are led to.
func TestValidCallsAreResolved(t *testing.T) {
	lost := world()
	lost.Sessions = append(lost.Sessions, SessionItem{Key: SessionKey{Actor: "a", Language: Python, ID: 3}, Name: "gone", State: SessionLost, Epoch: 4, Counts: true})
	rows := []struct {
		name, args string
		view       View
		want       SessionRef
	}{
		{"no session is session 0", `{"code":"1","language":"bash","state_mode":"stateful"}`, world(),
			SessionRef{Key: SessionKey{"a", Bash, 0, 0}}},
		{"the plan before its first use", `{"code":"1","language":"python","state_mode":"read_only","session_id":0}`, bare(),
			SessionRef{Key: SessionKey{"a", Python, 0, 0}}},
		{"a new id", `{"code":"1","language":"python","state_mode":"stateful","session_id":7}`, world(),
			SessionRef{Key: SessionKey{"a", Python, 0, 7}}},
		{"a new name takes the next id", `{"code":"1","language":"python","state_mode":"stateful","session_name":"new"}`, world(),
			SessionRef{Key: SessionKey{"a", Python, 0, 3}, Name: "new"}},
		{"a new name in an environment", `{"code":"1","language":"python","state_mode":"stateful","session_name":"new","venv_id":2}`, world(),
			SessionRef{Key: SessionKey{"a", Python, 2, 1}, Name: "new"}},
		{"a new name in a shell", `{"code":"1","language":"sh","state_mode":"stateful","session_name":"new"}`, world(),
			SessionRef{Key: SessionKey{"a", Sh, 0, 1}, Name: "new"}},
		{"a new name with a new id", `{"code":"1","language":"python","state_mode":"stateful","session_name":"new","session_id":9}`, world(),
			SessionRef{Key: SessionKey{"a", Python, 0, 9}, Name: "new"}},
		{"name and id that agree", `{"code":"1","language":"python","state_mode":"read_only","session_name":"sales","session_id":1}`, world(),
			SessionRef{Key: SessionKey{"a", Python, 0, 1}, Name: "sales", Exists: true, State: SessionLive, Epoch: 1}},
		{"the same id in another environment", `{"code":"1","language":"python","state_mode":"read_only","session_id":1,"venv_id":1}`, world(),
			SessionRef{Key: SessionKey{"a", Python, 1, 1}, Name: "model", Exists: true, State: SessionLive, Epoch: 1}},
		{"a lost session is read by the engine's leave", `{"code":"1","language":"python","state_mode":"read_only","session_name":"gone"}`, lost,
			SessionRef{Key: SessionKey{"a", Python, 0, 3}, Name: "gone", Exists: true, State: SessionLost, Epoch: 4}},
		{"a lost session holds its id", `{"code":"1","language":"python","state_mode":"stateful","session_name":"new"}`, lost,
			SessionRef{Key: SessionKey{"a", Python, 0, 4}, Name: "new"}},
		{"an existing session at the limit", `{"code":"1","language":"python","state_mode":"stateful","session_name":"sales"}`, full(),
			SessionRef{Key: SessionKey{"a", Python, 0, 1}, Name: "sales", Exists: true, State: SessionLive, Epoch: 1}},
		{"the plan at the limit", `{"code":"1","language":"python","state_mode":"stateful"}`, full(),
			SessionRef{Key: SessionKey{"a", Python, 0, 0}}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := mustCall(t, row.args, row.view)
			if c.Session == nil || *c.Session != row.want {
				t.Errorf("%+v, want %+v", c.Session, row.want)
			}
		})
	}
}

func TestMachines(t *testing.T) {
	c := mustCall(t, `{"code":"1","language":"python","surface":"assistant_vm"}`, world())
	if c.Linked == nil || c.Linked.Name != "vm1" || c.Machine != "" {
		t.Errorf("the only machine: %+v", c.Linked)
	}
	c = mustCall(t, `{"code":"1","language":"python","surface":"user_machine","machine":"desktop"}`, world())
	if c.Linked == nil || c.Linked.Name != "desktop" || c.Linked.Online {
		t.Errorf("a machine that is not connected is no fault of the arguments: %+v", c.Linked)
	}
}

func TestRequestHasTheGivenArguments(t *testing.T) {
	c := mustCall(t, `{"code":"x","language":"python","state_mode":"stateful","session_name":"sales","session_id":1,"timeout_s":1.5,
		"on_loss":"report","atomic":true,"keep":false,"background":true,"idempotency_key":"k","thought":"why","stdin":"in\u0000put",
		"primitives":[{"name":"fs.ls"}],"primitives_limit":3}`, world())
	want := Request{Code: "x", Language: Python, StateMode: Stateful, SessionID: ptr(1), SessionName: ptr("sales"), Surface: Local,
		Timeout: 1500 * time.Millisecond, OnLoss: ReportLoss, Atomic: true, Keep: ptr(false), Background: true, IdempotencyKey: "k", Thought: "why", Stdin: "in\x00put",
		Primitives: []Offer{{Name: "fs.ls"}}, PrimitivesLimit: 3}
	if encode(t, c.Request) != encode(t, want) {
		t.Errorf("%s\nwant %s", encode(t, c.Request), encode(t, want))
	}
	if c.Actor != "a" {
		t.Errorf("actor %q", c.Actor)
	}
	if c := mustCall(t, `{"code":"","language":"bash","timeout_s":1e-30}`, world()); c.Timeout != 1 {
		t.Errorf("the shortest deadline is %v", c.Timeout)
	}
}

func TestCallCoordinates(t *testing.T) {
	c := mustCall(t, `{"code":"1","language":"python","state_mode":"read_only","session_id":1}`, world())
	want := Coordinates{Language: ptr(Python), StateMode: ptr(ReadOnly), Surface: ptr(Local), SessionID: ptr(1), SessionName: ptr("sales")}
	if at := c.Coordinates(); encode(t, at) != encode(t, want) {
		t.Errorf("%s", encode(t, at))
	}
	c = mustCall(t, `{"code":"1","language":"sh","surface":"assistant_vm"}`, world())
	want = Coordinates{Language: ptr(Sh), StateMode: ptr(Stateless), Surface: ptr(AssistantVM), Machine: ptr("vm1")}
	if at := c.Coordinates(); encode(t, at) != encode(t, want) {
		t.Errorf("%s", encode(t, at))
	}
}

// TestSessionLimitCountsOnlyCountedSessions: the plan and whatever else does not count leaves room.
func TestSessionLimitCountsOnlyCountedSessions(t *testing.T) {
	v := bare()
	for id := range MaxSessions {
		s := sessionItem(Python, 0, id, "", id+1)
		s.Counts = !s.Key.IsPlan()
		v.Sessions = append(v.Sessions, s)
	}
	const another = `{"code":"1","language":"bash","state_mode":"stateful"}`
	if mustCall(t, another, v); v.AtLimit() {
		t.Fatal("19 sessions and the plan are not 20")
	}
	v.Sessions = append(v.Sessions, sessionItem(Bash, 0, 5, "", 9))
	_, r := Resolve([]byte(another), v)
	if r == nil || r.Code != CodeSessionLimit {
		t.Fatalf("got %v, want a refusal, Code %v", r, CodeSessionLimit)
	}
	if s, ok := v.LeastRecentlyUsed(); !ok || s.Key.ID != 1 {
		t.Errorf("least recently used %+v: the plan cannot be it", s)
	}
}

// BenchmarkResolve is the cost of validation on the hot path.
func BenchmarkResolve(b *testing.B) {
	v := world()
	body := []byte(`{"code":"x+1","language":"python","state_mode":"stateful","session_name":"sales"}`)
	args := parse(b, string(body))
	b.Run("arguments", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, r := resolveArgs(args, v); r != nil {
				b.Fatal(r)
			}
		}
	})
	b.Run("body", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, r := Resolve(body, v); r != nil {
				b.Fatal(r)
			}
		}
	})
	b.Run("refusal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, r := Resolve([]byte(`{"code":"1","language":"ruby","state_mode":"x","venv_id":9,"sesion":1}`), v); r == nil {
				b.Fatal("was not refused")
			}
		}
	})
}
