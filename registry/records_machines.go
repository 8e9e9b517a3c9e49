package registry

import (
	"reflect"
	"slices"
)

// Machine is a linked machine, which dials out to the mesh and runs code for one actor: a
// person's own, or a managed one.
type Machine struct {
	// ID is the id in its certificate.
	ID string `json:"id"`
	// Name is unique among the actor's machines.
	Name  string `json:"name"`
	Actor string `json:"actor"`
	// Role is that of its join token, link or vm.
	Role string `json:"role"`
	MachineFacts
	// Hub is the node that holds its connection, and HubIncarnation that node's incarnation; empty
	// for none. It stays set if the node dies without saying so; see View.MachineConnected.
	Hub            NodeID      `json:"hub,omitempty"`
	HubIncarnation Incarnation `json:"hub_life,omitempty"`
	// SeenAt is when it last connected or disconnected.
	SeenAt   Timestamp `json:"seen_at"`
	LinkedAt Timestamp `json:"linked_at"`
}

// MachineFacts is what a machine reports about itself.
type MachineFacts struct {
	// OS and Arch are named as in Go, Version is that of the machine's release.
	OS        string   `json:"os,omitempty"`
	Arch      string   `json:"arch,omitempty"`
	Version   string   `json:"version,omitempty"`
	Languages []string `json:"languages,omitempty"`
	// Consent describes in a few words what its owner allows.
	Consent string `json:"consent,omitempty"`
}

// HasFacts reports whether the record has these facts.
func (m Machine) HasFacts(f MachineFacts) bool {
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
