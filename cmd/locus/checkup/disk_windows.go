package checkup

import (
	"os"

	"golang.org/x/sys/windows"
)

// isWritable reports whether files can be created in a directory, by creating one.
func isWritable(dir string) bool {
	f, err := os.CreateTemp(dir, "locus-doctor-")
	if err != nil {
		return false
	}
	f.Close()
	return os.Remove(f.Name()) == nil
}

// freeSpace returns the space that this user can use, in bytes.
func freeSpace(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, err
	}
	return int64(free), nil
}
