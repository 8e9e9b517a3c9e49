package registry

import (
	"cmp"
	"fmt"
	"time"
)

// LeaseConfig says how long a node may serve without being seen by the leader,
// and how long its sessions are held afterwards. Durations are as the clocks'
// rates measure them; nothing depends on what any clock shows.
type LeaseConfig struct {
	// TTL is how long one renewal is good for, counted by the node from before it
	// was sent. 0 means 6 s.
	TTL time.Duration `json:"ttl_ns"`
	// Grace is how long a node that missed its lease is only unreachable, before
	// its sessions are lost. 0 means 4 s.
	Grace time.Duration `json:"grace_ns"`
	// Margin is how long before the end of its lease a node stops; that is the time
	// which it has to freeze what runs. 0 means a sixth of TTL.
	Margin time.Duration `json:"margin_ns"`
	// HoldFor is how long the leader doubts itself, when at least half of the nodes
	// vanish at once, before it believes that they are gone. 0 means 60 s.
	HoldFor time.Duration `json:"hold_ns"`
}

// FastLease is for nodes on one quiet network: a dead node is noticed in 1.65 s
// and its sessions are lost after 2.65 s.
func FastLease() LeaseConfig {
	return LeaseConfig{TTL: 1500 * time.Millisecond, Grace: time.Second, Margin: 300 * time.Millisecond, HoldFor: 30 * time.Second}
}

// bounded holds for the zero value, and for what validate gives.
func (l LeaseConfig) bounded() bool {
	whole, err := l.validate()
	return err == nil && (l == LeaseConfig{} || l == whole)
}

// LeaseConfig gives the lease that the mesh goes by: the founder's. Until this node
// has heard of that, it is the node's own.
func (r *Registry) LeaseConfig() LeaseConfig {
	if c := r.View().tables().cluster(); c != nil && c.Lease != (LeaseConfig{}) {
		return c.Lease
	}
	return r.config.Lease
}

func (l LeaseConfig) validate() (LeaseConfig, error) {
	l.TTL = cmp.Or(l.TTL, 6*time.Second)
	l.Grace = cmp.Or(l.Grace, 4*time.Second)
	l.Margin = cmp.Or(l.Margin, l.TTL/6)
	l.HoldFor = cmp.Or(l.HoldFor, 60*time.Second)
	switch {
	case l.TTL < 100*time.Millisecond:
		return l, fmt.Errorf("registry: Config.Lease.TTL is %s, at least 100ms", l.TTL)
	case l.Grace < 0, l.HoldFor < 0:
		return l, fmt.Errorf("registry: Config.Lease.Grace and HoldFor cannot be negative")
	case l.Margin <= 0 || l.Margin > l.TTL/2:
		return l, fmt.Errorf("registry: Config.Lease.Margin is %s, want more than 0 and at most half of TTL", l.Margin)
	}
	return l, nil
}

// renewEvery is how often a node renews, and retryEvery how soon it tries again
// after a renewal that failed.
func (l LeaseConfig) renewEvery() time.Duration { return l.TTL / 4 }
func (l LeaseConfig) retryEvery() time.Duration { return l.TTL / 12 }

// lookEvery is how often the leader looks at the leases at least.
func (l LeaseConfig) lookEvery() time.Duration { return l.TTL / 8 }

// missed is after which silence the leader knows that a lease has ended, though
// the node's clock may run slower than the leader's by a tenth.
func (l LeaseConfig) missed() time.Duration { return l.TTL + l.TTL/10 }
