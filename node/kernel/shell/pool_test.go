package shell

import (
	"testing"

	"github.com/locusrun/locus/node/kernel"
)

// ready counts the kernels that are started ahead of use.
func (f *Family) ready() (n int) {
	f.once.mu.Lock()
	n += len(f.once.idle)
	f.once.mu.Unlock()
	f.fresh.mu.Lock()
	defer f.fresh.mu.Unlock()
	return n + len(f.fresh.idle)
}

// A family is in use by what was given out and by copies, not by what is ready. A cold
// one has nothing ready, serves all the same, and is warm again when it may be.
func TestFamilyIsUsedAndCold(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		f := b.family
		all := f.once.size + f.fresh.size
		eventually(t, "it is warm, and nothing is in use", func() bool { return f.ready() == all && !f.Used() })
		s := b.session()
		c, _ := s.fork(kernel.Copy)
		eventually(t, "it is warm again", func() bool { return f.ready() == all })
		if !f.Used() {
			t.Error("a session is not seen")
		}
		s.k.Kill()
		if !f.Used() {
			t.Error("a copy that outlives its session is not seen")
		}
		c.k.Kill()
		eventually(t, "nothing is in use", func() bool { return !f.Used() })

		f.Warm(false)
		eventually(t, "nothing is there", func() bool { return f.ready() == 0 && !f.Used() })
		b.session().want("echo cold", "cold\n", 0)
		if o := b.once("echo once"); o.out != "once\n" {
			t.Errorf("a one-shot printed %q", o.out)
		}
		if n := f.ready(); n != 0 {
			t.Errorf("%d are ready in a cold family", n)
		}
		f.Warm(true)
		b.once(":")
		b.session()
		eventually(t, "it is warm once more", func() bool { return f.ready() == all })
	})
}

// Code may stop what waits for the agent's next programs.
func TestShellsThatWereStoppedAheadOfUseServe(t *testing.T) {
	onEach(t, func(t *testing.T, b *bench) {
		f := b.family
		s := b.session()
		eventually(t, "it is warm", func() bool { return f.ready() == f.once.size+f.fresh.size })
		s.want("kill -STOP -1; echo $?", "0\n", 0)
		if o := b.once("echo once"); o.out != "once\n" {
			t.Errorf("a one-shot gave %q, %v", o.out, o.failure)
		}
		b.session().want("echo new", "new\n", 0)
		s.want("echo on", "on\n", 0)
	})
}
