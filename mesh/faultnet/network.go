package faultnet

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Link describes the quality of one direction between two hosts. The zero value is a
// perfect link without delay.
type Link struct {
	// Delay is that of each packet. A random time up to Jitter is added, which reorders
	// packets.
	Delay, Jitter time.Duration
	// Drop and Duplicate are probabilities from 0 to 1.
	Drop, Duplicate float64
	// MaxPacket is the size of the largest packet that passes, in bytes; 0 means no limit.
	// Larger packets are lost silently.
	MaxPacket int
}

// TooLarge reports whether a packet of that size is lost.
func (l Link) TooLarge(size int) bool { return l.MaxPacket > 0 && size > l.MaxPacket }

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
	Sent       int // by endpoints
	Delivered  int // into the queue of an endpoint, duplicates included
	Dropped    int // by chance, or because of their size
	Cut        int // by a partition or an isolated host
	Overflowed int // because the receiver's queue was full
	NoRoute    int // because no endpoint has the address
}

// New returns a network in which usual describes all links.
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

// SetLink sets the quality of the direction from one host to another.
func (n *Network) SetLink(from, to string, link Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[direction(from, to)] = link
}

// SetDefaultLink sets the quality of all links that were not set with SetLink.
func (n *Network) SetDefaultLink(link Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.usual = link
}

// Cut cuts both directions between two hosts. Packets in flight still arrive.
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

// Heal restores both directions between two hosts.
func (n *Network) Heal(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cut, direction(a, b))
	delete(n.cut, direction(b, a))
}

// Split partitions the network: it cuts every host of one side from every host of the
// other.
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

// HealAll undoes all cuts and isolation. Links keep their quality.
func (n *Network) HealAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	clear(n.isolated)
}

// Stats returns the counts so far.
func (n *Network) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stats
}

// send delivers a packet according to its link, or drops it.
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
		n.stats.NoRoute++
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
			n.stats.Overflowed++
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

// hostOf panics if host is not an IP address, because hosts are literals in tests.
func hostOf(host string) netip.Addr {
	if at, err := netip.ParseAddrPort(host); err == nil {
		return at.Addr().Unmap()
	}
	return netip.MustParseAddr(host).Unmap()
}

func plain(at netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}
