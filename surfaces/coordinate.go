package surfaces

// Language names an interpreter that a kernel can be made of.
type Language string

// The languages of the contract. Which of the shells a node really serves
// depends on what its machine has; see View.Languages.
const (
	Python     Language = "python"
	Bash       Language = "bash"
	Zsh        Language = "zsh"
	Sh         Language = "sh"
	PowerShell Language = "powershell"
)

// Languages lists every language of the contract in its fixed order.
func Languages() []Language { return []Language{Python, Bash, Zsh, Sh, PowerShell} }

// IsShell reports whether the language is one of the shells, which have no
// environments and answer with an exit status instead of a result value.
func (l Language) IsShell() bool { return l != Python }

// StateMode says what a call may see of a session and what it may keep in it.
type StateMode string

const (
	// Stateless runs in a fresh process that is gone afterwards.
	Stateless StateMode = "stateless"
	// Stateful runs in a session that is kept.
	Stateful StateMode = "stateful"
	// ReadOnly runs against a copy of a session and cannot change it.
	ReadOnly StateMode = "read_only"
)

// StateModes lists every state mode in its fixed order.
func StateModes() []StateMode { return []StateMode{Stateless, Stateful, ReadOnly} }

// Place says whose machine runs the code. It is the argument named surface.
type Place string

const (
	// Local is a node of the mesh itself.
	Local Place = "local"
	// AssistantVM is a managed machine that joined with a vm token.
	AssistantVM Place = "assistant_vm"
	// UserMachine is a person's own machine, linked with a link token.
	UserMachine Place = "user_machine"
)

// Places lists every place in its fixed order.
func Places() []Place { return []Place{Local, AssistantVM, UserMachine} }

// OnLoss says what to do when the process or the node under a call is lost.
type OnLoss string

const (
	// Retry tries once more, even if the first attempt may have run.
	Retry OnLoss = "retry"
	// NotStarted tries once more only if the first attempt surely ran nothing.
	NotStarted OnLoss = "not_started"
	// ReportLoss never tries again.
	ReportLoss OnLoss = "report"
)

// OnLosses lists every value of on_loss in its fixed order.
func OnLosses() []OnLoss { return []OnLoss{Retry, NotStarted, ReportLoss} }

// SessionKey identifies a session. The same ID in another language or in
// another environment is another session. Venv is 0 for none.
type SessionKey struct {
	Actor    string
	Language Language
	Venv     int
	ID       int
}

// IsPlan reports whether the key is the plan's own namespace: Python session 0
// without an environment, which always exists and counts towards no limit.
func (k SessionKey) IsPlan() bool {
	return k.Language == Python && k.Venv == 0 && k.ID == 0
}
