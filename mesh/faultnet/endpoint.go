package faultnet

import (
	"container/heap"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// queueSize bounds the packets that wait at an endpoint, like a socket's receive buffer.
const queueSize = 4096

// mtu is the size of the largest packet that is delivered, in bytes.
const mtu = 1452

// Endpoint is one socket: a net.PacketConn whose addresses are *net.UDPAddr.
type Endpoint struct {
	network *Network
	at      netip.AddrPort

	mu       sync.Mutex
	queue    packets
	closed   bool
	deadline time.Time
	wake     chan struct{} // signalled at each change of the above
}

// packet is one packet with the time at which it arrives.
type packet struct {
	due      time.Time
	sequence uint64 // order of packets that arrive at the same time
	from     *net.UDPAddr
	data     []byte
}

func newEndpoint(n *Network, at netip.AddrPort) *Endpoint {
	return &Endpoint{network: n, at: at, wake: make(chan struct{}, 1)}
}

func (e *Endpoint) take(p packet) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || len(e.queue) >= queueSize {
		return false
	}
	heap.Push(&e.queue, p)
	e.nudge()
	return true
}

func (e *Endpoint) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// ReadFrom returns the next packet that is due. Bytes that do not fit into b are lost.
func (e *Endpoint) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		p, ok, wait, err := e.next()
		if err != nil {
			return 0, nil, err
		}
		if ok {
			return copy(b, p.data), p.from, nil
		}
		if wait == 0 {
			<-e.wake
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-e.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// next returns a packet, or how long to wait for one. A wait of zero means until wake.
func (e *Endpoint) next() (p packet, ok bool, wait time.Duration, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if e.closed {
		e.nudge() // for other readers
		return packet{}, false, 0, net.ErrClosed
	}
	if !e.deadline.IsZero() {
		if wait = e.deadline.Sub(now); wait <= 0 {
			e.nudge()
			return packet{}, false, 0, os.ErrDeadlineExceeded
		}
	}
	if len(e.queue) == 0 {
		return packet{}, false, wait, nil
	}
	if until := e.queue[0].due.Sub(now); until > 0 {
		if wait == 0 || until < wait {
			wait = until
		}
		return packet{}, false, wait, nil
	}
	p = heap.Pop(&e.queue).(packet)
	if len(e.queue) > 0 {
		e.nudge()
	}
	return p, true, 0, nil
}

// WriteTo sends a packet. It fails only if the endpoint is closed or addr is not a
// *net.UDPAddr. Packets are lost silently.
func (e *Endpoint) WriteTo(b []byte, addr net.Addr) (int, error) {
	to, ok := addr.(*net.UDPAddr)
	if !ok {
		return 0, fmt.Errorf("faultnet: address %v of type %T", addr, addr)
	}
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return 0, net.ErrClosed
	}
	if len(b) <= mtu {
		e.network.send(e.at, plain(to.AddrPort()), b)
	}
	return len(b), nil
}

// Close frees the address and ends ReadFrom. Packets in flight to the endpoint are lost.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return net.ErrClosed
	}
	e.closed = true
	e.queue = nil
	e.nudge()
	e.mu.Unlock()
	e.network.remove(e)
	return nil
}

// LocalAddr is the address that Listen was given.
func (e *Endpoint) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(e.at) }

// SetReadDeadline makes ReadFrom fail with os.ErrDeadlineExceeded from t on. The zero time
// removes the deadline.
func (e *Endpoint) SetReadDeadline(t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return net.ErrClosed
	}
	e.deadline = t
	e.nudge()
	return nil
}

// SetDeadline is SetReadDeadline, because WriteTo never blocks.
func (e *Endpoint) SetDeadline(t time.Time) error { return e.SetReadDeadline(t) }

// SetWriteDeadline does nothing, because WriteTo never blocks.
func (e *Endpoint) SetWriteDeadline(time.Time) error { return nil }

// SetReadBuffer does nothing. quic-go logs a warning if the method is missing.
func (e *Endpoint) SetReadBuffer(int) error { return nil }

// SetWriteBuffer does nothing either.
func (e *Endpoint) SetWriteBuffer(int) error { return nil }

// packets is a heap with the next packet to arrive first.
type packets []packet

func (q packets) Len() int { return len(q) }
func (q packets) Less(i, j int) bool {
	if q[i].due.Equal(q[j].due) {
		return q[i].sequence < q[j].sequence
	}
	return q[i].due.Before(q[j].due)
}
func (q packets) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *packets) Push(x any)   { *q = append(*q, x.(packet)) }
func (q *packets) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = packet{}
	*q = (*q)[:last]
	return p
}
