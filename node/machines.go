package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/locusrun/locus/agentlink"
	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// newLink makes this node's hub for linked machines.
func (n *Node) newLink() *agentlink.Hub {
	return agentlink.NewHub(agentlink.HubConfig{
		Node: string(n.id), Mesh: func() *mesh.Mesh { return n.mesh }, Directory: machines{n}, AwaitReady: n.awaitRegistry, Log: n.cfg.Log,
		LateResult: func(callID string, res surfaces.Result) bool {
			r := n.calls.Find(callID)
			if r == nil {
				return false
			}
			res = withUsage(r.Ledger(), res)
			return r.Amend(res, func() { n.noteOutcome(audit.CallAmended, r, res) })
		},
		OnEvent: func(kind string, m agentlink.Machine) {
			n.events.publish(kind, map[string]any{"machine": m.Name, "id": m.ID, "actor": m.Actor, "surface": m.Place})
		},
	})
}

// machines is the agentlink.Directory on top of the registry.
type machines struct{ *Node }

var _ agentlink.Directory = machines{}

// Known returns the machine of an identity.
func (d machines) Known(ctx context.Context, id certs.Identity) (agentlink.Machine, bool, error) {
	m, ok := d.registry.View().Machine(id.ID)
	if !ok {
		view, err := d.registry.Fresh(ctx)
		if err != nil {
			return agentlink.Machine{}, false, err
		}
		m, ok = view.Machine(id.ID)
	}
	return d.machine(d.registry.View(), m), ok && m.Role == string(id.Role), nil
}

func (n *Node) machine(view registry.View, m registry.Machine) agentlink.Machine {
	known := agentlink.Machine{ID: m.ID, Name: m.Name, Actor: m.Actor, Place: placeOf(m), Languages: m.Languages, SeenAt: m.SeenAt.Time()}
	if view.MachineConnected(m) {
		known.Node = string(m.Hub)
	}
	return known
}

// placeOf returns the kind of surface that a machine is.
func placeOf(m registry.Machine) surfaces.Place {
	if m.Role == string(certs.RoleVM) {
		return surfaces.AssistantVM
	}
	return surfaces.UserMachine
}

// languagesOf returns the languages of a machine.
func languagesOf(m registry.Machine) []surfaces.Language {
	list := make([]surfaces.Language, len(m.Languages))
	for i, l := range m.Languages {
		list[i] = surfaces.Language(l)
	}
	return list
}

// Find returns an actor's machine by name.
func (d machines) Find(actor string, place surfaces.Place, name string) (agentlink.Machine, bool) {
	view := d.registry.View()
	for _, m := range view.MachinesOf(actor) {
		if m.Name == name && placeOf(m) == place {
			return d.machine(view, m), true
		}
	}
	return agentlink.Machine{}, false
}

// Sync makes the local view current.
func (d machines) Sync(ctx context.Context) error {
	_, err := d.registry.Fresh(ctx)
	return err
}

// Changed returns a channel that is closed when the view changes.
func (d machines) Changed() <-chan struct{} { return d.registry.View().Changed() }

// Connected records that this node has a machine's connection. It writes to the registry only if
// that is new.
func (d machines) Connected(ctx context.Context, id string, facts agentlink.Facts) error {
	said := registry.MachineFacts{OS: facts.OS, Arch: facts.Arch, Version: facts.Version, Languages: facts.Languages, Consent: facts.Consent}
	view := d.registry.View()
	if m, ok := view.Machine(id); ok && m.Hub == d.id && m.HubIncarnation == d.life() && m.HasFacts(said) {
		return nil
	}
	out, err := d.registry.ConnectMachine(ctx, registry.ConnectMachine{ID: id, Hub: d.id, HubIncarnation: d.life(), Facts: said})
	switch {
	case err != nil:
		return err
	case out.Result == registry.MachineStale:
		return errors.New("this node may hold nothing at the moment")
	}
	return nil
}

// Disconnected records that this node no longer has a machine's connection.
func (d machines) Disconnected(ctx context.Context, id string) error {
	m, ok := d.registry.View().Machine(id)
	if ok && m.Hub != "" && (m.Hub != d.id || m.HubIncarnation != d.life()) {
		return nil // another node holds it
	}
	_, err := d.registry.DisconnectMachine(ctx, registry.DisconnectMachine{ID: id, Hub: d.id, HubIncarnation: d.life()})
	return err
}

// Unlink removes a machine at its own request.
func (d machines) Unlink(ctx context.Context, id certs.Identity) error {
	m, _ := d.registry.View().Machine(id.ID)
	_, err := d.unlink(ctx, id)
	d.note(actionEntry(audit.MachineUnlinked, m.Actor, id.ID, err, "machine", m.Name, "by", "the machine"))
	return err
}

func (n *Node) unlink(ctx context.Context, id certs.Identity) (registry.MachineOutcome, error) {
	return n.registry.UnlinkMachine(ctx, registry.UnlinkMachine{
		ID: id.ID, URI: id.String(), Until: registry.At(time.Now().Add(2 * certs.DefaultLifetime)),
	})
}

// Renew certifies a new key of a machine.
func (d machines) Renew(ctx context.Context, id certs.Identity, spki []byte) ([][]byte, certs.Trust, error) {
	return d.member.RenewMachine(ctx, id, spki)
}

