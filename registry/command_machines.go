package registry

import (
	"fmt"
	"slices"
)

// LinkMachine registers a machine that has joined with a link or vm token. It belongs to the
// owner of the token.
type LinkMachine struct {
	Proposal `json:"-"`
	// ID is the id that UseToken gave to the machine for this token.
	ID    string `json:"id"`
	Token string `json:"token"`
	// Name is the preferred name; if it is taken, a number is appended.
	Name string `json:"name"`
}

// MachineResult is the result of a command about a machine.
type MachineResult string

const (
	// MachineLinked: it was registered by this command.
	MachineLinked MachineResult = "linked"
	// MachineExists: it was registered before.
	MachineExists MachineResult = "exists"
	// MachineNoToken: no machine with that id has joined with that token, or the token is
	// revoked or not for machines.
	MachineNoToken MachineResult = "no_token"
	// MachineNoActor: the owner of the token does not exist or has ended.
	MachineNoActor MachineResult = "no_actor"
	// MachineLimit: the actor has MaxMachines already.
	MachineLimit MachineResult = "limit"
	// MachineRecorded: the connection or disconnection was recorded.
	MachineRecorded MachineResult = "noted"
	// MachineStale: another node holds the connection by now, or the node's incarnation is
	// not current.
	MachineStale MachineResult = "stale"
	// MachineUnlinked: it was removed from the mesh.
	MachineUnlinked MachineResult = "unlinked"
	// MachineUnknown: there is no such machine.
	MachineUnknown MachineResult = "unknown"
)

// MachineOutcome answers the commands about machines. Machine is the record; for
// MachineUnlinked it is the last one.
type MachineOutcome struct {
	Result  MachineResult `json:"result"`
	Machine Machine       `json:"machine,omitzero"`
}

func (LinkMachine) kind() kind { return kindLinkMachine }

func (c LinkMachine) bounds() error {
	return checkBounds(isToken(c.ID, maxText), isToken(c.Token, maxText), isToken(c.Name, maxMachineName))
}

func (c LinkMachine) apply(t tables, m moment) any {
	if have := t.machine(c.ID); have != nil {
		return MachineOutcome{MachineExists, have.clone()}
	}
	token := t.joinToken(c.Token)
	if token == nil || token.RevokedAt != 0 || token.Role != "link" && token.Role != "vm" ||
		!slices.ContainsFunc(token.Uses, func(u TokenUse) bool { return string(u.Node) == c.ID }) {
		return MachineOutcome{Result: MachineNoToken}
	}
	if a := t.actor(token.Owner); a == nil || a.Ended() {
		return MachineOutcome{Result: MachineNoActor}
	}
	others := t.machinesOf(token.Owner)
	if len(others) >= MaxMachines {
		return MachineOutcome{Result: MachineLimit}
	}
	taken := make(map[string]bool, len(others))
	for _, o := range others {
		taken[o.Name] = true
	}
	made := Machine{ID: c.ID, Name: freeName(c.Name, taken), Actor: token.Owner, Role: token.Role, SeenAt: m.at, LinkedAt: m.at}
	t.put(tableMachines, &made)
	return MachineOutcome{MachineLinked, made.clone()}
}

// freeName returns the name, with the lowest number from 2 appended if it is taken.
func freeName(name string, taken map[string]bool) string {
	free := name
	for n := 2; taken[free]; n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free
}

// ConnectMachine records that a node holds a machine's connection, and what the machine reports
// about itself.
type ConnectMachine struct {
	Proposal       `json:"-"`
	ID             string       `json:"id"`
	Hub            NodeID       `json:"hub"`
	HubIncarnation Incarnation  `json:"hub_life"`
	Facts          MachineFacts `json:"facts"`
}

func (ConnectMachine) kind() kind { return kindConnectMachine }

func (c ConnectMachine) bounds() error {
	f := c.Facts
	ok := len(f.Languages) <= maxLanguages
	for _, l := range f.Languages {
		ok = ok && isToken(l, maxReason)
	}
	return checkBounds(ok, isToken(c.ID, maxText), isLife(c.Hub, c.HubIncarnation), isText(f.OS, maxReason), isText(f.Arch, maxReason),
		isText(f.Version, maxReason), isText(f.Consent, maxText))
}

func (c ConnectMachine) apply(t tables, m moment) any {
	have := t.machine(c.ID)
	switch {
	case have == nil:
		return MachineOutcome{Result: MachineUnknown}
	case !t.holds(c.Hub, c.HubIncarnation):
		return MachineOutcome{MachineStale, have.clone()}
	}
	met := have.clone()
	met.MachineFacts, met.Hub, met.HubIncarnation, met.SeenAt = c.Facts, c.Hub, c.HubIncarnation, m.at
	t.put(tableMachines, &met)
	return MachineOutcome{MachineRecorded, met.clone()}
}

// DisconnectMachine records that a node no longer holds a machine's connection. It changes nothing
// if another node holds it by now.
type DisconnectMachine struct {
	Proposal       `json:"-"`
	ID             string      `json:"id"`
	Hub            NodeID      `json:"hub"`
	HubIncarnation Incarnation `json:"hub_life"`
}

func (DisconnectMachine) kind() kind { return kindDisconnectMachine }

func (c DisconnectMachine) bounds() error {
	return checkBounds(isToken(c.ID, maxText), isLife(c.Hub, c.HubIncarnation))
}

func (c DisconnectMachine) apply(t tables, m moment) any {
	have := t.machine(c.ID)
	switch {
	case have == nil:
		return MachineOutcome{Result: MachineUnknown}
	case have.Hub != c.Hub || have.HubIncarnation != c.HubIncarnation:
		return MachineOutcome{MachineStale, have.clone()}
	}
	gone := have.clone()
	gone.Hub, gone.HubIncarnation, gone.SeenAt = "", 0, m.at
	t.put(tableMachines, &gone)
	return MachineOutcome{MachineRecorded, gone.clone()}
}

// UnlinkMachine removes a machine from the mesh for good, and revokes its identity.
type UnlinkMachine struct {
	Proposal `json:"-"`
	ID       string `json:"id"`
	// URI is its identity, Until when the last of its certificates will have expired.
	URI   string    `json:"uri"`
	Until Timestamp `json:"until"`
}

func (UnlinkMachine) kind() kind { return kindUnlinkMachine }

func (c UnlinkMachine) bounds() error {
	return checkBounds(isToken(c.ID, maxText), isToken(c.URI, maxURI), c.Until > 0)
}

// apply removes the machine even if its identity cannot be revoked because of MaxRevoked: a
// machine without a record is not served either.
func (c UnlinkMachine) apply(t tables, m moment) any {
	have := t.machine(c.ID)
	if have == nil {
		return MachineOutcome{Result: MachineUnknown}
	}
	t.remove(tableMachines, have)
	RevokeIdentity{URI: c.URI, Until: c.Until}.apply(t, m)
	return MachineOutcome{MachineUnlinked, have.clone()}
}
