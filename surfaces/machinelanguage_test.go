package surfaces

import (
	"strings"
	"testing"
)

// A machine may have languages that no node has, and lack what they have.
func TestLanguagesAreThoseOfThePlace(t *testing.T) {
	view := View{
		Actor: "a", Languages: []Language{Python, Bash}, Places: Places(),
		Machines: []MachineItem{{Name: "pc", Place: UserMachine, Online: true, Languages: []Language{PowerShell, Python}}, {Name: "vm", Place: AssistantVM}},
	}
	for body, want := range map[string]string{
		`{"code":"1","language":"powershell","surface":"user_machine"}`: "",
		`{"code":"1","language":"python","surface":"user_machine"}`:     "",
		`{"code":"1","language":"powershell"}`:                          "is not served by this mesh",
		`{"code":"1","language":"bash","surface":"user_machine"}`:       `"python" or "powershell"`,
		`{"code":"1","language":"bash","surface":"assistant_vm"}`:       "", // it has not said what it has
	} {
		_, refusal := Resolve([]byte(body), view)
		switch {
		case want == "" && refusal != nil:
			t.Errorf("%s: %s", body, refusal.Message)
		case want != "" && (refusal == nil || refusal.Code != CodeUnsupportedLanguage || !strings.Contains(refusal.Message+refusal.Suggestion, want)):
			t.Errorf("%s: got %+v, want %s", body, refusal, want)
		}
	}
}
