package sandbox

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// staleDepth bounds the depth of the search for stale control groups: an earlier node may
// have been started in another group of the hierarchy.
const staleDepth = 7

// removeStale removes the control groups that dead nodes have left in a hierarchy. Each
// container's directory is locked while its node lives.
func removeStale(root string) {
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was removed meanwhile, or we may not read it
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
		slog.Debug("cannot search for stale control groups", "root", root, "error", err)
	}
}

func removeIfStale(path string) {
	if strings.HasPrefix(filepath.Base(path), nodeCgroupPrefix) {
		os.Remove(path) // fails while a node is in it
		return
	}
	lock, err := lockDir(path)
	if err != nil {
		return // its node lives or has removed it, or it belongs to another user
	}
	defer lock.Close()
	if err := removeCgroup(path); err != nil {
		slog.Debug("cannot remove a stale control group", "dir", path, "error", err)
	}
}

// lockDir takes the lock that marks a directory as in use. It is released when the process
// ends, in whatever way.
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
