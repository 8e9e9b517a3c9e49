package surfaces

import (
	"encoding/json"
	"math"
)

// Kind is the JSON type of an argument, by its name in JSON Schema.
type Kind string

// The kinds of arguments.
const (
	KindString  Kind = "string"
	KindInteger Kind = "integer"
	KindNumber  Kind = "number"
	KindBoolean Kind = "boolean"
	KindArray   Kind = "array"
	KindObject  Kind = "object" // only for items of lists
)

// Argument describes one argument of a tool. The same description drives the
// decoder, the JSON Schema and the documents.
type Argument struct {
	Name     string
	Kind     Kind
	Required bool
	// Default is the value of an argument that is not given; nil for none.
	Default any
	// Enum lists the allowed values; nil when any value is allowed.
	Enum []string
	// Min and Max bound integers and numbers. With Above, Min itself is too small.
	Min, Max float64
	Above    bool
	// MaxChars and MaxBytes bound strings; 0 is unbounded.
	MaxChars, MaxBytes int
	// MaxItems bounds lists; 0 for other kinds.
	MaxItems int
	// Pattern is the regular expression (ECMA 262, Unicode) of names; "" for none.
	Pattern string
	Doc     string

	allowBlank bool // a string of nothing or of spaces is a value
	noNUL      bool
	items      items // of lists
	// deferred says that a later stage decides what to do about an unusable
	// value, because that depends on the other arguments.
	deferred bool
}

// items describes the items of a list.
type items struct {
	read   func(a *Argument, raw json.RawMessage) (any, *problem)
	schema func() *Items
	words  string
}

// Tool describes one tool.
type Tool struct {
	Name      string
	Doc       string
	Arguments []Argument
}

// The names of the tools.
const (
	ToolExecute = "execute_code"
	ToolList    = "list_sessions"
	ToolInspect = "inspect_state"
	ToolClose   = "close_session"
	ToolReset   = "reset_session"
	ToolFork    = "fork_session"
)

// namePattern says what a session may be called.
const namePattern = `^[\p{L}\p{Nd}_\-. ]{1,64}$`

var tools = []Tool{
	{Name: ToolExecute, Doc: "Run a program at a coordinate: language, state mode, session, environment, surface.", Arguments: executeArguments()},
	{Name: ToolList, Doc: "List your sessions and their limit.", Arguments: []Argument{}},
	{Name: ToolInspect, Doc: "Describe what is in a session; without a selector, in Python session 0.", Arguments: append(selectorArguments(), Argument{
		Name: "detail", Kind: KindString, Default: string(DetailSummary), Enum: names(Details()),
		Doc: "How much to tell: summary, names or full.",
	})},
	{Name: ToolClose, Doc: "End a session. Closing one that does not exist is no error.", Arguments: selectorArguments()},
	{Name: ToolReset, Doc: "Empty a session and keep its name.", Arguments: selectorArguments()},
	{Name: ToolFork, Doc: "Make a second live session that starts as a copy of one.", Arguments: append(selectorArguments(), Argument{
		Name: "new_name", Kind: KindString, Required: true, MaxChars: MaxName, Pattern: namePattern,
		Doc: "The name of the copy: 1 to 64 letters, digits, _ - . and spaces, not yet in use.",
	})},
}

var toolByName = func() map[string]*Tool {
	byName := make(map[string]*Tool, len(tools))
	for i := range tools {
		byName[tools[i].Name] = &tools[i]
	}
	return byName
}()

// Tools lists the tools in their fixed order. The returned slice is a copy, but the argument
// lists in it are shared and must not be changed.
func Tools() []Tool { return append([]Tool(nil), tools...) }

func (t *Tool) argument(name string) *Argument {
	for i := range t.Arguments {
		if t.Arguments[i].Name == name {
			return &t.Arguments[i]
		}
	}
	return nil
}

