package top

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// Snapshot is one reading of a mesh's state.
type Snapshot struct {
	At       time.Time             `json:"at"`
	Status   gateway.StatusInfo    `json:"status"`
	Nodes    []gateway.NodeInfo    `json:"nodes"`
	Sessions []gateway.SessionInfo `json:"sessions"`
	Limit    int                   `json:"session_limit"`
	Calls    []gateway.CallSummary `json:"executions"`
	Machines []gateway.MachineInfo `json:"machines"`
}

// Take reads everything from a node.
func Take(ctx context.Context, c *client.Client, now func() time.Time) (Snapshot, error) {
	s := Snapshot{At: now()}
	var err error
	if s.Status, err = c.Status(ctx); err != nil {
		return s, err
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return s, err
	}
	sessions, err := c.ListSessions(ctx)
	if err != nil {
		return s, err
	}
	calls, err := c.Executions(ctx, gateway.ExecutionQuery{Status: surfaces.StatusRunning})
	if err != nil {
		return s, err
	}
	machines, err := c.Machines(ctx, "")
	if err != nil {
		return s, err
	}
	s.Nodes, s.Sessions, s.Limit = nodes.Nodes, sessions.Sessions, sessions.Limit
	s.Calls, s.Machines = calls.Executions, machines.Machines
	return s, nil
}

// Order is the sort order of rows.
type Order string

// The orders: newest first, largest load first, by name.
const (
	ByTime Order = "time"
	ByLoad Order = "load"
	ByName Order = "name"
)

// Orders lists the orders as a key cycles through them.
func Orders() []Order { return []Order{ByTime, ByLoad, ByName} }

// next returns the order after this one.
func (o Order) next() Order {
	all := Orders()
	return all[(slices.Index(all, o)+1)%len(all)]
}

// Sort sorts the rows; ties are sorted by id.
func (s *Snapshot) Sort(by Order) {
	slices.SortFunc(s.Nodes, func(a, b gateway.NodeInfo) int {
		order := 0
		if by == ByLoad {
			order = cmp.Compare(b.Running+b.Sessions, a.Running+a.Sessions)
		}
		return cmp.Or(order, cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(s.Calls, func(a, b gateway.CallSummary) int {
		order := b.StartedAt.Compare(a.StartedAt)
		switch by {
		case ByLoad: // for calls: longest running first
			order = -order
		case ByName:
			order = cmp.Or(cmp.Compare(callSession(a), callSession(b)), order)
		}
		return cmp.Or(order, cmp.Compare(a.CallID, b.CallID))
	})
	slices.SortFunc(s.Sessions, func(a, b gateway.SessionInfo) int {
		order := b.LastUsedAt.Compare(a.LastUsedAt)
		switch by {
		case ByLoad:
			order = cmp.Compare(b.MemoryBytes, a.MemoryBytes)
		case ByName:
			order = cmp.Compare(sessionName(a), sessionName(b))
		}
		return cmp.Or(order, cmp.Compare(a.Language, b.Language), cmp.Compare(a.SessionID, b.SessionID))
	})
	slices.SortFunc(s.Machines, func(a, b gateway.MachineInfo) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
}
