package sandbox

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// mapUsers fills in the users of the user namespace that a process is about to
// be born in. Every user is itself inside. Root maps all users that it has; an
// ordinary user may map only itself, and is given the capabilities by name, since
// exec takes them from all but root.
func mapUsers(sys *syscall.SysProcAttr) {
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uids, uerr := idMap("/proc/self/uid_map")
		gids, gerr := idMap("/proc/self/gid_map")
		if uerr == nil && gerr == nil {
			sys.UidMappings, sys.GidMappings = uids, gids
			sys.GidMappingsEnableSetgroups = true
			return
		}
	}
	sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	if uid != 0 {
		sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE}
	}
}

// idMap reads what ids there are here and maps each to itself.
func idMap(path string) ([]syscall.SysProcIDMap, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var ids []syscall.SysProcIDMap
	for line := range strings.Lines(string(b)) {
		var inside, outside, size int
		if _, err := fmt.Sscan(line, &inside, &outside, &size); err != nil {
			return nil, fmt.Errorf("sandbox: %s: %w", path, err)
		}
		ids = append(ids, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return ids, nil
}
