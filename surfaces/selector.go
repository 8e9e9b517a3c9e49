package surfaces

import (
	"encoding/json"
	"fmt"
)

// Detail says how much inspect_state reports.
type Detail string

// The details of inspect_state.
const (
	DetailSummary Detail = "summary"
	DetailNames   Detail = "names"
	DetailFull    Detail = "full"
)

// Details lists every detail in its fixed order.
func Details() []Detail { return []Detail{DetailSummary, DetailNames, DetailFull} }

// Selection is what the arguments of a session tool resolve to.
type Selection struct {
	Tool  string
	Actor string
	// Session is nil for list_sessions only. For close_session it need not exist; for the
	// other tools it exists or is the plan's own namespace.
	Session *SessionRef
	// Detail is set for inspect_state.
	Detail Detail
	// Copy is set for fork_session: the session to create, with a proposed id.
	Copy *SessionRef
}

// Coordinates returns the coordinates of the selected session.
func (s *Selection) Coordinates() Coordinates {
	if s.Session == nil {
		return Coordinates{}
	}
	key := s.Session.Key
	at := Coordinates{Language: &key.Language, SessionID: &key.ID}
	if key.Venv != 0 {
		at.VenvID = &key.Venv
	}
	if name := s.Session.Name; name != "" {
		at.SessionName = &name
	}
	return at
}

var selectorStages = []stage{
	checkUnknown, decodeArguments, checkSelectorLanguage, checkSelectorVenv, checkForkLimit, checkSelectorSession, checkNewName,
}

// ResolveSelector decodes and validates the arguments of a tool other than execute_code, by
// the same rules for bodies, unknown arguments and near-misses as Resolve.
func ResolveSelector(body []byte, tool string, v View) (Selection, *Refusal) {
	args, twice, refusal := parseBody(body)
	if refusal != nil {
		return Selection{}, refusal
	}
	return resolveSelector(args, twice, tool, &v)
}

func resolveSelector(args map[string]json.RawMessage, twice map[string]bool, tool string, v *View) (Selection, *Refusal) {
	t := toolByName[tool]
	if t == nil || tool == ToolExecute {
		return Selection{}, UnknownTool(tool)
	}
	stages := selectorStages
	if tool == ToolList {
		stages = selectorStages[:2]
	}
	d := newDraft(t, args, twice, v, stages)
	d.run()
	if len(d.faults) > 0 {
		return Selection{}, d.refusal()
	}
	s := Selection{Tool: tool, Actor: v.Actor, Session: d.session}
	switch tool {
	case ToolInspect:
		s.Detail = DetailSummary
		if detail, ok := d.text("detail"); ok {
			s.Detail = Detail(detail)
		}
	case ToolFork:
		name, _ := d.text("new_name")
		source := d.session.Key
		key := SessionKey{Actor: v.Actor, Language: source.Language, Venv: source.Venv, ID: v.NextID(source.Language, source.Venv)}
		s.Copy = &SessionRef{Key: key, Name: name}
	}
	return s, nil
}

// UnknownTool refuses the name of a tool that does not exist.
func UnknownTool(name string) *Refusal {
	known := make([]string, len(tools))
	for i, t := range tools {
		known[i] = t.Name
	}
	r := &Refusal{
		Code:       CodeInvalidArgument,
		Message:    "there is no tool " + quote(name),
		Suggestion: "Use one of the tools " + list(known, "or") + ".",
		HTTP:       httpNotFound,
	}
	if near, ok := nearest(name, known); ok {
		r.Message += fmt.Sprintf(" (did you mean %s?)", near)
	}
	return r
}
