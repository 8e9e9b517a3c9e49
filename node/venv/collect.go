package venv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// useShared keeps a collection from removing what builds share, the cache and the Pythons
// that uv has installed, until the lock is released.
func (s *Store) useShared(ctx context.Context, say func(string)) (*fileLock, error) {
	return waitFor(ctx, s.path("cache.lock"), lockShared, func() { say("the cache is being emptied; waiting for it") })
}

// Collect removes environments that were not used for Config.MaxAge. If the environments and
// the cache then still exceed Config.MaxBytes, it empties the cache, unless a build is using
// it, and removes environments, the least recently used first, until they do not. It also
// removes the Pythons that uv has installed and that no environment needs any more. It never
// removes what any process is using. It returns the number of bytes freed on the disk.
func (s *Store) Collect(ctx context.Context) (freed int64, err error) {
	if err := s.sweep(); err != nil {
		return 0, err
	}
	unused, err := s.unused()
	if err != nil {
		return 0, err
	}
	d := &usage{bytes: map[file]int64{}, links: map[file]int{}}
	cache, err := d.add(s.path("cache"))
	if err != nil {
		return 0, err
	}
	files := map[string][]file{}
	for _, key := range s.keys() {
		if files[key], err = d.add(s.envDir(key)); err != nil {
			return 0, err
		}
	}
	before := d.total
	remove := func(u lastUse) error {
		gone, err := s.removeUnused(u.key)
		if gone {
			d.drop(files[u.key])
			s.cfg.Log.Info("an environment was collected", "key", u.key, "last_used", u.at)
		}
		return err
	}
	tooBig := func() bool { return s.cfg.MaxBytes > 0 && d.total > s.cfg.MaxBytes }
	emptied := false
	for _, u := range unused {
		if ctx.Err() != nil {
			return before - d.total, context.Cause(ctx)
		}
		if s.cfg.MaxAge > 0 && time.Since(u.at) > s.cfg.MaxAge {
			if err := remove(u); err != nil {
				return before - d.total, err
			}
			continue
		}
		if !emptied && tooBig() {
			emptied = true
			if err := s.emptyCache(func() { d.drop(cache) }); err != nil {
				return before - d.total, err
			}
		}
		if tooBig() {
			if err := remove(u); err != nil {
				return before - d.total, err
			}
		}
	}
	if !emptied && tooBig() {
		err = s.emptyCache(func() { d.drop(cache) })
	}
	pythons, failed := s.collectPythons()
	return before - d.total + pythons, errors.Join(err, failed, s.unpin())
}

// keys lists the keys of the environments.
func (s *Store) keys() []string {
	entries, err := os.ReadDir(s.path("envs"))
	if err != nil {
		return nil // sweep has reported the error
	}
	var keys []string
	for _, e := range entries {
		if keyName.MatchString(e.Name()) {
			keys = append(keys, e.Name())
		}
	}
	return keys
}

// lastUse is the time at which an environment was last used.
type lastUse struct {
	key string
	at  time.Time
}

// unused lists the environments in the order of their last use. It includes those that are in
// use; removeUnused checks that.
func (s *Store) unused() ([]lastUse, error) {
	var list []lastUse
	for _, key := range s.keys() {
		info, err := os.Stat(s.useLock(key))
		if errors.Is(err, fs.ErrNotExist) {
			info, err = os.Stat(filepath.Join(s.envDir(key), markerName))
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is being published
		}
		if err != nil {
			return nil, fmt.Errorf("venv: %w", err)
		}
		list = append(list, lastUse{key, info.ModTime()})
	}
	slices.SortFunc(list, func(a, b lastUse) int { return a.at.Compare(b.at) })
	return list, nil
}

// removeUnused removes an environment if nobody uses it.
func (s *Store) removeUnused(key string) (gone bool, err error) {
	var trash string
	err = s.alone(s.useLock(key), func() (err error) {
		if s.marked(key) { // otherwise it is being built
			trash, err = s.discard(key)
			gone = err == nil
		}
		return err
	})
	return gone, errors.Join(err, os.RemoveAll(trash))
}

// emptyCache empties uv's cache, if no build is using it. Environments keep the files that
// they share with it, which are hard links.
func (s *Store) emptyCache(emptied func()) error {
	l, err := tryLock(s.path("cache.lock"), lockAlone)
	if l == nil || err != nil {
		return err
	}
	defer l.release()
	if err := os.RemoveAll(s.path("cache")); err != nil {
		return fmt.Errorf("venv: empty the cache: %w", err)
	}
	emptied()
	if err := os.Mkdir(s.path("cache"), 0o755); err != nil {
		return fmt.Errorf("venv: empty the cache: %w", err)
	}
	return nil
}

// unpin removes the pins that lead to removed environments.
func (s *Store) unpin() error {
	pins, err := os.ReadDir(s.path("pins"))
	if err != nil {
		return fmt.Errorf("venv: %w", err)
	}
	for _, p := range pins {
		if s.marked(s.pinned(p.Name())) {
			continue
		}
		if err := os.Remove(s.path("pins", p.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("venv: %w", err)
		}
	}
	return nil
}

// file identifies a file, independent of its names.
type file struct{ device, inode uint64 }

// usage measures the disk space of folders. It counts a file with several names once.
type usage struct {
	bytes map[file]int64
	links map[file]int
	total int64
}

// add adds a folder, and returns its files for drop.
func (u *usage) add(dir string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a concurrent build has renamed or removed it
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		f := file{uint64(st.Dev), st.Ino}
		if u.links[f]++; u.links[f] == 1 {
			u.bytes[f] = st.Blocks * 512
			u.total += u.bytes[f]
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("venv: measure the disk usage: %w", err)
	}
	return files, nil
}

// drop subtracts a folder's files.
func (u *usage) drop(files []file) {
	for _, f := range files {
		if u.links[f]--; u.links[f] == 0 {
			u.total -= u.bytes[f]
		}
	}
}
