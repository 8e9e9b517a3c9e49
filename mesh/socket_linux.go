package mesh

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// udpSocket is a UDP socket whose system calls bypass the Go scheduler. The runtime wakes its
// monitor thread at each system call that it knows of, and the monitor then polls for as
// long as any goroutine runs. On an idle mesh that costs more than the packets themselves.
// A system call on a socket that does not block is short, so nothing needs to watch it.
type udpSocket struct {
	*net.UDPConn
	raw   syscall.RawConn
	inet6 bool

	receiving receiver // used by the one goroutine that reads
}

func newUDPSocket(conn *net.UDPConn) (*udpSocket, error) {
	s := &udpSocket{UDPConn: conn}
	var err error
	if s.raw, err = conn.SyscallConn(); err != nil {
		return nil, err
	}
	var local unix.Sockaddr
	failed := s.raw.Control(func(fd uintptr) { local, err = unix.Getsockname(int(fd)) })
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, os.NewSyscallError("getsockname", err)
	}
	_, s.inet6 = local.(*unix.SockaddrInet6)
	s.receiving.call = s.receiving.recvmmsg
	return s, nil
}

// sockaddr returns addr as the socket takes it, or nil if it cannot.
func (s *udpSocket) sockaddr(addr *net.UDPAddr) []byte {
	ip4 := addr.IP.To4()
	switch {
	case s.inet6 && addr.Zone == "" && len(addr.IP) != 0:
		b := make([]byte, unix.SizeofSockaddrInet6)
		binary.NativeEndian.PutUint16(b, unix.AF_INET6)
		binary.BigEndian.PutUint16(b[2:], uint16(addr.Port))
		copy(b[8:24], addr.IP.To16())
		return b
	case !s.inet6 && ip4 != nil:
		b := make([]byte, unix.SizeofSockaddrInet4)
		binary.NativeEndian.PutUint16(b, unix.AF_INET)
		binary.BigEndian.PutUint16(b[2:], uint16(addr.Port))
		copy(b[4:8], ip4)
		return b
	}
	return nil
}

// WriteTo sends a packet.
func (s *udpSocket) WriteTo(b []byte, addr net.Addr) (int, error) {
	if udp, ok := addr.(*net.UDPAddr); ok {
		n, _, err := s.WriteMsgUDP(b, nil, udp)
		return n, err
	}
	return s.UDPConn.WriteTo(b, addr)
}

// WriteMsgUDP sends a packet, or several of one size, with control messages.
func (s *udpSocket) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	to := s.sockaddr(addr)
	if to == nil {
		return s.UDPConn.WriteMsgUDP(b, oob, addr)
	}
	var data unix.Iovec
	var message unix.Msghdr
	describe(&message, &data, b, oob, to)
	var sent uintptr
	var errno syscall.Errno
	err = s.raw.Write(func(fd uintptr) bool {
		for {
			sent, _, errno = syscall.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&message)), 0)
			if errno != syscall.EINTR {
				return errno != syscall.EAGAIN
			}
		}
	})
	if err == nil && errno != 0 {
		err = &net.OpError{Op: "write", Net: "udp", Source: s.LocalAddr(), Addr: addr, Err: os.NewSyscallError("sendmsg", errno)}
	}
	if err != nil {
		return 0, 0, err
	}
	return int(sent), len(oob), nil
}

// describe fills in a message header.
func describe(message *unix.Msghdr, data *unix.Iovec, b, oob, addr []byte) {
	if len(b) > 0 {
		data.Base = &b[0]
	}
	data.SetLen(len(b))
	message.Iov = data
	message.SetIovlen(1)
	message.Name, message.Namelen = &addr[0], uint32(len(addr))
	if len(oob) > 0 {
		message.Control = &oob[0]
	}
	message.SetControllen(len(oob))
}

// received is struct mmsghdr.
type received struct {
	header unix.Msghdr
	size   uint32 // of the received datagram, in bytes
}

// receiver holds what one call of recvmmsg needs. It is reused, so there is one call at a time.
type receiver struct {
	messages []received
	data     []unix.Iovec
	addrs    [][unix.SizeofSockaddrInet6]byte

	call  func(fd uintptr) bool // recvmmsg, made once to save an allocation per read
	n     uintptr               // datagrams that the last call received
	errno syscall.Errno
}

func (r *receiver) recvmmsg(fd uintptr) bool {
	for {
		r.n, _, r.errno = syscall.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&r.messages[0])), uintptr(len(r.messages)), 0, 0, 0)
		if r.errno != syscall.EINTR {
			return r.errno != syscall.EAGAIN
		}
	}
}

// ReadBatch waits for packets and receives up to len(ms) of them, each into its first
// buffer. The library calls it from one goroutine, with flags of 0.
func (s *udpSocket) ReadBatch(ms []ipv4.Message, _ int) (int, error) {
	r := &s.receiving
	if len(r.messages) < len(ms) {
		r.messages = make([]received, len(ms))
		r.data = make([]unix.Iovec, len(ms))
		r.addrs = make([][unix.SizeofSockaddrInet6]byte, len(ms))
	}
	r.messages = r.messages[:len(ms)]
	for i := range ms {
		r.messages[i] = received{}
		describe(&r.messages[i].header, &r.data[i], ms[i].Buffers[0], ms[i].OOB, r.addrs[i][:])
	}
	if err := s.raw.Read(r.call); err != nil {
		return 0, err
	}
	if r.errno != 0 {
		return 0, os.NewSyscallError("recvmmsg", r.errno)
	}
	for i := range int(r.n) {
		header := &r.messages[i].header
		addr, err := udpAddr(r.addrs[i][:header.Namelen])
		if err != nil {
			return 0, err
		}
		ms[i].Addr, ms[i].N, ms[i].NN, ms[i].Flags = addr, int(r.messages[i].size), int(header.Controllen), int(header.Flags)
	}
	return int(r.n), nil
}

// udpAddr reads a socket address.
func udpAddr(b []byte) (*net.UDPAddr, error) {
	switch {
	case len(b) >= unix.SizeofSockaddrInet4 && binary.NativeEndian.Uint16(b) == unix.AF_INET:
		return &net.UDPAddr{IP: append(net.IP(nil), b[4:8]...), Port: int(binary.BigEndian.Uint16(b[2:]))}, nil
	case len(b) >= unix.SizeofSockaddrInet6 && binary.NativeEndian.Uint16(b) == unix.AF_INET6:
		addr := &net.UDPAddr{IP: append(net.IP(nil), b[8:24]...), Port: int(binary.BigEndian.Uint16(b[2:]))}
		if scope := binary.NativeEndian.Uint32(b[24:]); scope != 0 { // a link-local address
			addr.Zone = strconv.Itoa(int(scope))
			if link, err := net.InterfaceByIndex(int(scope)); err == nil {
				addr.Zone = link.Name
			}
		}
		return addr, nil
	}
	return nil, fmt.Errorf("mesh: address of a packet: % x", b)
}
