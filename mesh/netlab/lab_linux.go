package netlab

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// Lab is a switch with hosts. Hosts get the addresses 10.99.0.1, 10.99.0.2 and so on,
// independent of other labs.
type Lab struct {
	t      testing.TB
	middle namespace // of the switch

	mu     sync.Mutex
	plugs  int
	cables []*cable
}

// cable connects the switch with a host.
type cable struct {
	port       string // the interface at the switch
	deaf, mute bool   // packets to the host, or from it, are dropped
}

// New returns a lab that exists until the test ends. It skips the test if the system
// cannot provide one.
func New(t testing.TB) *Lab {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a network of namespaces takes root")
	}
	for command, from := range map[string]string{"ip": "iproute2", "nft": "nftables", "nsenter": "util-linux"} {
		if _, err := exec.LookPath(command); err != nil {
			t.Skipf("a network of namespaces takes the command %s, of the package %s", command, from)
		}
	}
	middle, err := newNamespace()
	if err != nil {
		t.Skip(err)
	}
	l := &Lab{t: t, middle: middle}
	l.closes(middle)
	if err := middle.ip("link add name switch type bridge", "link set switch up"); err != nil {
		t.Skip("this kernel has no switch: ", err)
	}
	if err := middle.nft(l.rules()...); err != nil {
		t.Skip("this kernel has no filter for a switch: ", err)
	}
	return l
}

func (l *Lab) closes(ns namespace) {
	l.t.Cleanup(func() {
		if err := ns.file.Close(); err != nil {
			l.t.Error(err)
		}
	})
}

func (l *Lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// namespace makes a namespace for a host.
func (l *Lab) namespace() namespace {
	l.t.Helper()
	ns, err := newNamespace()
	l.must(err)
	l.closes(ns)
	l.must(ns.ip("link set lo up"))
	return ns
}

// plug connects a namespace to the switch, by an interface of that name.
func (l *Lab) plug(ns namespace, name string) *cable {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plugs++
	c := &cable{port: fmt.Sprint("port", l.plugs)}
	l.must(l.middle.ip(
		fmt.Sprintf("link add %s type veth peer name %s netns %s", c.port, name, ns.path()),
		fmt.Sprintf("link set %s master switch up", c.port),
	))
	l.cables = append(l.cables, c)
	return c
}

// change applies f to the cables and then installs the new rules atomically.
func (l *Lab) change(f func()) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.must(l.middle.nft(l.rules()...))
}

// rules returns the switch's filter rules. They replace the previous ones.
func (l *Lab) rules() []string {
	lines := []string{
		"table bridge cuts",
		"delete table bridge cuts",
		"table bridge cuts {",
		"chain passing {",
		"type filter hook forward priority 0;",
	}
	for _, c := range l.cables {
		if c.deaf {
			lines = append(lines, fmt.Sprintf("oifname %s drop", c.port))
		}
		if c.mute {
			lines = append(lines, fmt.Sprintf("iifname %s drop", c.port))
		}
	}
	return append(lines, "}", "}")
}
