package netlab

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// Lab is a switch with hosts on it. Those that Host gives have the addresses
// 10.99.0.1, 10.99.0.2 and so on; every lab has these for its own.
type Lab struct {
	t      testing.TB
	middle namespace // where the switch is

	mu     sync.Mutex
	plugs  int
	cables []*cable
}

// cable leads from the switch to a host.
type cable struct {
	port       string // its end at the switch
	deaf, mute bool   // nothing comes out of it, nothing goes in
}

// New makes a lab, which is there until the test ends. It skips the test where that
// cannot be.
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

// namespace gives a place for a host.
func (l *Lab) namespace() namespace {
	l.t.Helper()
	ns, err := newNamespace()
	l.must(err)
	l.closes(ns)
	l.must(ns.ip("link set lo up"))
	return ns
}

// plug puts the interface of a place onto the switch.
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

// change changes a cable, at one moment for all that it changes.
func (l *Lab) change(f func()) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.must(l.middle.nft(l.rules()...))
}

// rules are what the switch goes by. They take the place of those before.
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
