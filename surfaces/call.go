package surfaces

// SessionRef is the session that a call or a selector leads to.
type SessionRef struct {
	Key SessionKey
	// Name is empty when the session has none.
	Name string
	// Exists says whether the View knew the session. A call in a session that
	// does not exist makes it; its id is then a proposal, and whoever keeps the
	// sessions may have to take the next one if another call came first and the
	// caller gave only a name. The plan's own namespace can be read before it
	// was ever used: it is empty then.
	Exists bool
	// State is empty when the session does not exist.
	State SessionState
	Epoch uint64
}

// Call is a request that the law has found valid, with what it leads to. It is a
// statement about the View it was resolved against.
type Call struct {
	Request
	Actor string
	// Session is nil for stateless calls.
	Session *SessionRef
	// Linked is the machine that runs the call; nil for calls on the mesh itself.
	// When one machine alone would do, it is that one, though none was named.
	Linked *MachineItem
	// Parent is the call whose code made this one by using a stored function; empty for
	// the calls of callers. Function is the function's name, also where a caller runs it,
	// and FunctionDigest what it was stored under.
	Parent         string
	Function       string
	FunctionDigest string
}

// Coordinates says where a call runs, as far as it is known. A nil field is not
// known or does not apply.
type Coordinates struct {
	Language    *Language
	StateMode   *StateMode
	SessionID   *int
	SessionName *string
	VenvID      *int
	Surface     *Place
	Machine     *string
}

// Coordinates gives where the call runs, with the session and the machine that
// it was resolved to.
func (c *Call) Coordinates() Coordinates {
	language, mode, surface := c.Language, c.StateMode, c.Surface
	at := Coordinates{
		Language: &language, StateMode: &mode, Surface: &surface,
		SessionID: c.SessionID, SessionName: c.SessionName, VenvID: c.VenvID,
	}
	if c.Session != nil {
		id := c.Session.Key.ID
		at.SessionID = &id
		if name := c.Session.Name; name != "" {
			at.SessionName = &name
		}
	}
	if c.Linked != nil {
		machine := c.Linked.Name
		at.Machine = &machine
	}
	return at
}

func reference(s SessionItem, exists bool) *SessionRef {
	ref := &SessionRef{Key: s.Key, Name: s.Name, Exists: exists}
	if exists {
		ref.State, ref.Epoch = s.State, s.Epoch
	}
	return ref
}
