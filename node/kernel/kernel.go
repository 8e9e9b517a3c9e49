// Package kernel defines a kernel, the process that runs code for the engine, and
// what all kernels share: the capture of output, and the program, events and
// report of one call.
//
// A Family makes the kernels of one language in one environment for one actor.
// The packages python and shell implement Family and Kernel.
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

// Kind is the use of a kernel.
type Kind uint8

const (
	// OneShot runs one stateless program and is used once.
	OneShot Kind = iota
	// Session runs one program after another and keeps its state between them.
	Session
	// Copy is a disposable copy of a session. It runs one read-only program, or one
	// inspection, with a private view of the disk.
	Copy
)

// Family makes kernels. It is safe for concurrent use.
type Family interface {
	// Start returns a kernel that is ready to run, a warm one if the family has one.
	// The name must be unique on this node; it names the kernel's group and its log
	// lines.
	Start(ctx context.Context, kind Kind, name string) (Kernel, error)
	// Close kills every kernel of the family and waits until they have ended.
	Close() error
}

// Kernel is one process that runs code, one program at a time. Only one goroutine
// may be in Run; the other methods are safe to call at any time, even while a
// program runs.
type Kernel interface {
	// Run runs a program to its end and returns the kernel's report. When it
	// returns, the program's Tap has received all output that the program wrote
	// before its end. ctx bounds only the wait until the program is handed over; Run
	// enforces no deadline after that: the engine interrupts or kills the kernel.
	// If the process dies first, the error is a *Died. Started is called for every
	// program that was handed over.
	Run(ctx context.Context, p Program) (Report, error)
	// Interrupt asks the program with the given number to end, by KeyboardInterrupt in
	// Python and by SIGINT to the foreground processes of a shell. A program for which
	// Run was called and that has not begun yet is interrupted as soon as it has begun; one
	// that has ended is not. It does not wait.
	Interrupt(program int) error
	// Fork copies this kernel's process, even while a program runs. The kind is Copy
	// for a disposable copy or Session for a second session. The new kernel does not
	// depend on this one. The notices name the state that could not be copied. A fork
	// that does not finish within the context's deadline fails, and this kernel
	// continues.
	Fork(ctx context.Context, kind Kind, name string) (Kernel, []surfaces.Notice, error)
	// Tell delivers a message to the running program: an interjection, or the
	// answer to a clarification or to a primitive. The error is ErrGone if the
	// process has ended.
	Tell(m Message) error
	// Inspect describes the session's state. It can run the session's own code (such
	// as a __repr__), so the engine calls it on a Copy.
	Inspect(ctx context.Context, detail Detail) (State, error)
	// Stack returns a readable description of where the running program is. For
	// Python it is the traceback of the main thread, in the caller's line numbers.
	// It is empty when the kernel is idle or the place is unknown.
	Stack(ctx context.Context) (string, error)
	// Group holds the kernel's process and everything that it started.
	Group() sandbox.Group
	// Process returns the kernel's current process. A kernel may continue in another
	// process, as a shell does after exit; Process then returns the new one before
	// the old one has ended.
	Process() *sandbox.Process
	// Kill ends the kernel's process and everything in its group, and waits until
	// the process has ended. It is idempotent.
	Kill()
}

// Program is the code of one call, and where its output and events go.
type Program struct {
	CallID string
	// Number counts the programs of a session from 1. Tracebacks use it in file names
	// such as <cell 3>.
	Number int
	Code   string
	// Stdin is what the program reads from its standard input before end-of-file.
	Stdin string
	// ReadOnly is set for programs on a Copy.
	ReadOnly bool
	// Diff requests the state diff.
	Diff bool
	// Tap receives the output, including what threads and processes that this program
	// left behind write later.
	Tap Tap
	// Events receives the program's events. It is called on one goroutine and must
	// return quickly. Nil drops them.
	Events func(Event)
	// Started is called once, just before the program is handed over: until then
	// none of it has run. It may be nil.
	Started func()
}

