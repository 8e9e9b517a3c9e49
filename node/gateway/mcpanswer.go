package gateway

import (
	"net/http"
	"sync"
	"time"
)

// mcpAnswer is the http.ResponseWriter for the MCP library. It writes through an answer and
// can send heartbeats.
type mcpAnswer struct {
	*answer
	every time.Duration // the time between two heartbeats

	mu      sync.Mutex
	stopped chan struct{} // not nil while the heart beats
	beating sync.WaitGroup
	over    bool
}

// Header implements http.ResponseWriter.
func (a *mcpAnswer) Header() http.Header { return a.header() }

// WriteHeader implements http.ResponseWriter.
func (a *mcpAnswer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start(status)
}

// Write implements http.ResponseWriter.
func (a *mcpAnswer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.write(p)
}

// write needs a.mu.
func (a *mcpAnswer) write(p []byte) (int, error) {
	if !a.begun() {
		h := a.header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Accel-Buffering", "no")
		a.start(http.StatusOK)
	}
	return a.answer.Write(p)
}

// FlushError is called by http.ResponseController.
func (a *mcpAnswer) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.flush()
}

// beat writes a comment at each interval until stop is called. It is called while a tool
// runs, when the answer is known to be a stream.
func (a *mcpAnswer) beat() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.stopped != nil {
		return
	}
	a.stopped = make(chan struct{})
	a.beating.Go(func() {
		tick := time.NewTicker(a.every)
		defer tick.Stop()
		for {
			select {
			case <-a.stopped:
				return
			case <-tick.C:
			}
			a.mu.Lock()
			_, err := a.write([]byte(heartbeat))
			if err == nil {
				err = a.flush()
			}
			a.mu.Unlock()
			if err != nil {
				return // the server notices the disconnect
			}
		}
	})
}

func (a *mcpAnswer) stop() {
	a.mu.Lock()
	a.over = true
	if a.stopped != nil {
		close(a.stopped)
	}
	a.mu.Unlock()
	a.beating.Wait()
}
