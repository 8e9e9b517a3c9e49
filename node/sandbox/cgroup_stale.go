package sandbox

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// staleDepth bounds how deep in a hierarchy stale control groups are looked for.
// An earlier node may have been started from another place in it.
const staleDepth = 7

// removeStale removes what nodes that died have left in a hierarchy. Each
// container's directory is locked for as long as its node lives.
func removeStale(root string) {
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it went away meanwhile, or is not ours to see
		}
		if !e.IsDir() {
			return nil
		}
		if strings.HasPrefix(e.Name(), cgroupPrefix) {
			removeIfStale(path)
			return fs.SkipDir
		}
		if strings.Count(path[len(root):], "/") >= staleDepth {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		slog.Debug("stale control groups cannot be looked for", "root", root, "error", err)
	}
}

func removeIfStale(path string) {
	if strings.HasPrefix(filepath.Base(path), nodeCgroupPrefix) {
		os.Remove(path) // refused while a node is in it
		return
	}
	lock, err := lockDir(path)
	if err != nil {
		return // its node lives, or has removed it, or it is another user's
	}
	defer lock.Close()
	if err := removeCgroup(path); err != nil {
		slog.Debug("a stale control group stays", "dir", path, "error", err)
	}
}

// lockDir takes the lock that says that the directory is in use. The kernel lets
// go of it when the process ends, however it ends.
func lockDir(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
