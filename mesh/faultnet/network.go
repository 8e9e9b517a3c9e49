package faultnet

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Link is how packets fare from one host to another. The zero value is a perfect
// network without delay.
type Link struct {
	// Delay of each packet, and a random part on top, which reorders packets.
	Delay, Jitter time.Duration
	// Drop and Duplicate are probabilities from 0 to 1.
	Drop, Duplicate float64
	// Largest is how many bytes a packet may have at most: a larger one is lost, and nobody is
	// told. 0 is any number.
	Largest int
}

// TooLarge reports whether a packet of so many bytes is lost for its size.
func (l Link) TooLarge(size int) bool { return l.Largest > 0 && size > l.Largest }

// Network connects endpoints. Hosts are IP addresses; a host can have many endpoints.
// Safe for concurrent use.
type Network struct {
	mu        sync.Mutex
	random    *rand.Rand
	usual     Link
	links     map[pair]Link
	cut       map[pair]bool
	isolated  map[netip.Addr]bool
	endpoints map[netip.AddrPort]*Endpoint
	sequence  uint64
	stats     Stats
}

// pair is one direction between two hosts.
type pair struct{ from, to netip.Addr }

// Stats counts packets.
type Stats struct {
	Sent      int // by endpoints
	Delivered int // put into the queue of an endpoint, copies too
	Dropped   int // by chance, or for their size
	Cut       int // by a cut cable or an isolated host
	Overflown int // since the queue of the receiver was full
	Nowhere   int // since nobody has the address
}

// New makes a network whose links are all like usual.
func New(seed uint64, usual Link) *Network {
	return &Network{
		random: rand.New(rand.NewPCG(seed, seed)), usual: usual,
		links: map[pair]Link{}, cut: map[pair]bool{}, isolated: map[netip.Addr]bool{},
		endpoints: map[netip.AddrPort]*Endpoint{},
	}
}

// Listen opens an endpoint at "ip:port". After its Close the address is free again.
func (n *Network) Listen(addr string) (*Endpoint, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("faultnet: %w", err)
	}
	at = plain(at)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.endpoints[at] != nil {
		return nil, fmt.Errorf("faultnet: %s is in use", at)
	}
	e := newEndpoint(n, at)
	n.endpoints[at] = e
	return e, nil
}

// SetLink makes the direction from one host to another unlike the usual.
func (n *Network) SetLink(from, to string, link Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[direction(from, to)] = link
}

// SetUsual changes all links that SetLink has not made special.
func (n *Network) SetUsual(link Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.usual = link
}

// Cut cuts both directions between two hosts. Packets on their way still arrive.
func (n *Network) Cut(a, b string) {
	n.CutOneWay(a, b)
	n.CutOneWay(b, a)
}

// CutOneWay cuts one direction.
func (n *Network) CutOneWay(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[direction(from, to)] = true
}

// Heal mends both directions between two hosts.
func (n *Network) Heal(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cut, direction(a, b))
	delete(n.cut, direction(b, a))
}

// Split cuts each of the hosts of one side from each of the other side's.
func (n *Network) Split(one, other []string) {
	for _, a := range one {
		for _, b := range other {
			n.Cut(a, b)
		}
	}
}

// Isolate cuts a host from all others, until Rejoin or HealAll.
func (n *Network) Isolate(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isolated[hostOf(host)] = true
}

// Rejoin ends an Isolate.
func (n *Network) Rejoin(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.isolated, hostOf(host))
}

// HealAll mends all cables and ends all isolation. Links keep their qualities.
func (n *Network) HealAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	clear(n.isolated)
}

// Stats gives the counts so far.
func (n *Network) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stats
}

// send delivers a packet, or not.
func (n *Network) send(from, to netip.AddrPort, data []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stats.Sent++
	way := pair{from.Addr(), to.Addr()}
	if n.cut[way] || way.from != way.to && (n.isolated[way.from] || n.isolated[way.to]) {
		n.stats.Cut++
		return
	}
	link, special := n.links[way]
	if !special {
		link = n.usual
	}
	if link.TooLarge(len(data)) || n.chance(link.Drop) {
		n.stats.Dropped++
		return
	}
	receiver := n.endpoints[to]
	if receiver == nil {
		n.stats.Nowhere++
		return
	}
	copies := 1
	if n.chance(link.Duplicate) {
		copies = 2
	}
	for range copies {
		due := time.Now().Add(link.Delay)
		if link.Jitter > 0 {
			due = due.Add(time.Duration(n.random.Int64N(int64(link.Jitter))))
		}
		n.sequence++
		if receiver.take(packet{due, n.sequence, net.UDPAddrFromAddrPort(from), append([]byte(nil), data...)}) {
			n.stats.Delivered++
		} else {
			n.stats.Overflown++
		}
	}
}

func (n *Network) chance(p float64) bool { return p > 0 && n.random.Float64() < p }

func (n *Network) remove(e *Endpoint) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.endpoints[e.at] == e {
		delete(n.endpoints, e.at)
	}
}

func direction(from, to string) pair { return pair{hostOf(from), hostOf(to)} }

// hostOf panics on what is no IP address, for it stands in a test's text.
func hostOf(host string) netip.Addr {
	if at, err := netip.ParseAddrPort(host); err == nil {
		return at.Addr().Unmap()
	}
	return netip.MustParseAddr(host).Unmap()
}

func plain(at netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}
