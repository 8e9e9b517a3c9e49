package certs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// ReplaceFile writes a file of mode 0600 whole or not at all: a crash leaves the old
// file or the new one, on the disk when this returns. The folder must exist. Not for
// use by two at once on one file.
func ReplaceFile(path string, content []byte) (err error) {
	next := path + ".new"
	// What a crash left behind goes first, whatever its mode.
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes new names in a folder last. Windows flushes no folders: it denies access
// to who asks for it (golang/go#75541), and its file system logs names itself.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