func names[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

func languageArgument(required bool, doc string) Argument {
	return Argument{Name: "language", Kind: KindString, Required: required, Enum: names(Languages()), deferred: true, Doc: doc}
}

func sessionIDArgument(doc string) Argument {
	return Argument{Name: "session_id", Kind: KindInteger, Min: 0, Max: MaxSessionID, deferred: true, Doc: doc}
}

func sessionNameArgument(doc string) Argument {
	return Argument{Name: "session_name", Kind: KindString, MaxChars: MaxName, Pattern: namePattern, deferred: true, Doc: doc}
}

func venvArgument(doc string) Argument {
	return Argument{Name: "venv_id", Kind: KindInteger, Min: 1, Max: math.MaxInt32, deferred: true, Doc: doc}
}

func executeArguments() []Argument {
	return []Argument{
		{Name: "code", Kind: KindString, Required: true, MaxBytes: MaxCode, allowBlank: true, noNUL: true,
			Doc: "The program. Empty, or nothing but comments, does nothing and succeeds."},
		languageArgument(true, "The interpreter that runs the code."),
		{Name: "state_mode", Kind: KindString, Default: string(Stateless), Enum: names(StateModes()), deferred: true,
			Doc: "stateless: a fresh process, gone afterwards. stateful: a session that is kept. read_only: a copy of a session, which stays as it is."},
		sessionIDArgument("The session's id within its language and environment. Stateful without a session means session 0."),
		sessionNameArgument("The session's name: 1 to 64 letters, digits, _ - . and spaces. Preferred to an id. A new name in stateful mode makes a session."),
		venvArgument("A stored environment. Python only."),
		{Name: "surface", Kind: KindString, Default: string(Local), Enum: names(Places()), deferred: true,
			Doc: "Whose machine runs the code. Only local keeps sessions."},
		{Name: "machine", Kind: KindString, deferred: true, MaxChars: 255,
			Doc: "Which linked machine, when more than one would do."},
		{Name: "timeout_s", Kind: KindNumber, Default: DefaultTimeout.Seconds(), Min: 0, Above: true, Max: MaxTimeout.Seconds(),
			Doc: "A hard deadline, in seconds."},
		{Name: "on_loss", Kind: KindString, Default: string(Retry), Enum: names(OnLosses()),
			Doc: "When the process or node under the call is lost. retry: once more, even if it may have run. not_started: only if it surely ran nothing. report: never."},
		{Name: "atomic", Kind: KindBoolean, Default: false, deferred: true,
			Doc: "Stateful only: if the code raises, times out or is killed, the session is as it was before the call."},
		{Name: "keep", Kind: KindBoolean, deferred: true,
			Doc: "Stateful only: true keeps the session however long it is idle, false lets it be closed as others are. It holds until the next call that says otherwise, or a reset."},
		{Name: "background", Kind: KindBoolean, Default: false,
			Doc: "Return at once with a call_id and status running."},
		{Name: "idempotency_key", Kind: KindString, MaxChars: MaxIdempotencyKey, noNUL: true,
			Doc: "The same key within 24 hours gives the first call's result and runs nothing."},
		{Name: "thought", Kind: KindString, MaxBytes: MaxThought, allowBlank: true,
			Doc: "Why the code runs. Kept in the audit trail and shown to people."},
		{Name: "stdin", Kind: KindString, MaxBytes: MaxStdin, allowBlank: true,
			Doc: "What the code reads on its standard input before end-of-file."},
		{Name: "primitives", Kind: KindArray, MaxItems: MaxOffers,
			items: items{readOffers, primitivesSchema, "names NAMESPACE.FUNCTION or objects {name, description, schema, read_only}"},
			Doc:   "What you offer to the code as primitives.NAMESPACE.FUNCTION, and nothing else: names, or objects {name, description, schema, read_only}. Read the call's events and answer each primitive. Not given: whatever the code asks for."},
		{Name: "primitives_limit", Kind: KindInteger, Default: DefaultPrimitives, Min: 0, Max: MaxPrimitives,
			Doc: "How many primitives the call may use."},
		{Name: "files", Kind: KindArray, MaxItems: MaxFiles,
			items: items{readFiles, filesSchema, "files {name, data in base64} or {name, text}, with relative names"},
			Doc:   "Files for the code's working directory, on a linked machine only, 16 MiB together. What the code leaves in the folder out comes back as files."},
	}
}

func selectorArguments() []Argument {
	return []Argument{
		sessionNameArgument("The session's name, which is enough by itself."),
		sessionIDArgument("The session's id within its language and environment."),
		languageArgument(false, "The session's language; goes with session_id."),
		venvArgument("The session's environment; goes with session_id."),
	}
}