// Nodes lists the addresses of the nodes.
func (d machines) Nodes() []mesh.NodeAddr { return d.member.Nodes() }

// Elsewhere lists the addresses of the other nodes that are up and not draining.
func (d machines) Elsewhere() []mesh.NodeAddr {
	view := d.registry.View()
	return slices.DeleteFunc(d.Nodes(), func(a mesh.NodeAddr) bool {
		o, ok := view.Node(registry.NodeID(a.ID))
		return !ok || o.ID == d.id || o.State != registry.NodeUp || o.Draining || a.Addr == ""
	})
}

// Gone reports whether a node is no longer in the mesh.
func (d machines) Gone(node string) bool {
	_, ok := d.registry.View().Node(registry.NodeID(node))
	return !ok
}

// connected reports whether a machine is connected, as far as this node knows.
func (n *Node) connected(view registry.View, m registry.Machine) bool {
	return view.MachineConnected(m) || n.link.Has(m.ID)
}

// reconcileMachines cuts off machines that are no longer linked. Those that the registry no
// longer knows to be connected here, because this node has a new life, are recorded again. While
// this node is drained, its machines are sent to other nodes.
func (n *Node) reconcileMachines(view registry.View) {
	self, _ := view.Node(n.id)
	n.link.Redirect(self.Draining && len(machines{n}.Elsewhere()) > 0)
	for _, id := range n.link.Expected() {
		if m, ok := view.Machine(id); !ok || view.MachineConnected(m) && m.Hub != n.id {
			n.link.Moved(id)
		}
	}
	for _, id := range n.link.Connected() {
		switch m, ok := view.Machine(id); {
		case !ok:
			n.link.Disconnect(id)
		case m.Hub == "" || m.Hub == n.id && m.HubIncarnation != n.life():
			n.link.Report(id)
		}
	}
}

// steerMachine steers a call that runs on a machine; only stopping is possible.
func (e *execution) steerMachine(action string) (json.RawMessage, error) {
	if action != "stop" {
		return nil, &surfaces.Refusal{
			Code:       surfaces.CodeInvalidArgument,
			Message:    fmt.Sprintf("cannot %s call %s: it runs on a linked machine, where a call can only be stopped", action, e.Record.ID),
			Suggestion: "Stop the call, or run such code with surface local.",
		}
	}
	e.node.link.Stop(e.Record.ID)
	return json.Marshal(map[string]any{"call_id": e.Record.ID, "action": action, "done": true})
}

// Machines lists the caller's machines; for operators those of an actor, or all.
func (n *Node) Machines(ctx context.Context, who gateway.Caller, actor string) ([]gateway.MachineInfo, error) {
	if actor != "" && actor != who.Actor {
		if err := requireOperator(who); err != nil {
			return nil, err
		}
	}
	n.refresh(ctx) // the view may be behind
	view := n.registry.View()
	var list []gateway.MachineInfo
	for _, m := range view.Machines() {
		if m.Actor == actor || actor == "" && (who.Operator || m.Actor == who.Actor) {
			list = append(list, n.machineInfo(view, m))
		}
	}
	return list, nil
}

func (n *Node) machineInfo(view registry.View, m registry.Machine) gateway.MachineInfo {
	info := gateway.MachineInfo{
		ID: m.ID, Name: m.Name, Actor: m.Actor, Surface: placeOf(m), State: gateway.MachineAway, OS: m.OS, Arch: m.Arch, Version: m.Version,
		Languages: m.Languages, Consent: m.Consent, LinkedAt: m.LinkedAt.Time(), LastSeenAt: m.SeenAt.Time(),
	}
	if info.Languages == nil {
		info.Languages = []string{}
	}
	if view.MachineConnected(m) {
		info.State, info.Node, info.LastSeenAt = gateway.MachineConnected, string(m.Hub), time.Now().UTC()
	}
	return info
}

// UnlinkMachine removes a machine: one of the caller's own, by name or id, or for operators
// any machine, by id.
func (n *Node) UnlinkMachine(ctx context.Context, who gateway.Caller, name string) (gateway.MachineInfo, error) {
	look := func(view registry.View, name string) (registry.Machine, bool) {
		if m, ok := view.Machine(name); ok && (who.Operator || m.Actor == who.Actor) {
			return m, true
		}
		for _, m := range view.MachinesOf(who.Actor) {
			if m.Name == name {
				return m, true
			}
		}
		return registry.Machine{}, false
	}
	m, ok := lookup(ctx, n, look, name)
	if !ok {
		return gateway.MachineInfo{}, notFound("machine", name)
	}
	info := n.machineInfo(n.registry.View(), m)
	out, err := n.unlink(ctx, certs.Identity{Cluster: n.member.Cluster(), Role: certs.Role(m.Role), ID: m.ID})
	switch {
	case err != nil:
		return gateway.MachineInfo{}, n.fault(err)
	case out.Result == registry.MachineUnknown:
		return gateway.MachineInfo{}, notFound("machine", name)
	}
	n.link.Disconnect(m.ID)
	n.events.publish("machine_unlinked", map[string]any{"machine": m.Name, "id": m.ID, "actor": m.Actor, "surface": placeOf(m)})
	info.State, info.Node = gateway.MachineUnlinked, ""
	return info, nil
}
