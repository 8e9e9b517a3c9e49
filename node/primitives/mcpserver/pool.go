package mcpserver

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
)

// Pool holds the servers of all actors on a node. Its methods may be called at the
// same time.
type Pool struct {
	log *slog.Logger

	mu      sync.Mutex
	servers map[key]*Server
	closed  bool
	leaving sync.WaitGroup // servers that are being closed
}

type key struct{ actor, name string }

// NewPool makes an empty pool.
func NewPool(log *slog.Logger) *Pool {
	return &Pool{log: log, servers: map[key]*Server{}}
}

// Of gives the servers of an actor, one for each configuration and in their order.
// One whose configuration is the same as before stays as it is. Those of the actor
// that were changed or are no longer configured are closed, without waiting for it.
// Of several configurations of one name the first counts. A closed pool has none.
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
			p.leave(k)
		}
		if p.servers[k] == nil {
			p.servers[k] = Open(cfg, p.log.With("actor", actor))
		}
		servers = append(servers, p.servers[k])
	}
	for k := range p.servers {
		if k.actor == actor && !wanted[k] {
			p.leave(k)
		}
	}
	return servers
}

// Actors lists those that have servers here, each once.
func (p *Pool) Actors() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[string]bool{}
	for k := range p.servers {
		seen[k.actor] = true
	}
	return slices.Collect(maps.Keys(seen))
}

// leave closes a server in its own time. The caller holds mu.
func (p *Pool) leave(k key) {
	s := p.servers[k]
	delete(p.servers, k)
	p.leaving.Go(func() { _ = s.Close() }) // it only ever gives nil
}

// Close ends all servers and waits for it.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	for k := range p.servers {
		p.leave(k)
	}
	p.mu.Unlock()
	p.leaving.Wait()
	return nil
}
