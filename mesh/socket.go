package mesh

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// tolerateSendErrors wraps a UDP socket so that transient send errors count as packet
// loss. QUIC closes a connection at any failed send, but a connection can survive a network
// that is unreachable for a moment.
func tolerateSendErrors(conn net.PacketConn) (net.PacketConn, error) {
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		return conn, nil
	}
	socket, err := newUDPSocket(udp)
	if err != nil {
		return nil, fmt.Errorf("mesh: UDP socket: %w", err)
	}
	return &tolerantSocket{socket}, nil
}

// tolerantSocket embeds the socket, so that the library still finds the methods by which
// it uses the kernel's batching.
type tolerantSocket struct{ *udpSocket }

// WriteTo reports packets as sent if the error is transient.
func (s *tolerantSocket) WriteTo(b []byte, addr net.Addr) (int, error) {
	n, err := s.udpSocket.WriteTo(b, addr)
	if transient(err) {
		return len(b), nil
	}
	return n, err
}

// WriteMsgUDP reports packets as sent if the error is transient.
func (s *tolerantSocket) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	n, oobn, err = s.udpSocket.WriteMsgUDP(b, oob, addr)
	if transient(err) {
		return len(b), len(oob), nil
	}
	return n, oobn, err
}

// transient reports whether an error may pass when the network recovers. EMSGSIZE and EIO
// are not transient: the library reacts to them.
func transient(err error) bool {
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
