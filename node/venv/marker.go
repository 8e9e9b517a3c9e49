package venv

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The two files that the store adds to an environment. The marker is written last: an
// environment without it does not count.
const (
	markerName = "locus.json"
	lockName   = "locus.lock" // the uv.lock of the build
)

// marker describes an environment.
type marker struct {
	Key     string    `json:"key"`
	Version string    `json:"python"`
	Build   string    `json:"build"`
	Created time.Time `json:"created"`
}

// readMarker reads the marker of an environment. It fails if there is none, or if the
// environment's interpreter is gone.
func (s *Store) readMarker(key string) (marker, error) {
	var m marker
	b, err := os.ReadFile(filepath.Join(s.envDir(key), markerName))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, err
	}
	if m.Key != key {
		return m, fmt.Errorf("venv: the environment %s says that it is %s", key, m.Key)
	}
	_, err = os.Stat(pythonIn(s.envDir(key)))
	return m, err
}

// marked reports whether an environment is complete and usable.
func (s *Store) marked(key string) bool {
	_, err := s.readMarker(key)
	return err == nil
}

func pythonIn(dir string) string { return filepath.Join(dir, "bin", "python") }

// pinned returns the key of the environment that was built for a wish, or an empty string.
func (s *Store) pinned(wish string) string {
	b, err := os.ReadFile(s.path("pins", wish))
	if err != nil || !keyName.Match(b) {
		return ""
	}
	return string(b)
}

func (s *Store) pin(wish, key string) error {
	return writeFile(s.path("pins", wish), []byte(key), 0o644)
}
