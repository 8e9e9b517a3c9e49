// Package kernel defines what the engine needs of a process that runs code, and
// what every such process shares: output capture on file descriptors, and the
// program, events and report of one call.
//
// A Family makes the kernels of one language in one environment for one actor.
// Sub-packages python and shell implement it.
package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/locusrun/locus/node/sandbox"
	"github.com/locusrun/locus/surfaces"
)

// Kind says what a kernel is for.
type Kind uint8

const (
	// OneShot runs one stateless program and is used once.
	OneShot Kind = iota
	// Session is kept and runs one program after another.
	Session
	// Copy is a throw-away copy of a session that runs one read-only program, or
	// one inspection, with a private view of the disk.
	Copy
)

// Family makes kernels. Its methods may be called at the same time.
type Family interface {
	// Start gives a kernel that is ready to run, warm if one is at hand. The name
	// is unique on this node and names the kernel's group and its log lines.
	Start(ctx context.Context, kind Kind, name string) (Kernel, error)
	// Close kills every kernel of the family and waits for their ends.
	Close() error
}

// Kernel is one process that runs code, one program at a time. Run is called by
// one goroutine at a time; all other methods may be called at any moment, also
// while a program runs.
type Kernel interface {
	// Run runs a program to its end and returns what the kernel reports. All
	// output that the program had written when it ended has been given to the
	// program's Tap when Run returns. Run does not enforce deadlines and does not
	// stop when ctx ends before the program was handed over; the engine
	// interrupts or kills the kernel. When the process dies first, the error is a
	// *Died. Every program that was handed over is Started.
	Run(ctx context.Context, p Program) (Report, error)
	// Interrupt asks the running program to end: KeyboardInterrupt in Python,
	// SIGINT to the foreground processes of a shell. It returns at once.
	Interrupt() error
	// Fork makes a copy of this kernel's process, also while a program runs. Kind
	// Copy gives a throw-away; kind Session gives a second session; both are
	// independent of this kernel's later fate. The notices say what could not
	// come along. A fork that makes no progress within the context's deadline is
	// given up with an error, and this kernel goes on.
	Fork(ctx context.Context, kind Kind, name string) (Kernel, []surfaces.Notice, error)
	// Tell delivers a message to the running program: an interjection, or the
	// answer to a clarification or to a primitive. ErrGone says that the process has
	// ended.
	Tell(m Message) error
	// Inspect describes the state. It runs code of the session (such as repr), so
	// the engine calls it on a Copy.
	Inspect(ctx context.Context, detail Detail) (State, error)
	// Stack describes where the running program stands, for people: for Python
	// the traceback of the main thread in the caller's line numbers. Empty when
	// idle or unknown.
	Stack(ctx context.Context) (string, error)
	// Group holds the kernel's process and everything that it started.
	Group() sandbox.Group
	// Process is the kernel's own process. A kernel may go on in another one, as a
	// shell does after exit; then Process gives the new one before the old one ends.
	Process() *sandbox.Process
	// Kill ends the kernel's process and everything in its group, and waits for
	// the process to be gone. It is idempotent.
	Kill()
}

// Program is one call's code and where its output and events go.
type Program struct {
	CallID string
	// Number counts the programs of a session from 1; it makes file names such as
	// <cell 3> in tracebacks.
	Number int
	Code   string
	Stdin  string
	// ReadOnly is set for programs on a Copy.
	ReadOnly bool
	// Diff asks for the state diff.
	Diff bool
	// Tap receives the output. It also receives what processes and threads left
	// behind by this program write later, until they end.
	Tap Tap
	// Events receives what the program says beside its output; it is called on
	// one goroutine and must return quickly. Nil drops events.
	Events func(Event)
	// Started is called once, just before the program can begin to run. Before it
	// is called nothing of the program has run. May be nil.
	Started func()
}

// Stream is one of the two output streams.
type Stream uint8

// The two output streams.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// String gives the name of the stream.
func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Tap takes output as it comes. Output is called with the streams' order kept
// within each stream, possibly on two goroutines at once (one per stream). It
// must neither block nor keep p.
type Tap interface {
	Output(s Stream, p []byte)
}

// EventKind names what an event is.
type EventKind string

// The events of a running program.
const (
	EventNotify        EventKind = "notify"        // Text
	EventClarification EventKind = "clarification" // ID, Text is the question
	EventDisplay       EventKind = "display"       // Display
	EventNotice        EventKind = "notice"        // Notice
	EventPrimitive     EventKind = "primitive"     // ID is the sequence, Name, Data are the arguments
)

// Event is something that a program says beside its output.
type Event struct {
	Kind    EventKind
	ID      string
	Name    string
	Text    string
	Display surfaces.Display
	Notice  surfaces.Notice
	Data    json.RawMessage
}

// MessageKind names what a message to a program is.
type MessageKind string

// The messages to a running program.
const (
	MessageInterject MessageKind = "interject" // Text
	MessageAnswer    MessageKind = "answer"    // ID of the clarification, Text
	MessagePrimitive MessageKind = "primitive" // ID is the sequence, Data is {"result":...} or {"error":...}
)

// Message is what a running program is told.
type Message struct {
	Kind MessageKind `json:"kind"`
	ID   string      `json:"id,omitempty"`
	// Number is that of the program which is to be told; to any other one the message
	// says nothing. 0 stands for whichever runs.
	Number int             `json:"number,omitempty"`
	Text   string          `json:"text,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// Report is what a kernel says of a program that it ran to its end.
type Report struct {
	// Result is nil when there is no trailing expression, or it was None.
	Result     json.RawMessage
	ResultType string
	Display    []surfaces.Display
	Exception  *surfaces.Exception
	// ExitCode is set when the program asked to end with a status: sys.exit in
	// Python; always in shells.
	ExitCode *int
	// Interrupted says that the program ended because of Interrupt.
	Interrupted bool
	Diff        *surfaces.StateDiff
	CPU         time.Duration
	MaxRSS      int64
	Notices     []surfaces.Notice
	// Alone says that the kernel knows of no process that the program, or one before
	// it, has left running. False means that there may be some.
	Alone bool
	// Replaced says that the kernel ended on purpose together with the program
	// and cannot be used again (a one-shot, or a copy).
	Replaced bool
}

// Died is the error of a program whose process ended under it.
type Died struct {
	// Started says whether the program may have begun to run.
	Started bool
	Exit    sandbox.Exit
}

// Error says how the process ended.
func (d *Died) Error() string { return fmt.Sprintf("the process under the call %s", d.Exit) }

// ErrGone says that there is no process any more to take or answer what was sent.
var ErrGone = errors.New("kernel: the process is gone")

// Detail says how much Inspect tells.
type Detail string

// The details of inspect_state.
const (
	DetailSummary Detail = "summary"
	DetailNames   Detail = "names"
	DetailFull    Detail = "full"
)

// State is what is in a session. Exactly one of the two parts is set.
type State struct {
	Python *PythonState
	Shell  *ShellState
}

// PythonState lists the top-level names of a Python session.
type PythonState struct {
	Variables []Variable `json:"variables"`
	Functions []Variable `json:"functions"`
	Modules   []string   `json:"modules"`
}

// Variable is one name with a bounded summary of its value. Size is in bytes, 0
// when unknown.
type Variable struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Summary string `json:"summary,omitempty"`
	Size    int64  `json:"size"`
}

// ShellState lists what a shell session holds.
type ShellState struct {
	Cwd       string            `json:"cwd"`
	Variables map[string]string `json:"variables"`
	Functions []string          `json:"functions"`
	Aliases   map[string]string `json:"aliases"`
}
