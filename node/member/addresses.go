package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/locusrun/locus/mesh"
)

// addresses holds the last known addresses of the nodes. They are also on disk, so that a
// restarted node finds the others. Its methods are safe for concurrent use.
type addresses struct {
	mu    sync.Mutex
	known map[string]string
}

// Locate returns the address of a node, "" if unknown.
func (a *addresses) Locate(id string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known[id]
}

// list returns all addresses.
func (a *addresses) list() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Values(a.known))
}

// only removes all nodes but the given ones.
func (a *addresses) only(nodes []mesh.NodeAddr) (forgot bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.known {
		if !slices.ContainsFunc(nodes, func(n mesh.NodeAddr) bool { return n.ID == id }) {
			delete(a.known, id)
			forgot = true
		}
	}
	return forgot
}

// set sets the address of a node and reports whether it is new.
func (a *addresses) set(id, addr string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if addr == "" || a.known[id] == addr {
		return false
	}
	a.known[id] = addr
	return true
}

func (m *Member) loadPeers() error {
	m.addresses.known = map[string]string{}
	b, err := os.ReadFile(m.path(peersFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("member: %w", err)
	}
	var nodes []mesh.NodeAddr
	if err := json.Unmarshal(b, &nodes); err != nil {
		return fmt.Errorf("member: %s: %w", m.path(peersFile), err)
	}
	for _, n := range nodes {
		m.addresses.set(n.ID, n.Addr)
	}
	return nil
}

func (m *Member) savePeers() error {
	b, err := json.Marshal(m.Nodes())
	if err != nil {
		return fmt.Errorf("member: %w", err)
	}
	return m.write(peersFile, b)
}

// Nodes lists the known nodes with their addresses, including this one.
func (m *Member) Nodes() []mesh.NodeAddr {
	m.addresses.mu.Lock()
	defer m.addresses.mu.Unlock()
	var nodes []mesh.NodeAddr
	for _, id := range slices.Sorted(maps.Keys(m.addresses.known)) {
		nodes = append(nodes, mesh.NodeAddr{ID: id, Addr: m.addresses.known[id]})
	}
	return nodes
}