// Stream is one of the two output streams.
type Stream uint8

// The two output streams.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// String returns the name of the stream.
func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Tap receives output as it arrives. The bytes of one stream come in order; the
// two streams may call Output at the same time. Output must neither block nor
// retain p.
type Tap interface {
	Output(s Stream, p []byte)
}

// EventKind is the kind of an event.
type EventKind string

// The events of a running program.
const (
	EventNotify        EventKind = "notify"        // Text
	EventClarification EventKind = "clarification" // ID, Text is the question
	EventDisplay       EventKind = "display"       // Display
	EventNotice        EventKind = "notice"        // Notice
	EventPrimitive     EventKind = "primitive"     // ID is the sequence, Name, Data are the arguments
)

// Event is what a running program sends apart from its output.
type Event struct {
	Kind EventKind
	// ID to Data are set as the kind says; see there.
	ID      string
	Name    string
	Text    string
	Display surfaces.Display
	Notice  surfaces.Notice
	Data    json.RawMessage
}

// MessageKind is the kind of a message to a program.
type MessageKind string

// The messages to a running program.
const (
	MessageInterject MessageKind = "interject" // Text
	MessageAnswer    MessageKind = "answer"    // ID of the clarification, Text
	MessagePrimitive MessageKind = "primitive" // ID is the sequence, Data is {"result":...} or {"error":...}
)

// Message is sent to a running program.
type Message struct {
	Kind MessageKind `json:"kind"`
	// ID is that of the question or primitive that is answered.
	ID string `json:"id,omitempty"`
	// Number is that of the program that the message is for; any other program ignores
	// it. 0 means whichever program runs.
	Number int             `json:"number,omitempty"`
	Text   string          `json:"text,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// Report is what a kernel says about a program that ran to its end.
type Report struct {
	// Result is nil if there was no trailing expression, or its value was None.
	Result     json.RawMessage
	ResultType string
	Display    []surfaces.Display
	Exception  *surfaces.Exception
	// ExitCode is always set in shells, and in Python if the program called sys.exit.
	ExitCode *int
	// Interrupted says that the program ended because of Interrupt.
	Interrupted bool
	// Diff is nil unless Program.Diff was set.
	Diff *surfaces.StateDiff
	// CPU and MaxRSS, in bytes, count what the program used.
	CPU     time.Duration
	MaxRSS  int64
	Notices []surfaces.Notice
	// Alone is true if no process that this program or an earlier one started is
	// still running. False means that there may be some.
	Alone bool
	// Replaced is true if the kernel ended with its program by design and cannot be
	// used again, as one-shots and copies do.
	Replaced bool
}

// Died is the error of a program whose process ended while it ran, or before.
type Died struct {
	// Started is false if none of the program can have run.
	Started bool
	// Exit says how the process ended.
	Exit sandbox.Exit
}

// Error says how the process ended.
func (d *Died) Error() string { return fmt.Sprintf("the process under the call %s", d.Exit) }

// ErrGone is the error of a message or request to a process that has ended.
var ErrGone = errors.New("kernel: the process is gone")

// Detail is how much Inspect describes.
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

// Variable is one name with a bounded summary of its value. Size is in bytes, or 0
// if unknown.
type Variable struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Summary string `json:"summary,omitempty"`
	// Size is in bytes, without what the value only refers to.
	Size int64 `json:"size"`
}

// ShellState lists what a shell session holds.
type ShellState struct {
	Cwd       string            `json:"cwd"`
	Variables map[string]string `json:"variables"`
	Functions []string          `json:"functions"`
	Aliases   map[string]string `json:"aliases"`
}

// CopyLimit bounds a copy that is not only forked: the session is written out, and read again in
// a fresh process.
const CopyLimit = 30 * time.Second

// ErrSlowCopy is the error of such a copy that was not ready within CopyLimit, or in the time
// that the caller had.
var ErrSlowCopy = errors.New("kernel: the copy was not read again in time")
