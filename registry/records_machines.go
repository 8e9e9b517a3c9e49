package registry

import (
	"reflect"
	"slices"
)

// Machine is a machine that runs code for one actor and dials out to the mesh: a
// person's own, or one that is kept for the actor.
type Machine struct {
	// ID is that of its certificate.
	ID string `json:"id"`
	// Name is unique among the actor's machines.
	Name  string `json:"name"`
	Actor string `json:"actor"`
	// Role is that of the token by which it joined, link or vm.
	Role string `json:"role"`
	MachineFacts
	// Hub is the node that holds its connection, in the life in which it does; empty
	// for none. A hub that is gone has said nothing of that.
	Hub     NodeID      `json:"hub,omitempty"`
	HubLife Incarnation `json:"hub_life,omitempty"`
	// SeenAt is when it came or went last.
	SeenAt   Timestamp `json:"seen_at"`
	LinkedAt Timestamp `json:"linked_at"`
}

// MachineFacts is what a machine says of itself.
type MachineFacts struct {
	OS        string   `json:"os,omitempty"`
	Arch      string   `json:"arch,omitempty"`
	Version   string   `json:"version,omitempty"`
	Languages []string `json:"languages,omitempty"`
	// Consent says in a few words what its owner allows.
	Consent string `json:"consent,omitempty"`
}

// Says reports whether the machine is known to say this of itself.
func (m Machine) Says(f MachineFacts) bool {
	have, want := m.MachineFacts, f
	have.Languages, want.Languages = nil, nil
	return reflect.DeepEqual(have, want) && slices.Equal(m.Languages, f.Languages)
}

func (m Machine) clone() Machine {
	m.Languages = slices.Clone(m.Languages)
	return m
}

// Bounds on machines, part of the replicated rules like those in records.go.
const (
	// MaxMachines is how many machines an actor may have.
	MaxMachines = 1024

	maxMachineName = 63
	maxLanguages   = 16
)
