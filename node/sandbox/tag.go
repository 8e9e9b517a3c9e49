package sandbox

import (
	"crypto/rand"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// A tag marks every process of a container, and within it every process of a
// group, in a place that fork, exec, setsid and a change of parent all keep: the
// limit on the real-time run time. The values are so large (tens of thousands of
// years) that the limit itself never bites, and ordinary processes never have
// it. The hard limit is the container's tag and the soft limit is the group's.
//
// A program may lower its own limits and so take off its mark. Tags therefore
// find everything that was not trying to hide; what must hold against an
// adversary stands on namespaces and cgroups.
type tag struct {
	container uint64
	group     uint64
}

const (
	containerTagBit = 1 << 61
	groupTagBit     = 1 << 60
)

// newContainerTag draws a tag that is unique on the machine.
func newContainerTag() uint64 { return containerTagBit | random48() }

// newGroupTag draws a group's tag. It is below every container's tag, since a
// soft limit cannot be above the hard one.
func newGroupTag() uint64 { return groupTagBit | random48() }

func random48() uint64 {
	var b [8]byte
	// crypto/rand.Read never fails: it ends the program instead.
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) >> 16
}

// setTag marks a process; pid 0 is the caller.
func setTag(pid int, t tag) error {
	return unix.Prlimit(pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: t.group, Max: t.container}, nil)
}

// tagOf reads the mark of a process. A process without one gives numbers that
// belong to no container.
func tagOf(pid int) (tag, error) {
	var l unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &l); err != nil {
		return tag{}, err
	}
	return tag{container: l.Max, group: l.Cur}, nil
}
