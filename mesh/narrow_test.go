package mesh

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/locusrun/locus/mesh/faultnet"
)

// A mesh works on every path that QUIC supports, down to an MTU of 1228 bytes, which is a
// datagram of 1200 bytes over IPv4.
func TestANarrowPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{MaxPacket: 1200})
		w.node("n2", map[string]Method{"echo": method(Data, echo)})
		request := bytes.Repeat([]byte("x"), 100_000)
		if reply, err := w.node("n1", nil).Call(within(t), "n2", "echo", request); err != nil || !bytes.Equal(reply, request) {
			t.Fatalf("%d bytes, %v", len(reply), err)
		}
	})
}
