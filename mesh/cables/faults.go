package cables

import "github.com/locusrun/locus/mesh/faultnet"

// Way says which directions between a node and all others are cut.
type Way int

// The three ways of being cut off.
const (
	BothWays Way = iota
	InOnly       // the node hears nobody
	OutOnly      // nobody hears the node
)

// String gives the way in words: cut off "both ways", "inwards", "outwards".
func (w Way) String() string { return [...]string{"both ways", "inwards", "outwards"}[w] }

// Isolate cuts node i from all others, until Heal. Packets on their way still arrive.
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

// Spoil makes all directions as bad as a link, until Heal.
func (c *Cables) Spoil(link faultnet.Link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = link
}

// Heal mends everything.
func (c *Cables) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.cut)
	c.link = faultnet.Link{}
}
