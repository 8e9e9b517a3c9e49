//go:build !linux

package mesh

import "net"

// udpSocket is a plain UDP socket.
type udpSocket struct{ *net.UDPConn }

func newUDPSocket(conn *net.UDPConn) (*udpSocket, error) { return &udpSocket{conn}, nil }
