package surfaces

// SessionRef is the session that a call or a selector resolves to.
type SessionRef struct {
	Key SessionKey
	// Name is empty when the session has none.
	Name string
	// Exists says whether the View has the session. A stateful call creates a session that
	// does not exist. If the caller gave only a name, the id is then a proposal, and is
	// resolved again if another call takes it first. The plan's own namespace can be read
	// before it was ever used: it is empty then.
	Exists bool
	// State is empty when the session does not exist.
	State SessionState
	Epoch uint64
}

// Call is a valid request, with the session or machine that it resolves to in the View that
// it was resolved against.
type Call struct {
	Request
	Actor string
	// ActorID tells the actor from others that have had its name; empty where it is not known.
	ActorID string
	// Session is nil for stateless calls.
	Session *SessionRef
	// Linked is the machine that runs the call; nil for calls on the mesh itself. If only
	// one machine can run it, it is set even though the caller named none.
	Linked *MachineItem
	// Parent is the call whose code made this one by calling a stored function; empty if a
	// caller made it. Function is the name of the function that the call runs, if any, and
	// FunctionDigest the digest that it is stored under.
	Parent         string
	Function       string
	FunctionDigest string
}

// Coordinates says where a call runs. A field is nil if it is not known or does not apply.
type Coordinates struct {
	Language    *Language
	StateMode   *StateMode
	SessionID   *int
	SessionName *string
	VenvID      *int
	Surface     *Place
	Machine     *string
}

// Coordinates returns where the call runs, with the session and machine that it resolves to.
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
