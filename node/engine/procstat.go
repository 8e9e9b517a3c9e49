package engine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/kernel"
)

// ticksPerSecond is the unit of process start times in /proc. It is 100 on every Linux port
// of Go.
const ticksPerSecond = 100

// now returns the time since boot in ticks, the unit of process start times.
func now() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0 // no clock: every process counts as younger
	}
	return uint64(ts.Sec)*ticksPerSecond + uint64(ts.Nsec)/(1e9/ticksPerSecond)
}

// olderThan returns the kernel's own process, and those processes of its group that had
// certainly started before mark. Start times are coarse: a process that started in the same
// tick is not included.
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
	fields, err := procStat(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(fields[22-firstStat]), 10, 64)
}

// processorTime returns the CPU time of a process with all its threads, in ticks, and
// whether it is alive and not a zombie. For a process that does not exist it returns 0 and
// false.
func processorTime(pid int) (used uint64, lives bool) {
	fields, err := procStat(pid)
	if err != nil {
		return 0, false
	}
	for _, field := range fields[14-firstStat : 16-firstStat] {
		if ticks, err := strconv.ParseUint(string(field), 10, 64); err == nil {
			used += ticks
		}
	}
	state := fields[3-firstStat][0]
	return used, state != 'Z' && state != 'X'
}

// firstStat is the number of the first field that procStat returns, counted as in proc(5).
const firstStat = 3

// procStat returns the fields of /proc/PID/stat that follow the program's name, at least up
// to the start time. The name, in brackets, may contain any characters.
func procStat(pid int) ([][]byte, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil, err
	}
	_, rest, found := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	fields := bytes.Fields(rest)
	if !found || len(fields) <= 22-firstStat {
		return nil, fmt.Errorf("read the stat of process %d: /proc gives %d fields", pid, len(fields))
	}
	return fields, nil
}
