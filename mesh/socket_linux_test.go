package mesh

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

func udpOn(t *testing.T, network, host string) *udpSocket {
	t.Helper()
	conn, err := net.ListenUDP(network, &net.UDPAddr{IP: net.ParseIP(host)})
	if err != nil {
		t.Skipf("no %s here: %v", network, err)
	}
	t.Cleanup(func() { conn.Close() })
	s, err := newUDPSocket(conn)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func buffers(n int) []ipv4.Message {
	ms := make([]ipv4.Message, n)
	for i := range ms {
		ms[i].Buffers, ms[i].OOB = [][]byte{make([]byte, packetSize)}, make([]byte, 128)
	}
	return ms
}

// Packets arrive with their sender's address and their control messages, for each family of
// addresses that a socket can have.
func TestSocketCarriesPackets(t *testing.T) {
	for _, c := range []struct{ name, from, fromHost, to, toHost, dial string }{
		{"IPv4", "udp4", "127.0.0.1", "udp4", "127.0.0.1", "127.0.0.1"},
		{"IPv6", "udp6", "::1", "udp6", "::1", "::1"},
		{"IPv4 to a socket of both", "udp4", "127.0.0.1", "udp", "::", "127.0.0.1"},
		{"IPv4 from a socket of both", "udp", "::", "udp4", "127.0.0.1", "127.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, to := udpOn(t, c.from, c.fromHost), udpOn(t, c.to, c.toHost)
			if err := to.raw.Control(func(fd uintptr) {
				// One of the two fails where the socket has only one family.
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTTL, 1)
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)
			}); err != nil {
				t.Fatal(err)
			}
			at := &net.UDPAddr{IP: net.ParseIP(c.dial), Port: to.LocalAddr().(*net.UDPAddr).Port}
			sent := [][]byte{[]byte("one"), bytes.Repeat([]byte("x"), packetSize), {}}
			for _, b := range sent {
				if n, err := from.WriteTo(b, at); n != len(b) || err != nil {
					t.Fatal(n, err)
				}
			}
			ms := buffers(8)
			for got := 0; got < len(sent); {
				n, err := to.ReadBatch(ms, 0)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range ms[:n] {
					if !bytes.Equal(m.Buffers[0][:m.N], sent[got]) {
						t.Errorf("packet %d has %d bytes", got, m.N)
					}
					sender := m.Addr.(*net.UDPAddr)
					if want := from.LocalAddr().(*net.UDPAddr).Port; !sender.IP.Equal(at.IP) || sender.Port != want || sender.Zone != "" {
						t.Errorf("from %v, want port %d", sender, want)
					}
					if control, err := unix.ParseSocketControlMessage(m.OOB[:m.NN]); len(control) != 1 || err != nil {
						t.Errorf("control messages %v: %v", control, err)
					}
					got++
				}
			}
			if _, err := from.WriteTo(make([]byte, 70_000), at); !errors.Is(err, unix.EMSGSIZE) {
				t.Errorf("too large: %v", err)
			}
		})
	}
}

// A link-local address names its interface.
func TestSocketNamesTheInterface(t *testing.T) {
	b := make([]byte, unix.SizeofSockaddrInet6)
	binary.NativeEndian.PutUint16(b, unix.AF_INET6)
	b[8], b[9], b[23] = 0xfe, 0x80, 1 // fe80::1
	binary.NativeEndian.PutUint32(b[24:], 1)
	lo, err := net.InterfaceByIndex(1)
	if err != nil {
		t.Skip(err)
	}
	addr, err := udpAddr(b)
	if err != nil || addr.Zone != lo.Name || !addr.IP.Equal(net.ParseIP("fe80::1")) {
		t.Fatal(addr, err)
	}
	if s := udpOn(t, "udp6", "::1"); s.sockaddr(addr) != nil {
		t.Error("the name of an interface was ignored")
	}
}

// A closed socket ends the wait for packets, and sends none.
func TestClosedSocket(t *testing.T) {
	s := udpOn(t, "udp4", "127.0.0.1")
	ended := make(chan error)
	go func() {
		_, err := s.ReadBatch(buffers(8), 0)
		ended <- err
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading: %v", err)
	}
	if _, err := s.WriteTo([]byte("x"), s.LocalAddr()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("sending: %v", err)
	}
}
