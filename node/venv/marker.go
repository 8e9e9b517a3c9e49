package venv

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The two files of ours in an environment. The marker is written last: without it
// there is no environment.
const (
	markerName = "locus.json"
	lockName   = "locus.lock" // the uv.lock it was built by
)

// marker is what an environment says about itself.
type marker struct {
	Key     string    `json:"key"`
	Version string    `json:"python"`
	Build   string    `json:"build"`
	Created time.Time `json:"created"`
}

// readMarker reads the marker of an environment. It fails when there is none, or
// when the interpreter that it was made with is gone.
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

// marked tells whether an environment is whole and usable.
func (s *Store) marked(key string) bool {
	_, err := s.readMarker(key)
	return err == nil
}

func pythonIn(dir string) string { return filepath.Join(dir, "bin", "python") }

// pinned gives the key that a wish led to before; empty when it did not.
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
