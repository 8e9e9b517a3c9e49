package surfaces

import (
	"encoding/json"
	"time"
)

// executeStages validates execute_code. The order matters: a stage relies on the corrections
// of the stages before it and never undoes them.
var executeStages = []stage{
	checkUnknown, decodeArguments, checkSurface, checkLanguage, checkMode, checkKeep,
	checkRemote, checkStateless, checkVenv, checkSession, checkAtomic, checkMachine, checkFiles,
}

// Resolve decodes the arguments of execute_code from a JSON object, validates them, and
// resolves them to a session or a machine. An empty body counts as an empty object, a null
// argument as not given; an argument that occurs twice is refused. The refusal reports all
// faults at once, and its code is the first in the order of Precedence.
func Resolve(body []byte, v View) (Call, *Refusal) {
	args, twice, refusal := parseBody(body)
	if refusal != nil {
		return Call{}, refusal
	}
	return resolve(args, twice, &v)
}

func resolve(args map[string]json.RawMessage, twice map[string]bool, v *View) (Call, *Refusal) {
	d := newDraft(toolByName[ToolExecute], args, twice, v, executeStages)
	d.run()
	if len(d.faults) > 0 {
		return Call{}, d.refusal()
	}
	return d.call(), nil
}

func (d *draft) call() Call {
	c := Call{Actor: d.view.Actor, Session: d.session, Linked: d.linked}
	c.Request = Request{
		Language: d.language(), StateMode: d.mode(), Surface: d.place(),
		Timeout: DefaultTimeout, OnLoss: Retry, PrimitivesLimit: DefaultPrimitives,
		Atomic: d.boolean("atomic"), Background: d.boolean("background"),
	}
	c.Code, _ = d.text("code")
	c.Machine, _ = d.text("machine")
	c.IdempotencyKey, _ = d.text("idempotency_key")
	c.Thought, _ = d.text("thought")
	c.Stdin, _ = d.text("stdin")
	if id, ok := d.integer("session_id"); ok {
		c.SessionID = &id
	}
	if name, ok := d.text("session_name"); ok {
		c.SessionName = &name
	}
	if venv, ok := d.integer("venv_id"); ok {
		c.VenvID = &venv
	}
	if s, ok := d.values["timeout_s"].(float64); ok {
		// A deadline too short for the clock's resolution is still a deadline.
		c.Timeout = max(time.Duration(s*float64(time.Second)), 1)
	}
	if s, ok := d.text("on_loss"); ok {
		c.OnLoss = OnLoss(s)
	}
	if o, ok := d.values["primitives"].(offers); ok {
		c.Primitives = o.list()
	}
	if n, ok := d.integer("primitives_limit"); ok {
		c.PrimitivesLimit = n
	}
	if l, ok := d.values["files"].(fileList); ok {
		c.Files = l.list()
	}
	if keep, ok := d.values["keep"].(bool); ok {
		c.Keep = &keep
	}
	return c
}

// Echo reads the coordinates from arguments, as far as they are valid, to repeat them in the
// answer.
func Echo(args map[string]json.RawMessage) Coordinates {
	var at Coordinates
	if s, ok := echoText(args["language"]); ok {
		at.Language = (*Language)(&s)
	}
	if s, ok := echoText(args["state_mode"]); ok {
		at.StateMode = (*StateMode)(&s)
	}
	if s, ok := echoText(args["surface"]); ok {
		at.Surface = (*Place)(&s)
	}
	if s, ok := echoText(args["session_name"]); ok {
		at.SessionName = &s
	}
	if s, ok := echoText(args["machine"]); ok {
		at.Machine = &s
	}
	execute := toolByName[ToolExecute]
	at.SessionID = echoInteger(execute.argument("session_id"), args["session_id"])
	at.VenvID = echoInteger(execute.argument("venv_id"), args["venv_id"])
	return at
}

func echoText(raw json.RawMessage) (string, bool) {
	if len(raw) > 4*maxQuoted || jsonKind(raw) != "a string" {
		return "", false
	}
	s, damaged, err := unquote(raw)
	return s, err == nil && damaged == "" && s != ""
}

func echoInteger(a *Argument, raw json.RawMessage) *int {
	if isNull(raw) {
		return nil
	}
	if v, p := read(a, raw); p == nil {
		n := v.(int)
		return &n
	}
	return nil
}
