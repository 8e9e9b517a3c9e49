package registry

// initCluster gives a fresh mesh its identity and feature level. Only the first one has an
// effect.
type initCluster struct {
	Proposal `json:"-"`
	ID       string `json:"id"`
	// Level is the feature level at which the mesh starts.
	Level uint8 `json:"level"`
	// Lease holds the founder's settings, which then apply to every node.
	Lease LeaseConfig `json:"lease,omitzero"`
}

// initOutcome holds the identity of the mesh.
type initOutcome struct {
	ID      string `json:"id"`
	Created bool   `json:"created"`
}

func (initCluster) kind() kind { return kindInitCluster }

func (c initCluster) bounds() error {
	return checkBounds(isToken(c.ID, maxText), c.Level >= 1, c.Lease.bounded())
}

func (c initCluster) apply(t tables, m moment) any {
	if have := t.cluster(); have != nil {
		return initOutcome{ID: have.ID}
	}
	t.put(tableCluster, &cluster{ID: c.ID, Level: c.Level, Lease: c.Lease, CreatedAt: m.at})
	return initOutcome{ID: c.ID, Created: true}
}

// recoverMesh is proposed after a disaster recovery. The recovered log may lack committed
// entries, so all earlier incarnations and epochs are invalidated.
type recoverMesh struct {
	Proposal `json:"-"`
}

// recoverOutcome holds the number of this recovery, and how many sessions it lost.
type recoverOutcome struct {
	Recovery uint64 `json:"recovery"`
	Lost     int    `json:"lost"`
}

// lostLives is more incarnations than the missing part of the log can have issued.
const lostLives = 1 << 20

func (recoverMesh) kind() kind { return kindRecoverMesh }

func (recoverMesh) bounds() error { return nil }

func (recoverMesh) apply(t tables, m moment) any {
	out := recoverOutcome{}
	if t.cluster() == nil {
		return out
	}
	last := Incarnation(0)
	for _, n := range t.nodes() {
		last = max(last, n.Incarnation)
		out.Lost += t.loseAll(n.ID, LossMeshRecovered, m)
		over := *n
		over.State = NodeExpired
		t.put(tableNodes, &over)
	}
	t.endLives(last + lostLives)
	next := *t.cluster()
	next.Recovery++
	t.put(tableCluster, &next)
	out.Recovery = next.Recovery
	return out
}

// epoch is the epoch of a grant at this moment. After a recovery log indexes may be reused,
// so the number of recoveries is in the bits above them.
func (t tables) epoch(m moment) Epoch {
	if c := t.cluster(); c != nil {
		return Epoch(c.Recovery<<recoveryShift | m.index)
	}
	return Epoch(m.index)
}

// recoveryShift leaves room for 10^12 log entries and 8191 recoveries below 2^53, the limit
// up to which all JSON readers represent integers exactly.
const recoveryShift = 40
