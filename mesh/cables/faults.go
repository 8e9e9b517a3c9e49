package cables

import "github.com/locusrun/locus/mesh/faultnet"

// Direction says in which directions a node is cut off from all others.
type Direction int

// The directions.
const (
	Both     Direction = iota
	Inbound            // the node receives nothing
	Outbound           // the others receive nothing from the node
)

// String completes the sentence "cut off ...": "both ways", "inwards" or "outwards".
func (w Direction) String() string { return [...]string{"both ways", "inwards", "outwards"}[w] }

// Isolate cuts off node i from all others, until Heal. Packets in flight still arrive.
func (c *Cables) Isolate(i int, w Direction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := 1; other <= len(c.proxies); other++ {
		if other == i {
			continue
		}
		if w != Outbound {
			c.cut[[2]int{other, i}] = true
		}
		if w != Inbound {
			c.cut[[2]int{i, other}] = true
		}
	}
}

// Degrade applies the faults of link to every direction, until Heal.
func (c *Cables) Degrade(link faultnet.Link) {
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
