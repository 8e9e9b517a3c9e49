package engine

import (
	"sync"
	"time"
)

// clock measures a call's time against its deadline. It can be held, while the code is
// paused or what its kernel comes from is made; held time does not count. It calls back once, when
// the time is up.
type clock struct {
	mu     sync.Mutex
	timer  *time.Timer
	left   time.Duration // the remaining time at since; while held, at the start of the hold
	since  time.Time     // when the clock last started to run
	holds  int           // holds that are not released; the clock stands still while there are any
	ended  bool          // expired or stopped; neither can be undone
	expire func()        // called once without mu, when the time is up
}

func (c *clock) start(limit time.Duration, expire func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.since, c.expire = limit, time.Now(), expire
	c.timer = time.AfterFunc(limit, c.fire)
}

func (c *clock) fire() {
	c.mu.Lock()
	// The timer may fire just when the clock is held. The time is not up then.
	if c.ended || c.holds > 0 {
		c.mu.Unlock()
		return
	}
	c.ended = true
	expire := c.expire
	c.mu.Unlock()
	expire()
}

// hold stops the clock until release, which it returns, was called as often as hold.
func (c *clock) hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holds++; c.holds == 1 && !c.ended {
		c.timer.Stop()
		c.left -= time.Since(c.since)
	}
	return c.release
}

func (c *clock) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holds--; c.holds > 0 || c.ended {
		return
	}
	c.since = time.Now()
	c.timer.Reset(max(c.left, 0))
}

// remaining returns the remaining time. It is 0 if the time is up or the clock has ended.
func (c *clock) remaining() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return 0
	case c.holds > 0:
		return max(c.left, 1)
	}
	return max(c.left-time.Since(c.since), 0)
}

// stop ends the clock. It does not call back afterwards.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.timer.Stop()
}
