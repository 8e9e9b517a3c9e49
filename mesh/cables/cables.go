package cables

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/locusrun/locus/mesh/faultnet"
)

const (
	// MaxNodes is the largest number of nodes.
	MaxNodes = 250
	// packetSize is the size of the largest UDP packet.
	packetSize = 1 << 16
	// maxDelayed bounds the delayed packets in flight; further ones are dropped.
	maxDelayed = 1 << 14
	// tries is how many loopback networks New tries until it finds a free one.
	tries = 64
)

// Cables are the proxies of one mesh. Nodes are numbered from 1. Safe for concurrent use.
type Cables struct {
	port    uint16
	subnet  byte // the second byte of all addresses: 127.subnet.1.i nodes, 127.subnet.2.i proxies
	proxies []*net.UDPConn
	work    sync.WaitGroup
	late    atomic.Int64

	mu     sync.Mutex
	random *rand.Rand
	cut    map[[2]int]bool
	link   faultnet.Link
}

// New starts the proxies for a number of nodes, on a loopback network that is not in use.
// Without faults set they forward every packet. Close stops them.
func New(nodes int, seed uint64) (*Cables, error) {
	if nodes < 1 || nodes > MaxNodes {
		return nil, fmt.Errorf("cables: %d nodes, want 1 to %d", nodes, MaxNodes)
	}
	c := &Cables{random: rand.New(rand.NewPCG(seed, 1)), cut: map[[2]int]bool{}}
	var err error
	for range tries {
		// Not drawn from the seed: two meshes with the same seed may run at the same time.
		c.subnet, c.port = byte(10+rand.IntN(240)), uint16(20000+rand.IntN(10000))
		if err = c.open(nodes); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cables: %w", err)
	}
	for i := range c.proxies {
		c.work.Go(func() { c.serve(i + 1) })
	}
	return c, nil
}

// open binds the proxies' addresses, all of them or none.
func (c *Cables) open(nodes int) error {
	for i := 1; i <= nodes; i++ {
		conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(c.Advertise(i)))
		if err != nil {
			return errors.Join(err, c.shut())
		}
		c.proxies = append(c.proxies, conn)
	}
	return nil
}

func (c *Cables) shut() error {
	var errs []error
	for _, conn := range c.proxies {
		errs = append(errs, conn.Close())
	}
	c.proxies = nil
	return errors.Join(errs...)
}

// Close stops the proxies. The nodes can no longer reach each other.
func (c *Cables) Close() error {
	var errs []error
	for _, conn := range c.proxies {
		errs = append(errs, conn.Close())
	}
	c.work.Wait()
	return errors.Join(errs...)
}

// Listen returns the address at which node i must listen.
func (c *Cables) Listen(i int) netip.AddrPort { return c.at(1, i) }

// Advertise returns the address that node i must advertise.
func (c *Cables) Advertise(i int) netip.AddrPort { return c.at(2, i) }

func (c *Cables) at(part byte, i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, c.subnet, part, byte(i)}), c.port)
}

// serve forwards the packets for node i until its proxy is closed.
func (c *Cables) serve(i int) {
	b := make([]byte, packetSize)
	for {
		n, from, err := c.proxies[i-1].ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // about one packet, such as an ICMP error for an earlier one
		}
		sender := int(from.Addr().As4()[3])
		if sender < 1 || sender > len(c.proxies) || from != c.Listen(sender) {
			continue // not from a node
		}
		for _, delay := range c.fate(sender, i, n) {
			c.send(sender, i, b[:n], delay)
		}
	}
}

// send forwards a packet at once or after a delay.
func (c *Cables) send(from, to int, packet []byte, delay time.Duration) {
	if delay == 0 {
		c.deliver(from, to, packet)
		return
	}
	if c.late.Add(1) > maxDelayed {
		c.late.Add(-1)
		return
	}
	packet = append([]byte(nil), packet...)
	c.work.Add(1)
	time.AfterFunc(delay, func() {
		defer c.work.Done()
		c.late.Add(-1)
		c.deliver(from, to, packet)
	})
}

// deliver sends a packet. One that cannot be sent is lost, as on a real network.
func (c *Cables) deliver(from, to int, packet []byte) {
	_, _ = c.proxies[from-1].WriteToUDPAddrPort(packet, c.Listen(to))
}

// fate returns one delay for each copy of a packet to deliver; none if it is dropped.
func (c *Cables) fate(from, to, size int) []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut[[2]int{from, to}] || c.link.TooLarge(size) || c.random.Float64() < c.link.Drop {
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
