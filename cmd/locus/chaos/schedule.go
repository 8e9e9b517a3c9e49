package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults.
const (
	Kill    Kind = "kill"    // SIGKILL, then a restart
	Stop    Kind = "stop"    // SIGSTOP, then SIGCONT
	Restart Kind = "restart" // SIGTERM, which drains, then a restart
	Cut     Kind = "cut"     // no packets to or from the node
	Deaf    Kind = "deaf"    // no packets to the node
	Mute    Kind = "mute"    // no packets from the node
	Spoil   Kind = "spoil"   // all packets are delayed, many lost or duplicated
)

// Kinds lists all kinds of faults.
func Kinds() []Kind { return []Kind{Kill, Stop, Restart, Cut, Deaf, Mute, Spoil} }

// ParseKinds parses a list such as "kill,stop"; empty is all kinds.
func ParseKinds(text string) ([]Kind, error) {
	if strings.TrimSpace(text) == "" {
		return Kinds(), nil
	}
	var list []Kind
	for _, word := range strings.Split(text, ",") {
		k := Kind(strings.TrimSpace(word))
		if !slices.Contains(Kinds(), k) {
			return nil, fmt.Errorf("there is no kind of fault %q", k)
		}
		if !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	return list, nil
}

// Target is how a fault's node is chosen.
type Target string

// The targets of faults.
const (
	Owner   Target = "owner"   // the owner of a drawn session
	Leader  Target = "leader"  // the leader of the registry
	Any     Target = "any"     // a drawn node
	Network Target = "network" // no node: all packets
)

// plan is a drawn fault, before its node is known.
type plan struct {
	kind   Kind
	target Target
	draw   int           // selects the session or the node
	quiet  time.Duration // pause before the fault
	lasts  time.Duration
	settle bool // afterwards wait until the mesh is whole
}

// schedule draws an endless sequence of faults, determined by the seed.
type schedule struct {
	random *rand.Rand
	kinds  []Kind
	lost   time.Duration // an outage of this length loses sessions
}

func newSchedule(seed uint64, kinds []Kind, fast bool) *schedule {
	s := &schedule{random: rand.New(rand.NewPCG(seed, 2)), kinds: kinds, lost: 10600 * time.Millisecond}
	if fast {
		s.lost = 2650 * time.Millisecond
	}
	return s
}

// longestStop is how much longer than promised a client waits, to tell late answers from
// missing ones. It is more than twice the longest fault.
const longestStop = time.Minute

// next draws a fault. Some end before sessions would be lost, some later.
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
