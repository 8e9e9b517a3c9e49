package mesh

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// packetPrefix begins each gossip packet. It is the version of the format, and tells
	// gossip from QUIC: QUIC packets have one of the two highest bits of their first byte set.
	packetPrefix = 0x01
	// packetSize is the smallest maximum packet size that QUIC requires of a path.
	packetSize = 1200
	// packetQueue bounds the received packets that wait for memberlist. Further ones are
	// dropped, as the network may drop any.
	packetQueue = 512

	gossipLayer = "gossip"
)

var _ memberlist.NodeAwareTransport = (*gossipTransport)(nil)

// gossipTransport carries memberlist's packets on the mesh's UDP socket, and its streams
// on control connections.
type gossipTransport struct {
	m         *Mesh
	advertise netip.AddrPort
	layer     *StreamLayer
	packets   chan *memberlist.Packet // received packets that wait for memberlist
	streams   chan net.Conn           // accepted streams, for memberlist
	ctx       context.Context
	cancel    context.CancelFunc
	wg        sync.WaitGroup
}

func (m *Mesh) gossipTransport(advertise netip.AddrPort) (*gossipTransport, error) {
	layer, err := m.StreamLayer(gossipLayer)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(m.ctx)
	t := &gossipTransport{
		m: m, advertise: advertise, layer: layer, ctx: ctx, cancel: cancel,
		packets: make(chan *memberlist.Packet, packetQueue), streams: make(chan net.Conn),
	}
	t.wg.Go(t.readPackets)
	t.wg.Go(t.acceptStreams)
	return t, nil
}

func (t *gossipTransport) readPackets() {
	buffer := make([]byte, 64<<10)
	for {
		n, from, err := t.m.transport.ReadNonQUICPacket(t.ctx, buffer)
		if err != nil {
			return // shut down, or the socket is gone
		}
		packet := parsePacket(buffer[:n])
		if packet == nil {
			continue
		}
		select {
		case t.packets <- &memberlist.Packet{Buf: packet, From: from, Timestamp: time.Now()}:
		default:
		}
	}
}

// parsePacket returns a copy of a gossip packet's payload, or nil if the packet is not
// gossip.
func parsePacket(b []byte) []byte {
	if len(b) < 2 || len(b) > packetSize || b[0] != packetPrefix {
		return nil
	}
	return append([]byte(nil), b[1:]...)
}

func (t *gossipTransport) acceptStreams() {
	for {
		c, err := t.layer.Accept()
		if err != nil {
			return
		}
		c = t.own(c)
		select {
		case t.streams <- c:
		case <-t.ctx.Done():
			_ = c.Close() // it never fails
			return
		}
	}
}

// FinalAdvertiseAddr returns the address that was resolved at the start.
func (t *gossipTransport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.advertise.Addr().AsSlice(), int(t.advertise.Port()), nil
}

// WriteTo sends a packet. It does not block.
func (t *gossipTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, err
	}
	packet := append(make([]byte, 0, len(b)+1), packetPrefix)
	_, err = t.m.transport.WriteTo(append(packet, b...), net.UDPAddrFromAddrPort(to))
	return time.Now(), err
}

// WriteToAddress ignores the name in to: gossip packets are authenticated by the gossip
// key, not by a certificate.
func (t *gossipTransport) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, to.Addr)
}

// DialTimeout opens a stream to whichever node of this cluster is at the address.
func (t *gossipTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream to the node of that name, if there is one.
func (t *gossipTransport) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	key := linkKey{peer: to.Name, class: Control}
	if to.Name == "" {
		key.addr = to.Addr
	}
	c, err := t.m.dialBytes(ctx, key, to.Addr, gossipLayer)
	if err != nil {
		return nil, err
	}
	return t.own(c), nil
}

// own closes a stream when the transport shuts down, which ends reads that wait on it.
func (t *gossipTransport) own(c net.Conn) net.Conn {
	// Close of a stream never fails.
	return &gossipStream{c, context.AfterFunc(t.ctx, func() { _ = c.Close() })}
}

type gossipStream struct {
	net.Conn
	stop func() bool // stops watching the transport's context
}

// Close closes the stream.
func (s *gossipStream) Close() error {
	s.stop()
	return s.Conn.Close()
}

// PacketCh returns the channel of received packets.
func (t *gossipTransport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh returns the channel of accepted streams.
func (t *gossipTransport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown stops receiving packets and streams, and closes all streams.
func (t *gossipTransport) Shutdown() error {
	t.cancel()
	err := t.layer.Close()
	t.wg.Wait()
	return err
}
