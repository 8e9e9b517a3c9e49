package sandbox

import "golang.org/x/sys/unix"

// Limits bounds what a set of processes may use together. The zero value has no limits.
type Limits struct {
	// Memory is in bytes and includes swap; 0 means no limit.
	Memory int64
	// Processes counts processes and threads; 0 means no limit. At the limit fork fails
	// with EAGAIN.
	Processes int
}

// descriptorLimit is the most descriptors that one process of a container may have open,
// not counting KernelFiles.
const descriptorLimit = 8192

// KernelFiles is how many descriptors a kernel's process needs in addition to those of its
// code: those that are sent with a request, and those that a fork needs.
const KernelFiles = 64

// setKeeperLimits sets the resource limits and the container's tag of the keeper, which all
// processes that it starts inherit.
func setKeeperLimits(containerTag uint64) error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return err
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	// The soft limit is lower than the hard one, so that a kernel without the privilege to
	// raise a hard limit can still raise the soft one by KernelFiles.
	most := min(files.Max, descriptorLimit+KernelFiles)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most - min(most/2, KernelFiles), Max: most}); err != nil {
		return err
	}
	return setTag(0, tag{container: containerTag, group: containerTag})
}
