package mesh

import (
	"errors"
	"net"
	"syscall"
)

// sturdy lets connections outlive a network that is away for a moment. QUIC gives a
// connection up at any failed send, although a packet that could not be sent is no
// worse than one that was lost on the way.
func sturdy(conn net.PacketConn) net.PacketConn {
	if udp, ok := conn.(*net.UDPConn); ok {
		return &sturdySocket{udp}
	}
	return conn
}

// sturdySocket embeds the socket itself, so that the library still finds all that the
// kernel can do for it.
type sturdySocket struct{ *net.UDPConn }

// WriteTo takes packets that cannot be sent just now for sent.
func (s *sturdySocket) WriteTo(b []byte, addr net.Addr) (int, error) {
	n, err := s.UDPConn.WriteTo(b, addr)
	if passing(err) {
		return len(b), nil
	}
	return n, err
}

// WriteMsgUDP takes packets that cannot be sent just now for sent.
func (s *sturdySocket) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	n, oobn, err = s.UDPConn.WriteMsgUDP(b, oob, addr)
	if passing(err) {
		return len(b), len(oob), nil
	}
	return n, oobn, err
}

// passing tells of errors of a network that may come back. EMSGSIZE and EIO are not
// among them: the library learns from those.
func passing(err error) bool {
	for _, errno := range []syscall.Errno{
		syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EHOSTUNREACH, syscall.EHOSTDOWN,
		syscall.EPERM, syscall.EACCES, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ECONNREFUSED,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
