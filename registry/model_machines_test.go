package registry

import "fmt"

func (m *model) doMachines(c command, at Timestamp) any {
	all := m.rest.machines
	switch c := c.(type) {
	case LinkMachine:
		if have, ok := all[c.ID]; ok {
			return MachineOutcome{MachineExists, have}
		}
		token := m.rest.tokens[c.Token]
		joined := false
		for _, u := range token.Uses {
			joined = joined || string(u.Node) == c.ID
		}
		if !joined || token.Role == "node" || token.RevokedAt != 0 {
			return MachineOutcome{Result: MachineNoToken}
		}
		owner, ok := m.actors[token.Owner]
		if !ok || owner.EndedAt != 0 {
			return MachineOutcome{Result: MachineNoActor}
		}
		name := c.Name
		for n := 2; m.machineNamed(token.Owner, name); n++ {
			name = fmt.Sprint(c.Name, "-", n)
		}
		made := Machine{ID: c.ID, Name: name, Actor: token.Owner, Role: token.Role, SeenAt: at, LinkedAt: at}
		all[c.ID] = made
		return MachineOutcome{MachineLinked, made}
	case ConnectMachine:
		have, ok := all[c.ID]
		if !ok {
			return MachineOutcome{Result: MachineUnknown}
		}
		if n, ok := m.nodes[c.Hub]; !ok || n.State != NodeUp || n.Incarnation != c.HubIncarnation {
			return MachineOutcome{MachineStale, have}
		}
		have.MachineFacts, have.Hub, have.HubIncarnation, have.SeenAt = c.Facts, c.Hub, c.HubIncarnation, at
		all[c.ID] = have
		return MachineOutcome{MachineRecorded, have}
	case DisconnectMachine:
		have, ok := all[c.ID]
		if !ok {
			return MachineOutcome{Result: MachineUnknown}
		}
		if have.Hub != c.Hub || have.HubIncarnation != c.HubIncarnation {
			return MachineOutcome{MachineStale, have}
		}
		have.Hub, have.HubIncarnation, have.SeenAt = "", 0, at
		all[c.ID] = have
		return MachineOutcome{MachineRecorded, have}
	case UnlinkMachine:
		have, ok := all[c.ID]
		if !ok {
			return MachineOutcome{Result: MachineUnknown}
		}
		delete(all, c.ID)
		m.doTrust(RevokeIdentity{URI: c.URI, Until: c.Until}, at)
		return MachineOutcome{MachineUnlinked, have}
	}
	return m.doLibrary(c, at)
}

func (m *model) machineNamed(actor, name string) bool {
	for _, have := range m.rest.machines {
		if have.Actor == actor && have.Name == name {
			return true
		}
	}
	return false
}
