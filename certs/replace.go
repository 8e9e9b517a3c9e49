package certs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// ReplaceFile replaces a file atomically by one of mode 0600: a crash leaves the old file or
// the new one. The new one is synced to disk when it returns. The directory must exist. It is
// not safe for concurrent use on one file.
func ReplaceFile(path string, content []byte) (err error) {
	next := path + ".new"
	// Remove what a crash may have left, whatever its mode.
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

// SyncDir syncs a directory, so that new names in it survive a crash. On Windows it does
// nothing: directories cannot be flushed there (golang/go#75541), and the file system journals
// names itself.
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
