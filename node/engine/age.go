package engine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/kernel"
)

// ticksPerSecond is the unit of process start times in /proc. It is 100 on every
// Linux that Go runs on.
const ticksPerSecond = 100

// now gives the time since boot in the unit of process start times.
func now() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0 // no clock: every process counts as younger
	}
	return uint64(ts.Sec)*ticksPerSecond + uint64(ts.Nsec)/(1e9/ticksPerSecond)
}

// olderThan lists the kernel's own process and those of its group that had surely
// started before mark: start times are coarse.
func olderThan(k kernel.Kernel, mark uint64) ([]int, error) {
	pids, err := k.Group().Pids()
	if err != nil {
		return nil, err
	}
	keep := []int{k.Process().Pid()}
	for _, pid := range pids {
		if started, err := startTime(pid); err == nil && started < mark {
			keep = append(keep, pid)
		}
	}
	return keep, nil
}

// startTime reads when a process started, in ticks since boot.
func startTime(pid int) (uint64, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The second field is the program's name in brackets and may hold anything.
	_, rest, found := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	fields := bytes.Fields(rest)
	if !found || len(fields) < 20 {
		return 0, fmt.Errorf("read the start of process %d: /proc gives %d fields", pid, len(fields))
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}
