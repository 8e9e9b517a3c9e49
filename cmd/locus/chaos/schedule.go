package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is a way of breaking a mesh.
type Kind string

// The kinds of faults.
const (
	Kill    Kind = "kill"    // SIGKILL, and a new start
	Stop    Kind = "stop"    // SIGSTOP, and SIGCONT
	Restart Kind = "restart" // SIGTERM, which drains, and a new start
	Cut     Kind = "cut"     // no packet to or from the node
	Deaf    Kind = "deaf"    // no packet to the node
	Mute    Kind = "mute"    // no packet from the node
	Spoil   Kind = "spoil"   // all packets are late, and many are lost or doubled
)

// Kinds are all kinds of faults.
func Kinds() []Kind { return []Kind{Kill, Stop, Restart, Cut, Deaf, Mute, Spoil} }

// ParseKinds reads a list such as "kill,stop"; empty is all.
func ParseKinds(text string) ([]Kind, error) {
	if strings.TrimSpace(text) == "" {
		return Kinds(), nil
	}
	var list []Kind
	for _, word := range strings.Split(text, ",") {
		k := Kind(strings.TrimSpace(word))
		if !slices.Contains(Kinds(), k) {
			return nil, fmt.Errorf("%q is no kind of fault", k)
		}
		if !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	return list, nil
}

// Target says how the node that a fault hits is found.
type Target string

// The targets of faults.
const (
	Owner   Target = "owner"   // it owns the session that was drawn
	Leader  Target = "leader"  // it leads the registry
	Any     Target = "any"     // it was drawn
	Network Target = "network" // no node, but all packets
)

// plan is a fault that was drawn, before it is known whom it hits.
type plan struct {
	kind   Kind
	target Target
	draw   int           // which session's owner, or which node
	quiet  time.Duration // before it
	lasts  time.Duration
	settle bool // wait afterwards until the mesh is well
}

// schedule draws faults without end. The same seed draws the same ones.
type schedule struct {
	random *rand.Rand
	kinds  []Kind
	lost   time.Duration // after which silence sessions are lost
}

func newSchedule(seed uint64, kinds []Kind, fast bool) *schedule {
	s := &schedule{random: rand.New(rand.NewPCG(seed, 2)), kinds: kinds, lost: 10600 * time.Millisecond}
	if fast {
		s.lost = 2650 * time.Millisecond
	}
	return s
}

// longestStop is how much longer than promised a client waits, so that what answers late
// is told from what never does. It is more than twice as long as any fault lasts.
const longestStop = time.Minute

// next draws a fault. Some end in time for nothing to be lost, some do not.
func (s *schedule) next() plan {
	p := plan{
		kind:   s.kinds[s.random.IntN(len(s.kinds))],
		target: []Target{Owner, Owner, Leader, Any}[s.random.IntN(4)],
		draw:   s.random.IntN(1 << 16),
		quiet:  s.between(s.lost/8, s.lost/3),
		lasts:  s.between(s.lost/8, s.lost*3/2),
		settle: s.random.IntN(3) > 0,
	}
	if p.kind == Spoil {
		p.target = Network
	}
	return p
}

func (s *schedule) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}
