package venv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// writeFile writes a file and sees it and its name on the disk. A kill may leave a
// part of it: whoever reads it sees whether it is whole.
func writeFile(path string, b []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir sees the names in a folder on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// syncTree sees all that was written under a folder on the disk. An environment
// has thousands of files: one flush of the file system costs a twentieth of
// flushing them one by one.
func syncTree(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return errors.Join(fmt.Errorf("venv: flush the disk: %w", err), d.Close())
	}
	return d.Close()
}
