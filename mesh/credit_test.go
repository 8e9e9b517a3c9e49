package mesh

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusrun/locus/mesh/faultnet"
)

// Request and answer are one packet each, with the acknowledgement of the previous one.
// Returning stream credit must not add packets of its own.
func TestACallIsTwoPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, network := simulated(t, faultnet.Link{Delay: time.Millisecond})
		w.node("n2", map[string]Method{"echo": method(Data, echo)})
		a := w.node("n1", nil)
		call := func() {
			if _, err := a.Call(within(t), "n2", "echo", []byte("hello")); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 * creditBatch { // the handshake, and the first looks for a larger packet size
			call()
		}
		before := network.Stats().Sent
		const calls = 10 * creditBatch
		for range calls {
			call()
		}
		if packets := network.Stats().Sent - before; packets > calls*3 {
			t.Fatalf("%d calls took %d packets", calls, packets)
		}
	})
}

// Withheld credit never blocks a peer that needs it: neither when later calls use up the
// rest, nor with many calls at a time.
func TestAPeerCanUseAllItsCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := simulated(t, faultnet.Link{Delay: time.Millisecond})
		held, release := make(chan struct{}, 3), make(chan struct{})
		hold := method(Data, func(ctx context.Context, _ []byte) ([]byte, error) {
			held <- struct{}{}
			<-release
			return nil, nil
		})
		few := func(c *Config) {
			c.windows = defaultWindows
			c.windows.streams = 4
		}
		w.node("n2", map[string]Method{"echo": method(Data, echo), "hold": hold}, few)
		a := w.node("n1", nil)
		var calls sync.WaitGroup
		defer calls.Wait()
		defer close(release)
		call := func(name string) {
			if _, err := a.Call(within(t), "n2", name, nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		call("echo")
		for range 3 {
			calls.Go(func() { call("hold") })
		}
		for range 3 {
			<-held
		}
		for range 3 * creditBatch {
			if call("echo"); t.Failed() {
				return
			}
		}
		var crowd sync.WaitGroup
		for range 3 * creditBatch {
			crowd.Go(func() { call("echo") })
		}
		crowd.Wait()
	})
}
