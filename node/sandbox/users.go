package sandbox

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// mapUsers sets the user mappings of a process that is created in a new user namespace.
// Every user keeps its id. Root maps all users that it has. An ordinary user may map only
// itself, and gets the capabilities as ambient ones, because exec drops others unless the
// user is root.
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

// idMap reads which ids exist in this user namespace and maps each to itself.
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
