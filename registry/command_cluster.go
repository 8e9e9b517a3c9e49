package registry

// initCluster gives a fresh mesh its identity and its feature level. The first
// one wins; all later ones find it done.
type initCluster struct {
	Proposal `json:"-"`
	ID       string `json:"id"`
	Level    uint8  `json:"level"`
	// Lease is the founder's, which every node goes by from then on.
	Lease LeaseConfig `json:"lease,omitzero"`
}

// initOutcome tells the identity that the mesh has now.
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

// recoverMesh follows a disaster recovery: what other nodes agreed on since may be
// gone, so no life and no epoch of before may count any more.
type recoverMesh struct {
	Proposal `json:"-"`
}

// recoverOutcome tells which recovery this is, and how many sessions it lost.
type recoverOutcome struct {
	Recovery uint64 `json:"recovery"`
	Lost     int    `json:"lost"`
}

// lostLives is more lives than the part of the log that is gone can have given out.
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

// epoch is what a grant at this moment is called. A recovery may have given away
// log indexes that were used before, so its count stands above them.
func (t tables) epoch(m moment) Epoch {
	if c := t.cluster(); c != nil {
		return Epoch(c.Recovery<<recoveryShift | m.index)
	}
	return Epoch(m.index)
}

// recoveryShift leaves room for 10^12 log entries and for 8191 recoveries below the
// largest number that JSON readers keep exactly.
const recoveryShift = 40
