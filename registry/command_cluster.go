package registry

// initCluster gives a fresh mesh its identity and its feature level. The first
// one wins; all later ones find it done.
type initCluster struct {
	Proposal `json:"-"`
	ID       string `json:"id"`
	Level    uint8  `json:"level"`
}

// initOutcome tells the identity that the mesh has now.
type initOutcome struct {
	ID      string `json:"id"`
	Created bool   `json:"created"`
}

func (initCluster) kind() kind { return kindInitCluster }

func (c initCluster) bounds() error {
	return within(isToken(c.ID, maxText), c.Level == level)
}

func (c initCluster) apply(t tables, m moment) any {
	if have := t.cluster(); have != nil {
		return initOutcome{ID: have.ID}
	}
	t.put(tableCluster, &cluster{ID: c.ID, Level: c.Level, CreatedAt: m.at})
	return initOutcome{ID: c.ID, Created: true}
}
