package shell

import (
	"testing"

	"github.com/locusrun/locus/node/kernel"
)

// The CPU time of a program, and of the commands that it waits for, is reported for every kind
// of kernel; that of a one-shot, whose process has ended, as well.
func TestCPUTimeIsReported(t *testing.T) {
	const busy = `i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done`
	onEach(t, func(t *testing.T, b *bench) {
		s := b.session()
		s.run(":")
		c, _ := s.fork(kernel.Copy)
		once := &seat{b: b, k: b.start(kernel.OneShot)}
		for name, seat := range map[string]*seat{"session": s, "copy": c, "one-shot": once} {
			if o := seat.run(busy + "\n(" + busy + ")"); o.report.CPU <= 0 || o.code != 0 {
				t.Errorf("%s: %v of CPU time, exit %d, %v", name, o.report.CPU, o.code, o.failure)
			}
		}
		child := &seat{b: b, k: b.start(kernel.OneShot)}
		alone := &seat{b: b, k: b.start(kernel.OneShot)}
		if with, without := child.run("("+busy+"); :").report.CPU, alone.run(":").report.CPU; with <= without {
			t.Errorf("a one-shot with a busy child used %v, one without %v", with, without)
		}
	})
}
