package mcpserver

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
)

// Pool holds the servers of all actors of a node. Its methods are safe for concurrent use.
type Pool struct {
	log *slog.Logger

	mu      sync.Mutex
	servers map[key]*Server
	closed  bool
	leaving sync.WaitGroup // servers being closed
}

type key struct{ actor, name string }

// NewPool makes an empty pool.
func NewPool(log *slog.Logger) *Pool {
	return &Pool{log: log, servers: map[key]*Server{}}
}

// Of returns the actor's servers, one for each configuration, in that order. Servers with
// an unchanged configuration are kept. Servers whose configuration changed or is gone are
// closed in the background. Of several configurations with one name the first counts. A
// closed pool returns none.
func (p *Pool) Of(actor string, configs []Config) []*Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	var servers []*Server
	wanted := map[key]bool{}
	for _, cfg := range configs {
		k := key{actor, cfg.Name}
		if wanted[k] {
			continue
		}
		wanted[k] = true
		if s := p.servers[k]; s != nil && !s.cfg.equal(cfg) {
			p.closeLater(k)
		}
		if p.servers[k] == nil {
			p.servers[k] = Open(cfg, p.log.With("actor", actor))
		}
		servers = append(servers, p.servers[k])
	}
	for k := range p.servers {
		if k.actor == actor && !wanted[k] {
			p.closeLater(k)
		}
	}
	return servers
}

// Actors lists the actors that have servers, each once.
func (p *Pool) Actors() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[string]bool{}
	for k := range p.servers {
		seen[k.actor] = true
	}
	return slices.Collect(maps.Keys(seen))
}

// closeLater closes a server in the background. p.mu is held.
func (p *Pool) closeLater(k key) {
	s := p.servers[k]
	delete(p.servers, k)
	p.leaving.Go(func() { _ = s.Close() }) // it only ever gives nil
}

// Close closes all servers and waits for them. It always returns nil.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	for k := range p.servers {
		p.closeLater(k)
	}
	p.mu.Unlock()
	p.leaving.Wait()
	return nil
}
