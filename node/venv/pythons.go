package venv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// removedPython begins the name of a Python that is being removed; uv looks at no name
// that begins with a dot.
const removedPython = ".removed-"

// collectPythons removes the Pythons that uv installed and that no environment is made
// with, if no build is at work, which may be about to use one. It gives the bytes that
// the disk got back.
func (s *Store) collectPythons() (freed int64, err error) {
	l, err := tryLock(s.path("cache.lock"), lockAlone)
	if l == nil || err != nil {
		return 0, err
	}
	defer l.release()
	// As environments name it, whatever links lead to it.
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
				return freed, fmt.Errorf("venv: take a Python away: %w", err)
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

// pythonsInUse names the folders of dir that the Pythons of environments are in.
func (s *Store) pythonsInUse(dir string) (map[string]bool, error) {
	used := map[string]bool{}
	for _, key := range s.keys() {
		python, err := filepath.EvalSymlinks(filepath.Join(s.envDir(key), "bin", "python"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // its Python is gone, or it is
		}
		if err != nil {
			return nil, fmt.Errorf("venv: look at what an environment is made with: %w", err)
		}
		if within, ok := strings.CutPrefix(python, dir+string(filepath.Separator)); ok {
			name, _, _ := strings.Cut(within, string(filepath.Separator))
			used[name] = true
		}
	}
	return used, nil
}

// removeDeadLinks takes away the names by which Pythons were known that are gone.
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
			return fmt.Errorf("venv: remove the name of a Python: %w", err)
		}
	}
	return nil
}
