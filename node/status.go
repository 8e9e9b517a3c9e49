package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// Status returns the state of the node.
func (n *Node) Status(_ context.Context, who gateway.Caller) gateway.StatusInfo {
	view := n.registry.View()
	leader := n.registry.Leader()
	running, total := n.calls.Counts()
	s := gateway.StatusInfo{
		Node: string(n.id), Cluster: view.ClusterID(), Version: n.cfg.Version, StartedAt: n.started,
		HTTP: n.http, Listen: n.advertise, Nodes: len(view.Nodes()), Leader: string(leader),
		Sessions: map[string]int{}, Running: running, CallsTotal: total, MemoryBytes: residentMemory(),
		Enforced: map[string]string{}, Actor: who.Actor, Operator: who.Operator,
	}
	pressure, memory := n.memory.status()
	s.MemoryPressure, s.MemoryAvailableBytes = pressure.String(), memory.Available
	for _, l := range n.runtimes.languages() {
		s.Languages = append(s.Languages, string(l))
	}
	for _, sess := range view.Sessions() {
		s.Sessions[string(sess.State)]++
	}
	if who.Operator {
		s.DataDir, s.Audit = n.cfg.DataDir, n.auditStatus()
	}
	if e := n.runtimes.enforced(DefaultActor); e != nil {
		s.Enforced = flatten(e)
	}
	n.mu.Lock()
	s.Draining = n.draining
	n.mu.Unlock()
	return s
}

// flatten returns the fields of a struct as texts under their JSON names.
func flatten(v any) map[string]string {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil
	}
	texts := make(map[string]string, len(fields))
	for k, v := range fields {
		texts[k] = fmt.Sprint(v)
	}
	return texts
}

// Nodes lists the nodes of the mesh.
func (n *Node) Nodes(context.Context) []gateway.NodeInfo {
	view := n.registry.View()
	voters := map[registry.NodeID]bool{}
	leader := registry.NodeID("")
	for _, m := range n.registry.Members() {
		voters[m.ID] = m.Voter
		if m.Leader {
			leader = m.ID
		}
	}
	loads := n.registry.Loads()
	var list []gateway.NodeInfo
	for _, node := range view.Nodes() {
		list = append(list, gateway.NodeInfo{
			ID: string(node.ID), Addr: node.Addr, HTTP: node.HTTP, State: string(node.State), Incarnation: uint64(node.Incarnation),
			Labels: node.Labels, Voter: voters[node.ID], Leader: node.ID == leader, Draining: node.Draining,
			Sessions: view.CountServed(node.ID), Running: loads[node.ID].Running, Languages: node.Languages,
			MemoryBytes: loads[node.ID].MemoryBytes, MemoryShort: loads[node.ID].NoSessions || loads[node.ID].NoCalls,
			Version: node.Version, RegisteredAt: node.RegisteredAt.Time(),
		})
	}
	return list
}

// Events returns the stream of the mesh's events.
func (n *Node) Events(who gateway.Caller, after gateway.Cursor) (gateway.Stream[gateway.MeshEvent], error) {
	if err := requireOperator(who); err != nil {
		return nil, err
	}
	return func(ctx context.Context, emit func(gateway.MeshEvent) error) error {
		return n.followAll(ctx, after, emit)
	}, nil
}

// Live reports whether the registry works.
func (n *Node) Live(context.Context) error { return n.registry.Health() }

// readyLimit bounds the program that Ready runs.
const readyLimit = 5 * time.Second

// Ready checks everything that a call needs, and runs a real program in a kernel.
func (n *Node) Ready(ctx context.Context) error {
	if err := n.Live(ctx); err != nil {
		return err
	}
	if n.registry.Leader() == "" {
		return errors.New("the registry has no leader")
	}
	if !n.mayServe() {
		return errors.New("this node is cut off from the mesh and may not serve sessions")
	}
	if s := n.audit.State(); s.Failing != nil {
		return fmt.Errorf("the audit log cannot be written: %w", s.Failing)
	}
	languages := n.runtimes.languages()
	if len(languages) == 0 {
		return errors.New("this machine has no language to run code in")
	}
	call := surfaces.Call{Actor: DefaultActor, Request: surfaces.Request{
		Code: "0", Language: languages[0], StateMode: surfaces.Stateless, Surface: surfaces.Local, Timeout: readyLimit, OnLoss: surfaces.ReportLoss,
	}}
	if languages[0].IsShell() {
		call.Code = ":"
	}
	out := n.engine.Execute(ctx, surfaces.Attempt{Call: call, CallID: newSecret("probe-"), Actor: DefaultActor, Number: 1})
	if out.Result.Error != nil {
		return errors.New("a program could not be run: " + *out.Result.Error)
	}
	return nil
}
