package mesh

import (
	"net"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// A byte stream passes the net.Conn tests of golang.org/x/net/nettest.
func TestByteStreamIsANetConn(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("a", nil), w.node("b", nil)
	la, lb := layer(t, a), layer(t, b)
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		one, err := la.Dial("b", time.Minute)
		if err != nil {
			return nil, nil, nil, err
		}
		two, err := lb.Accept()
		return one, two, func() { _, _ = one.Close(), two.Close() }, err
	})
}
