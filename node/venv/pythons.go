package venv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// removedPython is the prefix of the folder of a Python that is being removed. uv ignores names
// that start with a dot.
const removedPython = ".removed-"

// collectPythons removes the Pythons that uv has installed and that no environment uses. It does
// nothing while a build runs, which may be about to use one. It returns the number of bytes
// freed on the disk.
func (s *Store) collectPythons() (freed int64, err error) {
	l, err := tryLock(s.path("cache.lock"), lockAlone)
	if l == nil || err != nil {
		return 0, err
	}
	defer l.release()
	// Compare real paths, since links may lead to the folder.
	dir, err := filepath.EvalSymlinks(s.path("python"))
	if err != nil {
		return 0, fmt.Errorf("venv: %w", err)
	}
	used, err := s.pythonsInUse(dir)
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("venv: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		removed := strings.HasPrefix(name, removedPython)
		if !e.IsDir() || used[name] || strings.HasPrefix(name, ".") && !removed {
			continue
		}
		d := &usage{bytes: map[file]int64{}, links: map[file]int{}}
		if _, err := d.add(filepath.Join(dir, name)); err != nil {
			return freed, err
		}
		trash := filepath.Join(dir, name)
		if !removed {
			trash = filepath.Join(dir, removedPython+name)
			if err := errors.Join(os.RemoveAll(trash), os.Rename(filepath.Join(dir, name), trash)); err != nil {
				return freed, fmt.Errorf("venv: move a Python away: %w", err)
			}
		}
		if err := os.RemoveAll(trash); err != nil {
			return freed, fmt.Errorf("venv: remove a Python: %w", err)
		}
		freed += d.total
		s.cfg.Log.Info("a Python was collected", "name", name)
	}
	return freed, removeDeadLinks(dir, entries)
}

// pythonsInUse returns the folders in dir whose Pythons environments use.
func (s *Store) pythonsInUse(dir string) (map[string]bool, error) {
	used := map[string]bool{}
	for _, key := range s.keys() {
		python, err := filepath.EvalSymlinks(filepath.Join(s.envDir(key), "bin", "python"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the environment or its Python is gone
		}
		if err != nil {
			return nil, fmt.Errorf("venv: find the Python of an environment: %w", err)
		}
		if within, ok := strings.CutPrefix(python, dir+string(filepath.Separator)); ok {
			name, _, _ := strings.Cut(within, string(filepath.Separator))
			used[name] = true
		}
	}
	return used, nil
}

// removeDeadLinks removes the links to removed Pythons.
func removeDeadLinks(dir string, entries []os.DirEntry) error {
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		link := filepath.Join(dir, e.Name())
		if _, err := os.Stat(link); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.Remove(link); err != nil {
			return fmt.Errorf("venv: remove the link to a Python: %w", err)
		}
	}
	return nil
}
