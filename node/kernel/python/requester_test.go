package python

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A request whose time is up is given up also while it waits behind another one, which a
// process that does not answer keeps waiting for much longer. That is not taken for a process
// that does not answer, and the turn is not taken.
func TestARequestWaitsForItsTurnWithinItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRequester(nil)
		if err := r.begin(t.Context()); err != nil { // a request that gets no answer
			t.Fatal(err)
		}
		tired := errors.New("the caller's time is up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, tired)
		defer cancel()
		began := time.Now()
		go func() {
			time.Sleep(time.Minute)
			r.end()
		}()
		_, _, err := r.call(ctx, request{Op: "fork"})
		if took := time.Since(began); took != time.Second || !errors.Is(err, tired) || errors.Is(err, errNoAnswer) {
			t.Errorf("after %s: %v, want after 1s: %v", took, err, tired)
		}
		time.Sleep(time.Hour)
		if err := r.begin(t.Context()); err != nil {
			t.Errorf("the turn of the next request: %v", err)
		}
	})
}
