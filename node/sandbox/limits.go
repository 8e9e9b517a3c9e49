package sandbox

import "golang.org/x/sys/unix"

// Limits bounds what a group of processes may use together. The zero value sets
// no limit.
type Limits struct {
	// Memory is in bytes and counts swap too; 0 sets none.
	Memory int64
	// Processes counts processes and threads; 0 sets none. At the limit fork
	// gives EAGAIN.
	Processes int
}

// descriptorLimit is the most descriptors that one process of a container may
// have open, without those that a kernel needs for itself.
const descriptorLimit = 8192

// KernelFiles is how many descriptors a kernel's process needs beside those of its code:
// what it is sent with a request, and what it needs to copy itself.
const KernelFiles = 64

// setKeeperLimits sets the limits of one process that a keeper and all that it
// starts live under, and marks them with the container's tag.
func setKeeperLimits(containerTag uint64) error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return err
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	// Whoever has no right to raise a hard limit can still raise the soft one up to it.
	most := min(files.Max, descriptorLimit+KernelFiles)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most - min(most/2, KernelFiles), Max: most}); err != nil {
		return err
	}
	return setTag(0, tag{container: containerTag, group: containerTag})
}
