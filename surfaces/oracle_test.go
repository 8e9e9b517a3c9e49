package surfaces

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// asked is a call of well-typed arguments, read in the plainest way.
type asked struct {
	Language  *string  `json:"language"`
	Mode      *string  `json:"state_mode"`
	ID        *float64 `json:"session_id"`
	Name      *string  `json:"session_name"`
	Venv      *int     `json:"venv_id"`
	Surface   *string  `json:"surface"`
	Machine   *string  `json:"machine"`
	Atomic    bool     `json:"atomic"`
	Files     []any    `json:"files"`
	Keep      bool     `json:"keep"`
	SessionID int      `json:"-"`
}

// contract lists the codes of the contract's table that apply to a call, row by
// row, without any of the validation code.
func contract(a asked, v View) []Code {
	var codes []Code
	add := func(wrong bool, c Code) {
		if wrong {
			codes = append(codes, c)
		}
	}
	mode, surface := Stateless, Local
	if a.Mode != nil {
		mode = StateMode(*a.Mode)
	}
	if a.Surface != nil {
		surface = Place(*a.Surface)
	}
	if a.Language == nil {
		return []Code{CodeInvalidArgument}
	}
	language := Language(*a.Language)
	session := a.ID != nil || a.Name != nil
	add(!slices.Contains(v.Languages, language), CodeUnsupportedLanguage)
	// A session without a mode is taken for a stateful call, which may keep it.
	add(a.Keep && mode != Stateful && !(a.Mode == nil && session), CodeInvalidArgument)
	if surface != Local {
		add(!slices.Contains(v.Places, surface), CodeUnsupportedSurface)
		add(mode != Stateless || session || a.Venv != nil || a.Atomic, CodeRemoteWithSession)
		var there []string
		for _, m := range v.Machines {
			if m.Place == surface {
				there = append(there, m.Name)
			}
		}
		add(a.Machine == nil && len(there) > 1, CodeMachineRequired)
		add(a.Machine == nil && len(there) == 0, CodeMachineNotLinked)
		add(a.Machine != nil && !slices.Contains(there, deref(a.Machine)), CodeMachineNotLinked)
		return codes
	}
	add(a.Machine != nil, CodeMachineWithLocal)
	add(len(a.Files) > 0, CodeInvalidArgument)
	add(a.Venv != nil && language != Python, CodeVenvWithShell)
	add(a.Venv != nil && language == Python && !slices.ContainsFunc(v.Venvs, func(e VenvItem) bool { return e.ID == *a.Venv }), CodeVenvNotFound)
	add(a.Atomic && mode != Stateful, CodeAtomicWithoutStateful)
	if mode == Stateless {
		add(session, CodeStatelessWithSession)
		return codes
	}
	if mode == ReadOnly && !session {
		return append(codes, CodeReadOnlyNoSession)
	}
	return append(codes, contractSession(a, v, language, mode)...)
}

