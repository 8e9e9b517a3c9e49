package registry

import (
	"maps"
	"slices"
)

// library is the part of the model with environments, functions and servers.
type library struct {
	venvs     map[int]Venv
	lastVenv  int
	functions map[string]Function
	servers   map[[2]string]PrimitiveServer
}

func newLibrary() library {
	return library{venvs: map[int]Venv{}, functions: map[string]Function{}, servers: map[[2]string]PrimitiveServer{}}
}

func (m *model) doLibrary(c command, at Timestamp) any {
	l := &m.rest.shelf
	switch c := c.(type) {
	case AddVenv:
		for id, v := range l.venvs {
			if v.Digest == c.Digest {
				return VenvOutcome{Result: VenvExists, ID: id}
			}
		}
		l.lastVenv++
		l.venvs[l.lastVenv] = Venv{ID: l.lastVenv, Name: c.Name, Text: c.Text, Digest: c.Digest, CreatedBy: c.CreatedBy, CreatedAt: at}
		return VenvOutcome{Result: VenvAdded, ID: l.lastVenv}
	case RemoveVenv:
		if _, ok := l.venvs[c.ID]; !ok {
			return VenvOutcome{Result: VenvNotFound}
		}
		kept := VenvOutcome{Result: VenvInUse, ID: c.ID}
		for k := range m.sessions {
			if k.Venv == c.ID {
				kept.Sessions++
			}
		}
		for _, f := range l.functions {
			if f.Venv == c.ID {
				kept.Functions++
			}
		}
		if kept.Sessions > 0 || kept.Functions > 0 {
			return kept
		}
		delete(l.venvs, c.ID)
		return VenvOutcome{Result: VenvRemoved, ID: c.ID}
	case RecordBuild:
		v, ok := l.venvs[c.ID]
		if !ok {
			return VenvOutcome{Result: VenvNotFound}
		}
		if len(v.Lock) == 0 && len(c.Lock) > 0 {
			v.Lock = c.Lock
		}
		nodes := map[NodeID]bool{c.Node: true}
		for _, n := range v.Built {
			nodes[n] = true
		}
		v.Built = slices.Sorted(maps.Keys(nodes))
		l.venvs[c.ID] = v
		return VenvOutcome{Result: BuildRecorded, ID: c.ID}
	case DropBuild:
		v, ok := l.venvs[c.ID]
		if !ok {
			return VenvOutcome{Result: VenvNotFound}
		}
		l.venvs[c.ID] = without(v, c.Node)
		return VenvOutcome{Result: BuildRecorded, ID: c.ID}
	case PutFunction:
		if _, ok := l.venvs[c.Venv]; !ok && c.Venv != 0 {
			return FunctionOutcome{Result: FunctionNoVenv}
		}
		f := Function{Name: c.Name, Source: c.Source, Venv: c.Venv, Entry: c.Entry, Digest: c.Digest, CreatedBy: c.CreatedBy, CreatedAt: at, UpdatedAt: at, Version: 1}
		result := FunctionStored
		if have, ok := l.functions[c.Name]; ok {
			f.Version, f.CreatedAt, f.CreatedBy = have.Version+1, have.CreatedAt, have.CreatedBy
			result = FunctionReplaced
		}
		l.functions[c.Name] = f
		return FunctionOutcome{Result: result, Version: f.Version}
	case RemoveFunction:
		f, ok := l.functions[c.Name]
		if !ok {
			return FunctionOutcome{Result: FunctionNotFound}
		}
		delete(l.functions, c.Name)
		return FunctionOutcome{Result: FunctionRemoved, Version: f.Version}
	case PutServer:
		if a, ok := m.actors[c.Actor]; !ok || a.EndedAt != 0 {
			return ServerOutcome{ServerNoActor}
		}
		k := [2]string{c.Actor, c.Name}
		_, there := l.servers[k]
		l.servers[k] = PrimitiveServer{Actor: c.Actor, Name: c.Name, Command: c.Command, CreatedAt: at}
		if there {
			return ServerOutcome{ServerReplaced}
		}
		return ServerOutcome{ServerStored}
	case RemoveServer:
		k := [2]string{c.Actor, c.Name}
		if _, ok := l.servers[k]; !ok {
			return ServerOutcome{ServerNotFound}
		}
		delete(l.servers, k)
		return ServerOutcome{ServerRemoved}
	}
	panic("the model does not know the command")
}

// without is an environment that a node has not built.
func without(v Venv, node NodeID) Venv {
	var left []NodeID
	for _, n := range v.Built {
		if n != node {
			left = append(left, n)
		}
	}
	v.Built = left
	return v
}
