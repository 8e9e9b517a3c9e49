package mesh

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Drain refuses data calls of peers from now on, in a way that tells them that nothing
// of the call was done. Control calls, and this process's own calls, go on.
func (m *Mesh) Drain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = max(m.state, draining)
}

// lingerMost is how long Close waits for peers to close their connections once their
// calls have ended. They do so at a word from us, when they have the last answer.
const lingerMost = 500 * time.Millisecond

// Close refuses all new calls, lets those that run end within Config.Grace, then
// cancels them, closes everything, and waits for all goroutines. An error says that
// handlers have not ended though they were cancelled long ago. It may be called again,
// and waits then too.
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
	m.await(lingerMost, func() bool { return m.accepted == 0 })

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
		err = nil // the socket is gone, as it should be
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

// await waits until cond, called with the lock held, is true, at most for a time.
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

// sayGoodbye asks the dialling side to open no more streams, and to close when it has
// got its last answer. Closing from this side could throw that answer away.
func (c *conn) sayGoodbye() {
	s, err := c.qc.OpenUniStream()
	if err == nil {
		_, err = s.Write([]byte{codeDraining})
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		c.close(codeDone) // it is broken, or has not even room for that
	}
}
