package mesh

import (
	"errors"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
)

// The wrapper must not disable the kernel's batching of a real socket.
func TestSturdySocketKeepsBatching(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has GSO")
	}
	tolerant := func(conn net.PacketConn) net.PacketConn {
		s, err := tolerateSendErrors(conn)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	gso := func(wrap func(net.PacketConn) net.PacketConn) bool {
		w := newWorld(t)
		server := w.credentials(certs.RoleNode, "b")
		conn := w.socket("b")
		defer conn.Close()
		listening := &quic.Transport{Conn: conn}
		defer listening.Close()
		l, err := listening.Listen(server.Server(protocolNode), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		mine := w.socket("a")
		defer mine.Close()
		dialing := &quic.Transport{Conn: wrap(mine)}
		defer dialing.Close()
		qc, err := dialing.Dial(within(t), conn.LocalAddr(), w.credentials(certs.RoleNode, "a").Client(nil, protocolNode), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer qc.CloseWithError(0, "")
		return qc.ConnectionState().GSO
	}
	bare, ours := gso(func(c net.PacketConn) net.PacketConn { return c }), gso(tolerant)
	if bare != ours {
		t.Fatalf("GSO is %v on the bare socket, %v on ours", bare, ours)
	}
	t.Logf("GSO: %v", ours)
}

func TestTransientErrors(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{
		syscall.ENETUNREACH: true, syscall.EPERM: true, syscall.ENOBUFS: true, syscall.EHOSTUNREACH: true,
		syscall.EMSGSIZE: false, syscall.EIO: false, syscall.EBADF: false, syscall.EINVAL: false,
	} {
		err := &net.OpError{Op: "write", Err: os.NewSyscallError("sendmsg", errno)}
		if transient(err) != want {
			t.Errorf("%v: passing is %v", errno, !want)
		}
	}
	if transient(nil) || transient(net.ErrClosed) || transient(errors.New("x")) {
		t.Error("passes what does not pass")
	}
}

// To QUIC, a packet to an unreachable network counts as lost.
func TestUnreachableNetworkIsNoError(t *testing.T) {
	// For a socket of IPv6 alone there is no network of IPv4.
	conn, err := net.ListenUDP("udp6", nil)
	if err != nil {
		t.Skip("no IPv6 here:", err)
	}
	defer conn.Close()
	tolerant, err := tolerateSendErrors(conn)
	if err != nil {
		t.Fatal(err)
	}
	s := tolerant.(*tolerantSocket)
	away := &net.UDPAddr{IP: net.IPv4(203, 0, 113, 1), Port: 9}
	if _, err := conn.WriteTo([]byte("x"), away); !errors.Is(err, syscall.ENETUNREACH) {
		t.Skipf("another error than on Linux: %v", err)
	}
	if n, err := s.WriteTo([]byte("x"), away); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if n, _, err := s.WriteMsgUDP([]byte("xy"), nil, away); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	here := &net.UDPAddr{IP: net.IPv6loopback, Port: 9}
	if _, err := s.WriteTo(make([]byte, 70_000), here); !errors.Is(err, syscall.EMSGSIZE) {
		t.Fatalf("too large: %v", err)
	}
}
