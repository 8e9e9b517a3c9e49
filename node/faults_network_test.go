package node_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/locusrun/locus/mesh/faultnet"
	"github.com/locusrun/locus/node"
	"github.com/locusrun/locus/node/gateway"
)

// cables are UDP proxies, one in front of each node, that lose, delay and double
// packets and can be cut in one direction or both. Node i listens on an address that
// only its proxy uses, and advertises the proxy's: a packet for i leaves from the
// proxy of whoever sent it, so every node sees the others at their proxies.
type cables struct {
	t       testing.TB
	port    int
	subnet  int // the second byte of all addresses: 127.subnet.1.i nodes, 127.subnet.2.i proxies
	proxies map[int]*net.UDPConn
	work    sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
	cut    map[[2]int]bool
	link   faultnet.Link
}

// subnets keeps the networks of one process apart.
var subnets struct {
	sync.Mutex
	next int
}

func newCables(t testing.TB, nodes int, seed uint64) *cables {
	t.Helper()
	subnets.Lock()
	if subnets.next == 0 {
		subnets.next = 10 + rand.IntN(200)
	}
	subnets.next++
	c := &cables{
		t: t, port: 7071, subnet: subnets.next % 256, proxies: map[int]*net.UDPConn{},
		random: rand.New(rand.NewPCG(seed, 1)), cut: map[[2]int]bool{},
	}
	subnets.Unlock()
	for i := 1; i <= nodes; i++ {
		conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(c.public(i)))
		if err != nil {
			t.Fatal(err)
		}
		c.proxies[i] = conn
	}
	for i := range c.proxies {
		c.work.Go(func() { c.serve(i) })
	}
	t.Cleanup(func() {
		for _, conn := range c.proxies {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
		c.work.Wait()
	})
	return c
}

func (c *cables) at(part, i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(c.subnet), byte(part), byte(i)}), uint16(c.port))
}
func (c *cables) inner(i int) netip.AddrPort  { return c.at(1, i) }
func (c *cables) public(i int) netip.AddrPort { return c.at(2, i) }

// plug makes a node's configuration that of node i of this network.
func (c *cables) plug(i int) func(*node.Config) {
	return func(conf *node.Config) {
		conf.ListenAddr, conf.Advertise = c.inner(i).String(), c.public(i).String()
		conf.Labels = map[string]string{"cable": strconv.Itoa(i)}
	}
}

// serve carries what is sent to node i.
func (c *cables) serve(i int) {
	b := make([]byte, 1<<16)
	for {
		n, from, err := c.proxies[i].ReadFromUDPAddrPort(b)
		if err != nil {
			return // closed
		}
		sender := int(from.Addr().As4()[3])
		if from != c.inner(sender) || c.proxies[sender] == nil {
			continue // not one of ours
		}
		for _, delay := range c.fate(sender, i) {
			packet := append([]byte(nil), b[:n]...)
			if delay == 0 {
				c.carry(sender, i, packet)
				continue
			}
			c.work.Add(1)
			time.AfterFunc(delay, func() {
				defer c.work.Done()
				c.carry(sender, i, packet)
			})
		}
	}
}

// carry delivers a packet. One that cannot be is lost, as packets are.
func (c *cables) carry(from, to int, packet []byte) {
	_, _ = c.proxies[from].WriteToUDPAddrPort(packet, c.inner(to))
}

// fate gives the delays of a packet's copies; none when it is lost.
func (c *cables) fate(from, to int) []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut[[2]int{from, to}] || c.random.Float64() < c.link.Drop {
		return nil
	}
	delay := func() time.Duration {
		d := c.link.Delay
		if c.link.Jitter > 0 {
			d += time.Duration(c.random.Int64N(int64(c.link.Jitter)))
		}
		return d
	}
	if c.random.Float64() < c.link.Duplicate {
		return []time.Duration{delay(), delay()}
	}
	return []time.Duration{delay()}
}

// Which directions between a node and all others are cut.
type way int

const (
	bothWays way = iota
	inOnly
	outOnly
)

func (w way) String() string { return [...]string{"both ways", "inwards", "outwards"}[w] }

// isolate cuts node i from all others.
func (c *cables) isolate(i int, w way) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.proxies {
		if other == i {
			continue
		}
		if w != outOnly {
			c.cut[[2]int{other, i}] = true
		}
		if w != inOnly {
			c.cut[[2]int{i, other}] = true
		}
	}
}

// spoil makes all directions as bad as a link.
func (c *cables) spoil(link faultnet.Link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = link
}

// heal mends everything.
func (c *cables) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.cut)
	c.link = faultnet.Link{}
}

// cabled starts nodes that are one mesh over cables. World i-1 is node i.
func cabled(t testing.TB, nodes int, seed uint64, change ...func(*node.Config)) ([]*world, *cables) {
	t.Helper()
	c := newCables(t, nodes, seed)
	change = append([]func(*node.Config){quick}, change...)
	all := []*world{start(t, t.TempDir(), append(change, c.plug(1))...)}
	for i := 2; i <= nodes; i++ {
		all = append(all, all[0].joined(t.TempDir(), append(change, c.plug(i))...))
	}
	voting(t, all)
	// Members that came one after the other on a busy machine may yet elect anew.
	eventually(t, "the mesh takes what is written", func() bool { return all[0].keep("settled", "1").Code == nil })
	var closed gateway.Closed
	if all[0].post("/v1/tools/close_session", args{"session_name": "settled"}, &closed); !closed.Closed {
		t.Fatal("not closed")
	}
	return all, c
}

// voting waits until as many nodes vote as should, and gives all worlds one actor.
func voting(t testing.TB, all []*world) {
	t.Helper()
	healthy(t, all)
	for _, w := range all[1:] {
		w.token = all[0].token
	}
}

// healthy waits until as many nodes vote as should.
func healthy(t testing.TB, all []*world) {
	t.Helper()
	want := min((len(all)-1)|1, 5)
	if len(all) < 3 {
		want = 1
	}
	for _, w := range all {
		eventually(t, fmt.Sprint(want, " nodes vote"), func() bool {
			voters := 0
			for _, n := range w.nodes() {
				if n.Voter && n.State == "up" {
					voters++
				}
			}
			return voters == want
		})
	}
}
