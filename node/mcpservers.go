package node

import (
	"github.com/locusrun/locus/node/primitives"
	"github.com/locusrun/locus/node/primitives/mcpserver"
	"github.com/locusrun/locus/registry"
)

// serversOf returns the MCP servers of an actor. It does not start them.
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

// reconcileServers closes the servers whose configuration was changed or removed, and those of
// actors that have ended.
func (n *Node) reconcileServers(view registry.View) {
	if n.servers == nil {
		return
	}
	for _, actor := range n.servers.Actors() {
		n.serversOf(view, actor)
	}
}

// providersOf returns the servers by namespace.
func providersOf(servers []*mcpserver.Server) map[string]primitives.Provider {
	all := make(map[string]primitives.Provider, len(servers))
	for _, s := range servers {
		all[s.Name()] = s
	}
	return all
}
