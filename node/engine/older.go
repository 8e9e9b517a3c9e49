package engine

import (
	"time"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/sandbox"
)

// olderThan returns the kernel's own process, and those processes of its group that had
// certainly started before mark, a time of sandbox.SinceBoot. Start times are coarse: a
// process that started in the same tick is not included.
func olderThan(k kernel.Kernel, mark time.Duration) ([]int, error) {
	pids, err := k.Group().Pids()
	if err != nil {
		return nil, err
	}
	keep := []int{k.Process().Pid()}
	for _, pid := range pids {
		if stat, err := sandbox.ReadStat(pid); err == nil && stat.Start < mark {
			keep = append(keep, pid)
		}
	}
	return keep, nil
}
