package kernel

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MemoryFile makes a file in memory with the content. Its offset is at the beginning.
func MemoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), name)
	_, err = file.Write(content)
	if err == nil {
		_, err = file.Seek(0, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fill a file in memory: %w", err), file.Close())
	}
	return file, nil
}