func contractSession(a asked, v View, language Language, mode StateMode) []Code {
	venv, id := 0, 0
	if a.Venv != nil {
		venv = *a.Venv
	}
	if a.ID != nil {
		id = int(*a.ID)
	}
	plan := language == Python && venv == 0
	var byID, byName *SessionItem
	counted := 0
	for i, s := range v.Sessions {
		if s.Counts {
			counted++
		}
		if s.Key == (SessionKey{Actor: "a", Language: language, Venv: venv, ID: id}) {
			byID = &v.Sessions[i]
		}
		if a.Name != nil && s.Name == *a.Name {
			byName = &v.Sessions[i]
		}
	}
	idThere := byID != nil || (plan && id == 0)
	full := counted >= v.MaxSessions
	switch {
	case a.Name == nil && idThere:
		return nil
	case a.Name == nil && mode == ReadOnly:
		return []Code{CodeSessionNotFound}
	case a.Name == nil && full:
		return []Code{CodeSessionLimit}
	case a.Name == nil:
		return nil
	case byName != nil:
		here := byName.Key.Language == language && byName.Key.Venv == venv
		if !here || (a.ID != nil && byName.Key.ID != id) {
			return []Code{CodeSessionMismatch}
		}
		return nil
	case a.ID != nil && idThere:
		return []Code{CodeSessionMismatch}
	case mode == ReadOnly:
		return []Code{CodeSessionNotFound}
	case full:
		return []Code{CodeSessionLimit}
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// TestValidationRulesMatchTheContract compares the rules with the table of the contract: what the
// table refuses is refused with a code of the table, all else goes through.
func TestValidationRulesMatchTheContract(t *testing.T) {
	accepted, refused := 0, map[Code]int{}
	rapid.Check(t, func(t *rapid.T) {
		v, args := genView().Draw(t, "mesh"), genArgs(ToolExecute, true).Draw(t, "args")
		if args["surface"] == nil && args["machine"] != nil {
			delete(args, "files") // the machine may say which surface is meant, and that takes files
		}
		body, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		var a asked
		if err := json.Unmarshal(body, &a); err != nil {
			t.Fatal(err)
		}
		codes := contract(a, v)
		if _, ok := args["code"]; !ok {
			codes = append(codes, CodeInvalidArgument)
		}
		call, r := Resolve(body, v)
		switch {
		case r == nil && len(codes) > 0:
			t.Fatalf("%s went through, but the table says %v", body, codes)
		case r != nil && !slices.Contains(codes, r.Code):
			t.Fatalf("%s was refused with %s, but the table says %v: %s", body, r.Code, codes, r.Message)
		case r != nil:
			refused[r.Code]++
			first := slices.MinFunc(codes, func(a, b Code) int { return slices.Index(precedence, a) - slices.Index(precedence, b) })
			// Which session is meant cannot be said before its coordinates are right.
			unsettled := []Code{CodeUnsupportedLanguage, CodeVenvNotFound, CodeVenvWithShell}
			if r.Code != first && !slices.ContainsFunc(unsettled, func(c Code) bool { return slices.Contains(codes, c) }) {
				t.Fatalf("%s was refused with %s, but of %v the first is %s", body, r.Code, codes, first)
			}
		default:
			accepted++
			checkCall(t, call, a, v)
		}
	})
	t.Logf("accepted %d, refused %v", accepted, refused)
	if accepted == 0 || len(refused) < 10 {
		t.Errorf("the generator does not reach enough of the table")
	}
}

// checkCall checks what a valid call was led to.
func checkCall(t rapid.TB, c Call, a asked, v View) {
	if (c.Session == nil) != (c.StateMode == Stateless) {
		t.Fatalf("mode %s with session %v", c.StateMode, c.Session)
	}
	if (c.Linked == nil) != (c.Surface == Local) {
		t.Fatalf("surface %s with machine %v", c.Surface, c.Linked)
	}
	if c.Timeout <= 0 {
		t.Fatalf("timeout %v", c.Timeout)
	}
	if c.Session == nil {
		return
	}
	key := c.Session.Key
	known, ok := v.Session(key.Language, key.Venv, key.ID)
	if key.Language != c.Language || key.Actor != "a" || ok != c.Session.Exists || (ok && known.Name != c.Session.Name) {
		t.Fatalf("led to %+v, which is %+v", *c.Session, known)
	}
	if a.ID != nil && key.ID != int(*a.ID) {
		t.Fatalf("session_id %v led to %d", *a.ID, key.ID)
	}
	if a.Name != nil && c.Session.Name != *a.Name {
		t.Fatalf("session_name %s led to %q", *a.Name, c.Session.Name)
	}
	if a.Name != nil && a.ID == nil && !ok && key.ID != v.NextID(key.Language, key.Venv) {
		t.Fatalf("a new name got id %d", key.ID)
	}
	if !ok && c.StateMode == ReadOnly && !key.IsPlan() {
		t.Fatalf("reads %+v, which is not there", key)
	}
}
