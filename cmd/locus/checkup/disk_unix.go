//go:build unix

package checkup

import "golang.org/x/sys/unix"

// isWritable says whether files can be made in a directory.
func isWritable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }

// freeSpace gives what there is for this user, in bytes.
func freeSpace(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil
}
