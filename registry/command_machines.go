package registry

import (
	"fmt"
	"slices"
)

// LinkMachine takes in a machine that has joined by a token of a machine's role. It
// belongs to the token's owner.
type LinkMachine struct {
	Proposal `json:"-"`
	// ID is what the machine was given by UseToken, for the token.
	ID    string `json:"id"`
	Token string `json:"token"`
	// Name is a wish: when it is taken, a number is added.
	Name string `json:"name"`
}

// MachineResult says what became of a command about a machine.
type MachineResult string

const (
	// MachineLinked: it is taken in, by this command.
	MachineLinked MachineResult = "linked"
	// MachineExists: it was taken in before.
	MachineExists MachineResult = "exists"
	// MachineNoToken: nobody has joined by that token under that id, or the token is
	// not for machines.
	MachineNoToken MachineResult = "no_token"
	// MachineNoActor: the token's owner is unknown or over.
	MachineNoActor MachineResult = "no_actor"
	// MachineLimit: the actor has MaxMachines already.
	MachineLimit MachineResult = "limit"
	// MachineNoted: it has come or gone, as said.
	MachineNoted MachineResult = "noted"
	// MachineStale: another node holds it by now, or the node may hold nothing.
	MachineStale MachineResult = "stale"
	// MachineUnlinked: it is not one of the mesh any more.
	MachineUnlinked MachineResult = "unlinked"
	// MachineUnknown: there is no such machine.
	MachineUnknown MachineResult = "unknown"
)

// MachineOutcome answers the commands about machines. Machine is its record, for
// MachineUnlinked as it was last.
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

// freeName gives the name, or it with the lowest number from 2 that is not taken.
func freeName(name string, taken map[string]bool) string {
	free := name
	for n := 2; taken[free]; n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free
}

// MeetMachine says that a node holds a machine's connection, and what the machine
// said of itself.
type MeetMachine struct {
	Proposal `json:"-"`
	ID       string       `json:"id"`
	Hub      NodeID       `json:"hub"`
	HubLife  Incarnation  `json:"hub_life"`
	Facts    MachineFacts `json:"facts"`
}

func (MeetMachine) kind() kind { return kindMeetMachine }

func (c MeetMachine) bounds() error {
	f := c.Facts
	ok := len(f.Languages) <= maxLanguages
	for _, l := range f.Languages {
		ok = ok && isToken(l, maxReason)
	}
	return checkBounds(ok, isToken(c.ID, maxText), isLife(c.Hub, c.HubLife), isText(f.OS, maxReason), isText(f.Arch, maxReason),
		isText(f.Version, maxReason), isText(f.Consent, maxText))
}

func (c MeetMachine) apply(t tables, m moment) any {
	have := t.machine(c.ID)
	switch {
	case have == nil:
		return MachineOutcome{Result: MachineUnknown}
	case !t.holds(c.Hub, c.HubLife):
		return MachineOutcome{MachineStale, have.clone()}
	}
	met := have.clone()
	met.MachineFacts, met.Hub, met.HubLife, met.SeenAt = c.Facts, c.Hub, c.HubLife, m.at
	t.put(tableMachines, &met)
	return MachineOutcome{MachineNoted, met.clone()}
}

// PartMachine says that a node does not hold a machine's connection any more. It
// changes nothing when another does by now.
type PartMachine struct {
	Proposal `json:"-"`
	ID       string      `json:"id"`
	Hub      NodeID      `json:"hub"`
	HubLife  Incarnation `json:"hub_life"`
}

func (PartMachine) kind() kind { return kindPartMachine }

func (c PartMachine) bounds() error {
	return checkBounds(isToken(c.ID, maxText), isLife(c.Hub, c.HubLife))
}

func (c PartMachine) apply(t tables, m moment) any {
	have := t.machine(c.ID)
	switch {
	case have == nil:
		return MachineOutcome{Result: MachineUnknown}
	case have.Hub != c.Hub || have.HubLife != c.HubLife:
		return MachineOutcome{MachineStale, have.clone()}
	}
	gone := have.clone()
	gone.Hub, gone.HubLife, gone.SeenAt = "", 0, m.at
	t.put(tableMachines, &gone)
	return MachineOutcome{MachineNoted, gone.clone()}
}

// UnlinkMachine takes a machine out of the mesh for good, and with it the trust in
// its identity.
type UnlinkMachine struct {
	Proposal `json:"-"`
	ID       string `json:"id"`
	// URI is its identity, and Until when the last of its certificates will have run out.
	URI   string    `json:"uri"`
	Until Timestamp `json:"until"`
}

func (UnlinkMachine) kind() kind { return kindUnlinkMachine }

func (c UnlinkMachine) bounds() error {
	return checkBounds(isToken(c.ID, maxText), isToken(c.URI, maxURI), c.Until > 0)
}

// apply forgets the machine even where no more identities can be revoked: who is no
// machine is served no more.
func (c UnlinkMachine) apply(t tables, m moment) any {
	have := t.machine(c.ID)
	if have == nil {
		return MachineOutcome{Result: MachineUnknown}
	}
	t.remove(tableMachines, have)
	RevokeIdentity{URI: c.URI, Until: c.Until}.apply(t, m)
	return MachineOutcome{MachineUnlinked, have.clone()}
}
