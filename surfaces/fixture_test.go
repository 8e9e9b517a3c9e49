package surfaces

import (
	"encoding/json"
	"testing"
	"time"
)

func ptr[T any](v T) *T { return &v }

// day gives moments in order, so that tests can say who was used last.
func day(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }

func sessionItem(language Language, venv, id int, name string, used int) SessionItem {
	return SessionItem{
		Key:  SessionKey{Actor: "a", Language: language, Venv: venv, ID: id},
		Name: name, State: SessionLive, Epoch: 1, LastUsed: day(used), Counts: true,
	}
}

// world is a mesh with a bit of everything: the shells but zsh and powershell, two
// environments, one virtual machine and two machines of people.
func world() View {
	return View{
		Actor:     "a",
		Languages: []Language{Python, Bash, Sh},
		Places:    Places(),
		Sessions: []SessionItem{
			sessionItem(Python, 0, 1, "sales", 3),
			sessionItem(Python, 0, 2, "", 2),
			sessionItem(Python, 1, 1, "model", 4),
			sessionItem(Bash, 0, 1, "build", 1),
		},
		Venvs: []VenvItem{{ID: 1, Name: "ml"}, {ID: 2, Name: "web"}},
		Machines: []MachineItem{
			{Name: "vm1", Place: AssistantVM, Online: true},
			{Name: "laptop", Place: UserMachine, Online: true},
			{Name: "desktop", Place: UserMachine},
			{Name: "tablet", Place: UserMachine, Online: true},
		},
	}
}

// bare is a mesh that has just started: nothing in it, no machine linked.
func bare() View { return View{Actor: "a", Languages: []Language{Python, Bash}} }

// parse turns a literal of a test into arguments.
func parse(t testing.TB, body string) map[string]json.RawMessage {
	t.Helper()
	args := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(body), &args); err != nil {
		t.Fatalf("arguments of the test itself: %v", err)
	}
	return args
}

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// full is world with a limit that is reached.
func full() View {
	v := world()
	v.MaxSessions = len(v.Sessions)
	return v
}

// resolveArgs is Resolve on arguments that were decoded, so that each is given once.
func resolveArgs(args map[string]json.RawMessage, v View) (Call, *Refusal) {
	return resolve(args, nil, &v)
}

// selectArgs is ResolveSelector on such arguments.
func selectArgs(args map[string]json.RawMessage, tool string, v View) (Selection, *Refusal) {
	return resolveSelector(args, nil, tool, &v)
}
