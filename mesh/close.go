package mesh

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Drain makes this process refuse new data calls of peers. The callers get ErrDraining
// with Sent false. Running calls, control calls and this process's own calls go on.
func (m *Mesh) Drain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = max(m.state, draining)
}

// maxLinger is how long Close waits for peers to close their connections after their
// calls have ended. Close has asked them to, and they do it once they have received the
// last answer.
const maxLinger = 500 * time.Millisecond

// Close refuses all new calls, lets running handlers finish within Config.Grace, cancels
// the others, closes everything and waits for all goroutines. It returns an error if
// handlers do not return within another Grace after they were cancelled. Further calls
// wait for the first one.
func (m *Mesh) Close() error {
	m.mu.Lock()
	if m.state >= closing {
		m.mu.Unlock()
		<-m.done
		return nil
	}
	m.state = closing
	m.mu.Unlock()
	defer close(m.done)

	for _, c := range m.connections() {
		if !c.dialed {
			c.sayGoodbye()
		}
	}
	m.await(m.cfg.Grace, func() bool { return m.calls == 0 })
	m.await(maxLinger, func() bool { return m.accepted == 0 })

	m.mu.Lock()
	m.state = closed
	gossip := m.gossip
	m.mu.Unlock()
	var err error
	if gossip != nil {
		err = gossip.Close()
	}
	m.cancel(ErrClosed)
	for _, c := range m.connections() {
		c.close(codeDone)
	}
	if m.listener != nil {
		err = errors.Join(err, m.listener.Close())
	}
	err = errors.Join(err, m.transport.Close(), m.cfg.Conn.Close())
	if errors.Is(err, net.ErrClosed) {
		err = nil // the socket was closed already
	}
	ended := make(chan struct{})
	go func() {
		m.wg.Wait()
		close(ended)
	}()
	late := time.NewTimer(m.cfg.Grace)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		m.mu.Lock()
		defer m.mu.Unlock()
		err = errors.Join(err, fmt.Errorf("mesh: %d handlers do not end", m.calls))
	}
	return err
}

// await waits until cond is true, or until the time is up. cond is called with m.mu held.
func (m *Mesh) await(most time.Duration, cond func() bool) {
	late := time.NewTimer(most)
	defer late.Stop()
	for {
		m.mu.Lock()
		ok := cond()
		m.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-m.wake:
		case <-late.C:
			return
		}
	}
}

// sayGoodbye asks the dialling side to open no more streams, and to close the connection
// when it has received its last answer. If this side closed it, answers that are still in
// flight would be lost.
func (c *conn) sayGoodbye() {
	s, err := c.qc.OpenUniStream()
	if err == nil {
		_, err = s.Write([]byte{codeDraining})
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		c.close(codeDone) // it is broken, or has no stream credit left
	}
}
