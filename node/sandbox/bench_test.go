package sandbox

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func BenchmarkOpenClose(b *testing.B) {
	work := b.TempDir()
	for b.Loop() {
		c, err := Open(b.Context(), Config{Name: "bench", Workspace: work})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSpawnToEnd(b *testing.B) {
	c := open(b)
	for b.Loop() {
		p, err := c.Spawn(b.Context(), Command{Path: "/bin/true"})
		if err != nil {
			b.Fatal(err)
		}
		<-p.Done()
	}
}

func BenchmarkSpawnIntoGroup(b *testing.B) {
	c := open(b)
	g := newGroup(b, c, Limits{})
	for b.Loop() {
		p, err := c.Spawn(b.Context(), Command{Path: "/bin/true", Group: g})
		if err != nil {
			b.Fatal(err)
		}
		<-p.Done()
	}
}

// BenchmarkAdopt adopts again and again a process that lives.
func BenchmarkAdopt(b *testing.B) {
	c := open(b)
	p, err := c.Spawn(b.Context(), Command{Path: "/bin/sleep", Args: []string{"sleep", "1000"}})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		fd, err := unix.PidfdOpen(p.Pid(), 0)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Adopt(os.NewFile(uintptr(fd), "pidfd"), nil); err != nil {
			b.Skipf("after %d: %v", b.N, err) // no more descriptors
		}
	}
}

func benchmarkGroup(b *testing.B, l Limits, change ...func(*Config)) {
	c := open(b, change...)
	p, err := c.Spawn(b.Context(), Command{Path: "/bin/sleep", Args: []string{"sleep", "1000"}})
	if err != nil {
		b.Fatal(err)
	}
	home := newGroup(b, c, Limits{})
	b.ResetTimer()
	for b.Loop() {
		g, err := c.NewGroup("bench", l)
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Add(p.Pid()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := home.Add(p.Pid()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := g.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGroupAddClose(b *testing.B) { benchmarkGroup(b, Limits{}) }

func BenchmarkGroupAddCloseLimited(b *testing.B) {
	benchmarkGroup(b, Limits{Memory: 1 << 30, Processes: 100})
}

func BenchmarkGroupAddCloseTagged(b *testing.B) {
	benchmarkGroup(b, Limits{}, func(c *Config) { c.NoCgroups = true })
}

func BenchmarkKillOfFive(b *testing.B) {
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			c := open(b, m.set)
			for b.Loop() {
				b.StopTimer()
				g := newGroup(b, c, Limits{})
				startVictims(b, c, g)
				b.StartTimer()
				if err := g.Kill(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := g.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

func BenchmarkFreezeThaw(b *testing.B) {
	c := open(b)
	g := newGroup(b, c, Limits{})
	if _, err := c.Spawn(b.Context(), Command{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Group: g}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := g.Freeze(); err != nil {
			b.Fatal(err)
		}
		if err := g.Thaw(); err != nil {
			b.Fatal(err)
		}
	}
}
