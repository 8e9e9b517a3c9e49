package node

import (
	"github.com/locusrun/locus/node/primitives"
	"github.com/locusrun/locus/node/primitives/mcpserver"
	"github.com/locusrun/locus/registry"
)

// serversOf gives the MCP servers of an actor, as this node runs or reaches them. None
// is started by that.
func (n *Node) serversOf(view registry.View, actor string) []*mcpserver.Server {
	if n.servers == nil {
		return nil
	}
	var configs []mcpserver.Config
	if a, ok := view.Actor(actor); ok && !a.Ended() {
		for _, s := range view.Servers(actor) {
			configs = append(configs, mcpserver.Config{
				Name: s.Name, Command: s.Command, Env: s.Env, URL: s.URL, Headers: s.Headers, Allow: s.Allow,
			})
		}
	}
	return n.servers.Of(actor, configs)
}

// tendServers ends the servers here that are no longer configured, or were changed,
// and those of actors that have ended.
func (n *Node) tendServers(view registry.View) {
	if n.servers == nil {
		return
	}
	for _, actor := range n.servers.Actors() {
		n.serversOf(view, actor)
	}
}

// providersOf gives the servers by their namespaces.
func providersOf(servers []*mcpserver.Server) map[string]primitives.Provider {
	all := make(map[string]primitives.Provider, len(servers))
	for _, s := range servers {
		all[s.Name()] = s
	}
	return all
}
