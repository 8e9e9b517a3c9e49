package cables

import "github.com/locusrun/locus/mesh/faultnet"

// Way says in which directions a node is cut off from all others.
type Way int

// The directions.
const (
	BothWays Way = iota
	InOnly       // the node receives nothing
	OutOnly      // the others receive nothing from the node
)

// String completes the sentence "cut off ...": "both ways", "inwards" or "outwards".
func (w Way) String() string { return [...]string{"both ways", "inwards", "outwards"}[w] }

// Isolate cuts off node i from all others, until Heal. Packets in flight still arrive.
func (c *Cables) Isolate(i int, w Way) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := 1; other <= len(c.proxies); other++ {
		if other == i {
			continue
		}
		if w != OutOnly {
			c.cut[[2]int{other, i}] = true
		}
		if w != InOnly {
			c.cut[[2]int{i, other}] = true
		}
	}
}

// Spoil applies the faults of link to every direction, until Heal.
func (c *Cables) Spoil(link faultnet.Link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = link
}

// Heal ends all faults.
func (c *Cables) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.cut)
	c.link = faultnet.Link{}
}
