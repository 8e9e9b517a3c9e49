package netlab

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// listen opens a UDP socket on a host.
func (h *Host) listen() *net.UDPConn {
	h.lab.t.Helper()
	var conn *net.UDPConn
	h.lab.must(h.place.inside(func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 7071})
		return err
	}))
	h.lab.t.Cleanup(func() { _ = conn.Close() }) // some are closed before
	return conn
}

// hears reports whether what one socket sends to a host comes out of another, and from
// where. A packet that is lost is sent again for as long as patience lasts.
func hears(t *testing.T, from *net.UDPConn, to *Host, at *net.UDPConn, patience time.Duration) (string, bool) {
	t.Helper()
	word := fmt.Sprint(time.Now().UnixNano())
	b := make([]byte, 64)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		_, _ = from.WriteToUDP([]byte(word), &net.UDPAddr{IP: net.ParseIP(to.Addr()), Port: 7071}) // a host without a network cannot
		if err := at.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		for {
			n, sender, err := at.ReadFromUDP(b)
			if err != nil {
				break
			}
			if string(b[:n]) == word {
				return sender.String(), true
			}
		}
	}
	return "", false
}

const (
	surely = 10 * time.Second // for what must come
	never  = 300 * time.Millisecond
)

func TestCablesAreCut(t *testing.T) {
	t.Parallel()
	lab := New(t)
	a, b := lab.Host(), lab.Host()
	atA, atB := a.listen(), b.listen()
	for _, c := range []struct {
		name         string
		do           func()
		hears, heard bool
	}{
		{"at first", func() {}, true, true},
		{"cut", a.Cut, false, false},
		{"deaf", a.BlockInbound, false, true},
		{"mute", a.BlockOutbound, true, false},
		{"healed", a.Heal, true, true},
		{"unplugged", a.Unplug, false, false},
		{"plugged in", a.Plug, true, true},
		{"moved", a.Move, true, true},
	} {
		c.do()
		patience := map[bool]time.Duration{true: surely, false: never}
		if _, ok := hears(t, atA, b, atB, patience[c.heard]); ok != c.heard {
			t.Errorf("%s: is heard: %v", c.name, ok)
		}
		if _, ok := hears(t, atB, a, atA, patience[c.hears]); ok != c.hears {
			t.Errorf("%s: hears: %v", c.name, ok)
		}
	}
	if a.Addr() != "10.99.0.101" {
		t.Errorf("it has moved to %s", a.Addr())
	}
}

func TestANATHidesAndForgets(t *testing.T) {
	t.Parallel()
	lab := New(t)
	outside := lab.Host()
	inside, router := lab.HostBehindNAT()
	in, out := inside.listen(), outside.listen()
	var seen []string
	for range 3 {
		from, ok := hears(t, in, outside, out, surely)
		if !ok {
			t.Fatal("the host behind the router is not heard")
		}
		if !strings.HasPrefix(from, "10.99.0.2:") || !slices.Contains(router.Ports(), strings.TrimPrefix(from, "10.99.0.2:")) {
			t.Fatalf("it is seen at %s, and the router has %v", from, router.Ports())
		}
		seen = append(seen, from)
		if len(seen) > 1 {
			router.Rebind()
		}
	}
	if seen[0] != seen[1] || seen[1] == seen[2] {
		t.Errorf("it was seen at %v: the first two are to be the same, and the third another", seen)
	}
	if _, ok := hears(t, out, inside, in, never); ok {
		t.Error("the host behind the router was reached from outside")
	}
}

func TestAProgramRunsOnAHost(t *testing.T) {
	t.Parallel()
	host := New(t).Host()
	out, err := exec.Command(host.Program("/bin/sh"), "-c", `echo $$ "$1"; ls /proc/self/net/dev_snmp6 2>/dev/null; cat /proc/self/net/dev`, "sh", "it's one").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "it's one\n") || !strings.Contains(string(out), "eth0:") {
		t.Fatalf("%v: %s", err, out)
	}
}

// What a lab was is gone when its test has ended, and nothing of it is seen outside.
func TestNothingIsLeft(t *testing.T) {
	var name string
	count := func() int {
		n := 0
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range all {
			if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(to, "net:") || strings.HasPrefix(to, "/proc/") && strings.HasSuffix(to, "/ns/net") {
				n++
			}
		}
		return n
	}
	before := count()
	t.Run("lab", func(t *testing.T) {
		lab := New(t)
		lab.Host()
		lab.HostBehindNAT()
		name = lab.middle.path()
		if n := count(); n != before+4 {
			t.Errorf("%d namespaces are held", n-before)
		}
	})
	if n := count(); n != before {
		t.Errorf("%d namespaces are held after %s", n-before, name)
	}
}
