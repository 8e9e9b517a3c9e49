package sandbox

import (
	"crypto/rand"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// A tag marks every process of a container, and of a group within it. It is stored in the
// resource limit RLIMIT_RTTIME, which survives fork, exec, setsid and a change of parent:
// the hard limit is the container's tag and the soft limit the group's. The values are so
// large (tens of thousands of years) that the limit never takes effect and no ordinary
// process has them.
//
// A program can lower its own limits and so remove its tag. Tags therefore find everything
// that does not hide on purpose; what must hold against an adversary is based on namespaces
// and control groups.
type tag struct {
	container uint64
	group     uint64
}

const (
	containerTagBit = 1 << 61
	groupTagBit     = 1 << 60
)

// newContainerTag returns a random tag that is unique on the machine.
func newContainerTag() uint64 { return containerTagBit | random48() }

// newGroupTag returns a random tag for a group. It is below every container's tag, because a
// soft limit cannot exceed the hard one.
func newGroupTag() uint64 { return groupTagBit | random48() }

func random48() uint64 {
	var b [8]byte
	// crypto/rand.Read never fails: it crashes the program instead.
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) >> 16
}

// setTag sets the tag of a process; pid 0 is this process.
func setTag(pid int, t tag) error {
	return unix.Prlimit(pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: t.group, Max: t.container}, nil)
}

// tagOf reads the tag of a process. A process without one has numbers that belong to no
// container.
func tagOf(pid int) (tag, error) {
	var l unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &l); err != nil {
		return tag{}, err
	}
	return tag{container: l.Max, group: l.Cur}, nil
}
