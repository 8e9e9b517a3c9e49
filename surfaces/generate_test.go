package surfaces

import (
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestMain raises the number of draws per property: the space of calls is large
// and one draw costs microseconds.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := flag.Set("rapid.checks", "4000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// Small pools make collisions likely: the same names, ids and environments turn
// up in the mesh and in the arguments.
var (
	sessionNames = []string{"sales", "slaes", "build", "model", "run 1", "run 2", "ab"}
	machineNamed = []string{"laptop", "laptpo", "vm1", "desktop"}
)

// genView makes a mesh that keeps its own rules: keys and names are unique, and
// no more sessions count than may.
func genView() *rapid.Generator[View] {
	return rapid.Custom(func(t *rapid.T) View {
		v := View{Actor: "a", MaxSessions: pick(t, []int{1, 3, 6, 20}, "max")}
		v.Languages = []Language{Python, Bash, Sh}
		v.Places = Places()
		if percent(t, 30, "poor") {
			v.Languages = rapid.SliceOfNDistinct(rapid.SampledFrom(Languages()), 1, 5, rapid.ID[Language]).Draw(t, "languages")
			v.Places = rapid.SliceOfNDistinct(rapid.SampledFrom(Places()), 0, 3, rapid.ID[Place]).Draw(t, "places")
		}
		for _, id := range rapid.SliceOfNDistinct(rapid.IntRange(1, 3), 0, 3, rapid.ID[int]).Draw(t, "venvs") {
			v.Venvs = append(v.Venvs, VenvItem{ID: id, Name: "venv " + strconv.Itoa(id)})
		}
		counted := 0
		for range genEven.Draw(t, "sessions") % 8 {
			s := SessionItem{Key: SessionKey{Actor: "a"}, Epoch: 1}
			s.Key.Language = pick(t, Languages(), "language")
			if s.Key.Language == Python {
				s.Key.Venv = genEven.Draw(t, "venv") % 4
			}
			s.Key.ID = genEven.Draw(t, "id") % 4
			if !s.Key.IsPlan() && rapid.Bool().Draw(t, "named") {
				s.Name = pick(t, sessionNames, "name")
			}
			s.State = pick(t, []SessionState{SessionLive, SessionBusy, SessionUnreachable, SessionLost}, "state")
			s.LastUsed = day(rapid.IntRange(1, 5).Draw(t, "used"))
			s.Counts = !s.Key.IsPlan()
			_, key := v.Session(s.Key.Language, s.Key.Venv, s.Key.ID)
			_, name := v.SessionNamed(s.Name)
			if key || name || (s.Counts && counted == v.MaxSessions) {
				continue
			}
			if s.Counts {
				counted++
			}
			v.Sessions = append(v.Sessions, s)
		}
		for range genEven.Draw(t, "machines") % 5 {
			m := MachineItem{
				Name:   pick(t, machineNamed, "machine"),
				Place:  pick(t, []Place{AssistantVM, UserMachine}, "place"),
				Online: rapid.Bool().Draw(t, "online"),
			}
			if _, known := v.Machine(m.Place, m.Name); !known {
				v.Machines = append(v.Machines, m)
			}
		}
		return v
	})
}

// usual lists well-formed values for each argument, likelier to be drawn; odd
// lists the rest.
var usual = map[string][]string{
	"code":             {`"1"`, `""`, `"# only a comment"`},
	"language":         {`"python"`, `"python"`, `"bash"`, `"sh"`, `"zsh"`},
	"state_mode":       {`"stateless"`, `"stateful"`, `"stateful"`, `"read_only"`},
	"session_id":       {`0`, `1`, `2`, `3`, `7`, `2.0`},
	"session_name":     {`"sales"`, `"build"`, `"model"`, `"run 1"`, `"weather"`, `"ab"`},
	"venv_id":          {`1`, `2`, `3`, `9`},
	"surface":          {`"local"`, `"assistant_vm"`, `"user_machine"`},
	"machine":          {`"laptop"`, `"vm1"`, `"desktop"`, `"server"`},
	"timeout_s":        {`1`, `0.5`, `86400`, `1e-12`},
	"on_loss":          {`"retry"`, `"not_started"`, `"report"`},
	"atomic":           {`true`, `false`},
	"keep":             {`true`, `false`, `false`},
	"background":       {`true`, `false`},
	"idempotency_key":  {`"k"`},
	"thought":          {`""`, `"because"`},
	"stdin":            {`"a\nb"`, `"\u0000"`},
	"primitives":       {`[]`, `["fs.read"]`, `["fs.read",{"name":"fs.write","description":"d","schema":{"type":"object"},"read_only":true}]`},
	"primitives_limit": {`0`, `1`, `1000000`, `5.0`},
	"files":            {`[]`, `[{"name":"a.csv","text":"1,2"}]`, `[{"name":"in/a.bin","data":"AAEC"},{"name":"in/b","data":""}]`},
	"detail":           {`"summary"`, `"names"`, `"full"`},
	"new_name":         {`"sales"`, `"fresh"`, `"build"`},
}

var odd = map[string][]string{
	"language":         {`"ruby"`, `"pyhton"`, `"Bash"`, `"powershell"`, `"pwsh"`, `" "`},
	"state_mode":       {`"statefull"`, `"READ_ONLY"`, `"magic"`, `""`},
	"session_id":       {`-1`, `1.5`, `"2"`, `"sales"`, `"x/y"`, `1e300`, `2147483648`},
	"session_name":     {`""`, `"a/b"`, `"///"`, `"slaes"`, `"run 3"`, `"sales\u0000"`, `"\ud800"`, `5`},
	"venv_id":          {`0`, `-3`, `"1"`, `"ml"`, `1.5`},
	"surface":          {`"laptop"`, `"moon"`, `"Local"`, `"user_machin"`},
	"machine":          {`""`, `"laptpo"`, `3`, `"Laptop"`},
	"timeout_s":        {`0`, `-1`, `86401`, `"30"`, `"30s"`, `"NaN"`, `"inf"`, `"soon"`, `1e999`},
	"on_loss":          {`"rety"`, `"never"`, `"magic"`},
	"detail":           {`"sumary"`, `"all"`},
	"new_name":         {`""`, `"a/b"`, `"///"`},
	"code":             {`"a\u0000b"`, `"\udead"`},
	"thought":          {`"\udead"`},
	"primitives":       {`"fs.read"`, `{"name":"fs.read"}`, `["fs"]`, `["fs.read",5]`, `[{"title":"x"}]`, `[{"name":"fs.read","schema":3}]`, `["functions.f"]`, `["fs.read.x"]`},
	"primitives_limit": {`-1`, `1000001`, `"7"`, `1.5`},
	"files":            {`[{"name":"a"}]`, `[{"text":"a"}]`, `[{"name":"a","data":"AA==","text":"b"}]`, `[{"name":"a","text":"b","mode":7}]`, `["a.csv"]`},
}

var wrongKinds = []string{`null`, `5`, `true`, `"true"`, `["x"]`, `{"a":1}`, `"maybe"`, `1`, `0`}

var misspelt = []string{
	"langauge", "lang", "mode", "session", "sesion_name", "session-id", "name", "id", "venv", "timeout", "timeout_ms",
	"colour", "Code", "cmd", "machin", "atomc", "newname", "detial", "",
}

// genEven draws numbers below 1024 evenly; the ranges and samples of the library
// favour small ones, which here would mean the same few arguments.
var genEven = rapid.Custom(func(t *rapid.T) int {
	n := 0
	for range 10 {
		n *= 2
		if rapid.Bool().Draw(t, "bit") {
			n++
		}
	}
	return n
})

// percent reports true in about n of 100 draws.
func percent(t *rapid.T, n int, label string) bool { return genEven.Draw(t, label)*100 < n*1024 }

func pick[T any](t *rapid.T, pool []T, label string) T { return pool[genEven.Draw(t, label)%len(pool)] }

// genArgs makes arguments of a tool. Some of them come as they should, and in
// untidy ones some come odd, of another type, or under another name; how many
// differs from one draw to the next, so that calls with one fault and calls with
// many are both common.
func genArgs(tool string, tidy bool) *rapid.Generator[map[string]json.RawMessage] {
	return rapid.Custom(func(t *rapid.T) map[string]json.RawMessage {
		args := map[string]json.RawMessage{}
		given := pick(t, []int{5, 20, 50}, "given")
		spoilt := 0
		if !tidy {
			spoilt = pick(t, []int{0, 5, 5, 30}, "spoilt")
		}
		for _, a := range toolByName[tool].Arguments {
			draw := func(pool []string) { args[a.Name] = json.RawMessage(pick(t, pool, a.Name)) }
			likely := given
			switch {
			case a.Required:
				likely = 95
			case a.Name == "state_mode" && given > 5:
				likely = 70
			}
			switch {
			case percent(t, spoilt, a.Name+" is spoilt") && odd[a.Name] != nil && percent(t, 70, a.Name+" is odd"):
				draw(odd[a.Name])
			case percent(t, spoilt/3, a.Name+" is wrong"):
				draw(wrongKinds)
			case percent(t, likely, a.Name+" is given"):
				draw(usual[a.Name])
			}
		}
		if tidy || percent(t, 85, "well spelt") {
			return args
		}
		for range rapid.IntRange(1, 2).Draw(t, "unknown") {
			name := pick(t, misspelt, "unknown")
			pool := wrongKinds
			if near, ok := (&draft{tool: toolByName[tool], received: args}).nearArgument(name); ok && rapid.Bool().Draw(t, "fits") {
				pool = usual[near]
			}
			args[name] = json.RawMessage(pick(t, pool, "value"))
		}
		return args
	})
}
