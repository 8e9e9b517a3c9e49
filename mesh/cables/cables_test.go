package cables

import (
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/locusrun/locus/mesh/faultnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds each wait for a packet that must come.
const patience = time.Minute

// laid gives cables and the sockets of the nodes behind them.
func laid(t *testing.T, nodes int) (*Cables, []*net.UDPConn) {
	t.Helper()
	c, err := New(nodes, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	var all []*net.UDPConn
	for i := 1; i <= nodes; i++ {
		conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(c.Listen(i)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		all = append(all, conn)
	}
	return c, all
}

// send sends a text from a node to another's public address.
func send(t *testing.T, c *Cables, all []*net.UDPConn, from, to int, text string) {
	t.Helper()
	if _, err := all[from-1].WriteToUDPAddrPort([]byte(text), c.Advertise(to)); err != nil {
		t.Fatal(err)
	}
}

// next gives the next packet that a node receives, and by whose public address.
func next(t *testing.T, all []*net.UDPConn, at int) (string, string) {
	t.Helper()
	if err := all[at-1].SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, from, err := all[at-1].ReadFromUDPAddrPort(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n]), from.String()
}

// A cut takes the directions that it says, and only those of its node. A node always
// reaches itself, and a proxy takes packets in their order: what a node sends to itself
// comes after what was sent to it before, if that comes at all.
func TestCuts(t *testing.T) {
	c, all := laid(t, 3)
	for _, row := range []struct {
		way             Direction
		outwards, inner bool // whether packets from and to node 1 pass
	}{{Both, false, false}, {Inbound, true, false}, {Outbound, false, true}} {
		for _, cut := range []bool{true, false} {
			if cut {
				c.Isolate(1, row.way)
			} else {
				c.Heal()
			}
			for _, p := range []struct {
				from, to int
				passes   bool
			}{{1, 2, row.outwards}, {1, 3, row.outwards}, {2, 1, row.inner}, {3, 1, row.inner}, {2, 3, true}, {3, 2, true}} {
				send(t, c, all, p.from, p.to, "packet")
				send(t, c, all, p.to, p.to, "end")
				got, from := next(t, all, p.to)
				if passed := got == "packet"; passed != (p.passes || !cut) {
					t.Fatalf("%s, cut %v: %d to %d: passed is %v", row.way, cut, p.from, p.to, passed)
				} else if passed {
					if from != c.Advertise(p.from).String() {
						t.Fatalf("%d is seen as %s", p.from, from)
					}
					got, _ = next(t, all, p.to)
				}
				if got != "end" {
					t.Fatalf("got %q", got)
				}
			}
		}
	}
}

// A spoiled network loses, doubles and delays; a mended one does none of these. A
// delayed packet that is on its way when the cables are taken away ends with them.
func TestSpoil(t *testing.T) {
	c, all := laid(t, 2)
	c.Degrade(faultnet.Link{Drop: 0.25, Duplicate: 0.25})
	copies := map[int]int{}
	const drawn = 4000
	for range drawn {
		copies[len(c.fate(1, 2, 100))]++
	}
	if copies[0] < drawn/5 || copies[0] > drawn*3/10 || copies[2] < drawn/7 || copies[2] > drawn/4 {
		t.Errorf("packets by their number of copies: %v", copies)
	}
	const late = 20 * time.Millisecond
	c.Degrade(faultnet.Link{Delay: late, Jitter: late, Duplicate: 1})
	began := time.Now()
	send(t, c, all, 1, 2, "twice")
	for range 2 {
		if got, _ := next(t, all, 2); got != "twice" || time.Since(began) < late {
			t.Fatalf("got %q after %s", got, time.Since(began))
		}
	}
	c.Heal()
	send(t, c, all, 1, 2, "once")
	send(t, c, all, 1, 2, "end")
	for _, want := range []string{"once", "end"} {
		if got, _ := next(t, all, 2); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	c.Degrade(faultnet.Link{MaxPacket: 100})
	if small, large := len(c.fate(1, 2, 100)), len(c.fate(1, 2, 101)); small != 1 || large != 0 {
		t.Errorf("%d copies of a packet that passes and %d of one that is too large", small, large)
	}
	c.Degrade(faultnet.Link{Delay: late})
	send(t, c, all, 1, 2, "on its way")
}

// Two meshes lie beside each other, and an impossible one is refused.
func TestNew(t *testing.T) {
	a, _ := laid(t, 2)
	b, _ := laid(t, 2)
	if a.Advertise(1) == b.Advertise(1) {
		t.Fatal("two meshes have one network")
	}
	for _, n := range []int{0, MaxNodes + 1} {
		if _, err := New(n, 1); err == nil {
			t.Errorf("cables for %d nodes", n)
		}
	}
}
