package registry

import (
	"cmp"
	"fmt"
	"time"
)

// LeaseConfig says how long a node may serve without hearing from the leader, and how long
// its sessions are kept for it afterwards. Only durations are compared, never the wall
// clocks of two machines.
type LeaseConfig struct {
	// TTL is how long a renewal lasts, counted by the node from before it sent it.
	// 0 means 6 s.
	TTL time.Duration `json:"ttl_ns"`
	// Grace is how long a node whose lease has run out stays unreachable before it
	// expires and its sessions are lost. 0 means 4 s.
	Grace time.Duration `json:"grace_ns"`
	// Margin is how long before the end of its lease a node stops serving. It is the
	// time in which running code has to be frozen. 0 means a sixth of TTL.
	Margin time.Duration `json:"margin_ns"`
	// HoldFor is how long the leader waits before it expires nodes when at least half of
	// them vanish at once, because then the fault is more likely its own. 0 means 60 s.
	HoldFor time.Duration `json:"hold_ns"`
}

// FastLease is for nodes on one quiet network: a dead node is unreachable after 1.65 s, and
// its sessions are lost after 2.65 s.
func FastLease() LeaseConfig {
	return LeaseConfig{TTL: 1500 * time.Millisecond, Grace: time.Second, Margin: 300 * time.Millisecond, HoldFor: 30 * time.Second}
}

// bounded reports whether l is the zero value or a result of validate.
func (l LeaseConfig) bounded() bool {
	whole, err := l.validate()
	return err == nil && (l == LeaseConfig{} || l == whole)
}

// LeaseConfig returns the lease settings of the mesh, which are those of the node that
// founded it. Until this node has read them from the log, it returns its own.
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

// renewEvery is the interval between renewals, retryEvery that after a failed renewal.
func (l LeaseConfig) renewEvery() time.Duration { return l.TTL / 4 }
func (l LeaseConfig) retryEvery() time.Duration { return l.TTL / 12 }

// repeatAfter is how long a renewal may be without an answer before another one is sent.
func (l LeaseConfig) repeatAfter() time.Duration { return l.TTL / 6 }

// confirmWithin is how long a renewal may wait for heartbeats to confirm the leader.
func (l LeaseConfig) confirmWithin() time.Duration { return l.TTL / 6 }

// checkEvery is the longest interval at which the leader checks the leases.
func (l LeaseConfig) checkEvery() time.Duration { return l.TTL / 8 }

// silenceLimit is the silence after which the leader may take a lease to have ended, even
// if the node's clock runs up to a tenth slower than its own.
func (l LeaseConfig) silenceLimit() time.Duration { return l.TTL + l.TTL/10 }
