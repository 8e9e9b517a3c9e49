package member

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Exists reports whether a directory holds a membership. It only reads.
func Exists(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, stageFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
