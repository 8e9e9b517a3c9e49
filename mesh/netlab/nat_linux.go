package netlab

import (
	"fmt"
	"os"
	"regexp"
	"time"
)

// NAT is a router on the switch that translates the address of the one host behind it. The
// host can open flows to others, but others cannot open flows to it.
type NAT struct {
	lab   *Lab
	place namespace
	addr  string
}

// HostBehindNAT adds a host behind a new NAT.
func (l *Lab) HostBehindNAT() (*Host, *NAT) {
	l.t.Helper()
	n := &NAT{lab: l, place: l.namespace()}
	l.plug(n.place, "outside")
	n.addr = fmt.Sprintf("10.99.0.%d", l.plugs)
	h := &Host{lab: l, place: l.namespace(), net: "192.168.1", last: 2, via: "192.168.1.1"}
	l.must(n.place.ip(
		"link add inside type veth peer name eth0 netns "+h.place.path(),
		"address add 192.168.1.1/24 dev inside", "link set inside up",
		n.addressed(), "link set outside up",
	))
	l.must(n.place.nft(
		"table ip hides {",
		"chain leaving {",
		"type nat hook postrouting priority srcnat;",
		"oifname outside masquerade random", // at a port of the router's choice
		"}", "}",
	))
	l.must(n.place.inside(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }))
	l.must(h.place.ip(append(h.addressed(), h.up()...)...))
	return h, n
}

func (n *NAT) addressed() string { return "address add " + n.addr + "/24 dev outside" }

// forgetsWithin bounds the wait for the kernel to forget. It is not a goal.
const forgetsWithin = 30 * time.Second

// Rebind makes the router forget its mappings: what the host sends next leaves at another
// port, and what is sent to the old one is lost.
func (n *NAT) Rebind() {
	n.lab.t.Helper()
	// The kernel removes the mappings some time after their address. No new mapping is made
	// without an address, so once there are none, there are none until it is added again.
	n.lab.must(n.place.ip("address del " + n.addr + "/24 dev outside"))
	for began := time.Now(); len(n.Ports()) > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > forgetsWithin {
			n.lab.t.Fatalf("the router still has its mappings onto %v", n.Ports())
		}
	}
	n.lab.must(n.place.ip(n.addressed()))
}

// answersTo matches the router's port to which the answers of a mapped flow are sent.
var answersTo = regexp.MustCompile(`(?m)^ipv4 .* udp .* src=192\.168\.1\.\d+ .* dst=10\.99\.0\.\d+ sport=\d+ dport=(\d+)`)

// Ports returns the router's source ports of the host's UDP flows.
func (n *NAT) Ports() (ports []string) {
	n.lab.t.Helper()
	n.lab.must(n.place.inside(func() error {
		table, err := os.ReadFile("/proc/thread-self/net/nf_conntrack")
		for _, m := range answersTo.FindAllSubmatch(table, -1) {
			ports = append(ports, string(m[1]))
		}
		return err
	}))
	return ports
}
