package surfaces

import "time"

// Request holds the decoded arguments of execute_code, with defaults filled in. SessionID,
// SessionName and VenvID are nil if the caller did not give them.
type Request struct {
	Code        string
	Language    Language
	StateMode   StateMode
	SessionID   *int
	SessionName *string
	VenvID      *int
	Surface     Place
	Machine     string
	Timeout     time.Duration
	OnLoss      OnLoss
	Atomic      bool
	// Keep says whether the session is kept however long it is idle; nil changes nothing.
	Keep           *bool
	Background     bool
	IdempotencyKey string
	Thought        string
	// Stdin is what the code reads from its standard input before end-of-file.
	Stdin string
	// Primitives lists the primitives that the caller provides. Nil means that it did not
	// say, an empty list that it provides none.
	Primitives []Offer
	// PrimitivesLimit is how many primitives the call may use.
	PrimitivesLimit int
	// Files are placed in the code's folder, on linked machines only.
	Files []File
}

// Bounds on the arguments. They are the same at every door.
const (
	// DefaultTimeout applies when timeout_s is not given.
	DefaultTimeout = 120 * time.Second
	// MaxTimeout is the longest deadline that a caller may ask for.
	MaxTimeout = 24 * time.Hour
	// MaxCode is the longest program, in bytes of UTF-8.
	MaxCode = 16 << 20
	// MaxStdin is the longest standard input, in bytes of UTF-8.
	MaxStdin = 16 << 20
	// MaxName is the longest session name, in characters.
	MaxName = 64
	// MaxIdempotencyKey is the longest idempotency key, in characters, and KeyLife how
	// long it is remembered.
	MaxIdempotencyKey = 128
	KeyLife           = 24 * time.Hour
	// MaxThought is the longest thought, in bytes.
	MaxThought = 16 << 10
	// MaxSessions is how many sessions an actor may have; the plan's own namespace is not
	// counted.
	MaxSessions = 20
	// MaxSessionID is the largest session id.
	MaxSessionID = 1<<31 - 1
)
