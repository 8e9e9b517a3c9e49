package netlab

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Host is a machine of a lab, with one interface beside its loopback.
type Host struct {
	lab   *Lab
	place namespace
	cable *cable
	net   string // the first three bytes of its address
	via   string // the default gateway, if any

	mu   sync.Mutex
	last int // the last byte of its address
}

// Host adds a host to the switch.
func (l *Lab) Host() *Host {
	l.t.Helper()
	h := &Host{lab: l, place: l.namespace(), net: "10.99.0"}
	h.cable = l.plug(h.place, "eth0")
	h.last = l.plugs
	l.must(h.place.ip(append(h.addressed(), h.up()...)...))
	return h
}

func (h *Host) addressed() []string {
	return []string{fmt.Sprintf("address add %s.%d/24 dev eth0", h.net, h.last)}
}

// up returns the commands that bring the interface up and add its routes.
func (h *Host) up() []string {
	lines := []string{"link set eth0 up"}
	if h.via != "" {
		lines = append(lines, "route add default via "+h.via)
	}
	return lines
}

// Addr returns the host's current address.
func (h *Host) Addr() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprintf("%s.%d", h.net, h.last)
}

// Program returns the path of a wrapper that executes path on this host, with the same
// process id, arguments and environment.
func (h *Host) Program(path string) string {
	h.lab.t.Helper()
	script := filepath.Join(h.lab.t.TempDir(), filepath.Base(path))
	text := fmt.Sprintf("#!/bin/sh\nexec nsenter --net=%s -- '%s' \"$@\"\n", h.place.path(), strings.ReplaceAll(path, "'", `'\''`))
	// If a process is forked meanwhile it inherits the descriptor, and executing the file
	// fails with ETXTBSY while it is open for writing.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	h.lab.must(os.WriteFile(script, []byte(text), 0o700))
	return script
}

// Dial connects from this host to addr, which must be a literal address.
func (h *Host) Dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	err = h.place.inside(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}

// Cut blocks all packets between the host and all others. Cut, BlockInbound, BlockOutbound
// and Heal are for hosts on the switch only.
func (h *Host) Cut() { h.lab.t.Helper(); h.set(true, true) }

// BlockInbound blocks the packets to the host.
func (h *Host) BlockInbound() { h.lab.t.Helper(); h.set(true, false) }

// BlockOutbound blocks the packets from the host.
func (h *Host) BlockOutbound() { h.lab.t.Helper(); h.set(false, true) }

// Heal undoes Cut, BlockInbound and BlockOutbound.
func (h *Host) Heal() { h.lab.t.Helper(); h.set(false, false) }

func (h *Host) set(deaf, mute bool) {
	h.lab.t.Helper()
	h.lab.change(func() { h.cable.deaf, h.cable.mute = deaf, mute })
}

// Unplug takes the host's interface down. The host has no route then, so sending fails at
// once.
func (h *Host) Unplug() {
	h.lab.t.Helper()
	h.lab.must(h.place.ip("link set eth0 down"))
}

// Plug brings the interface up again.
func (h *Host) Plug() {
	h.lab.t.Helper()
	h.lab.must(h.place.ip(h.up()...))
}

// Move replaces the host's address.
func (h *Host) Move() {
	h.lab.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last += 100
	h.lab.must(h.place.ip(append([]string{"link set eth0 down", "address flush dev eth0"}, append(h.addressed(), h.up()...)...)...))
}
