package history

// Outcome is what a client was told of a call.
type Outcome string

const (
	// Answered: the code ran to its end, and Generation and List are what it saw.
	Answered Outcome = "answered"
	// Unknown: the code may have run, once or more or in part.
	Unknown Outcome = "unknown"
	// NothingRan: the client was told that nothing has run.
	NothingRan Outcome = "nothing"
	// Lost: a read was told that the state is gone.
	Lost Outcome = "lost"
)

// Call is one call as its client saw it.
type Call struct {
	Client  int
	Session string // empty for a call without one
	// Token is appended by the code, and is of this call only. A Read appends
	// nothing.
	Token string
	Read  bool
	// Once says that the caller asked for no second attempt after code may have run.
	Once bool
	// Invoked and Returned are nanoseconds of the machine's monotonic clock.
	Invoked, Returned int64

	Outcome    Outcome
	Generation string // empty when there was nothing in the session
	List       []string
	// Silent says that no answer came, because the door was gone: of lost state and of a
	// second attempt the client may have been told without hearing of it.
	Silent bool
	// Told says that the answer spoke of lost state.
	Told     bool
	Attempts int
	// Text is the answer for people.
	Text string
}

// Mark is one line that running code has left.
type Mark struct {
	Session, Generation, Token string
	// Start is set for the first line of a run of a call's code.
	Start bool
	At    int64 // as in Call
}
