package sandbox

import (
	"bufio"
	"testing"
	"time"
)

// Code stands still when the leash has run out, whoever started it, and goes on when it
// is given more. What the node holds still itself stays so.
func TestALeashHoldsCodeStill(t *testing.T) {
	leash, err := NewLeash()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := leash.Close(); err != nil {
			t.Error(err)
		}
	})
	c := open(t, func(c *Config) { c.Leash = leash })
	if c.Enforced().Leash != ByCgroup2 {
		t.Skip("code cannot be held still by control groups here: ", c.Enforced().Notes)
	}
	g := newGroup(t, c, Limits{})
	_, ticks := shell(t, c, g, "(while :; do echo tick; sleep 0.01; done) & wait")
	lines := bufio.NewScanner(ticks)
	tick := func() {
		t.Helper()
		if err := ticks.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() {
			t.Fatal("no more ticks: ", lines.Err())
		}
	}
	give := func(d time.Duration) {
		t.Helper()
		if err := leash.Set(d); err != nil {
			t.Fatal(err)
		}
	}
	frozen := func(dir string) bool {
		n, err := readKey(dir, "cgroup.events", "frozen")
		return err == nil && n == 1
	}
	stands := func() {
		t.Helper()
		eventually(t, "the code stands still", func() bool { return frozen(c.cgroups.code) })
	}
	goesOn := func() {
		t.Helper()
		eventually(t, "the code goes on", func() bool { return !frozen(c.cgroups.code) })
	}
	tick() // without an end at first
	for range 2 {
		give(time.Millisecond)
		stands()
		give(2 * time.Second)
		goesOn()
		tick()
		stands()
		if err := leash.Clear(); err != nil {
			t.Fatal(err)
		}
		goesOn()
		tick()
	}
	if err := g.Freeze(); err != nil {
		t.Fatal(err)
	}
	give(time.Millisecond)
	stands()
	if err := leash.Clear(); err != nil {
		t.Fatal(err)
	}
	goesOn()
	other := newGroup(t, c, Limits{})
	p, _ := shell(t, c, other, "exit 3")
	waitFor(t, p.Done(), "the end of one of another group")
	if dir := g.(*group).holder.(unifiedHolder).dir; !frozen(dir) {
		t.Error("the leash let go of what the node holds still")
	}
	give(time.Millisecond)
	stands()
	if err := g.Kill(); err != nil { // also what stands still can be ended
		t.Fatal(err)
	}
}
