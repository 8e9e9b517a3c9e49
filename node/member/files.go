package member

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quic-go/quic-go"

	"github.com/locusrun/locus/certs"
)

// The files in a member's directory; package certs keeps the credentials there too.
const (
	stageFile     = "stage"
	joinKeyFile   = "join.key"
	sealKeyFile   = "ca.key"
	authorityFile = "ca.sealed"
	resetKeyFile  = "reset.key"
	gossipKeyFile = "gossip.key"
	peersFile     = "peers.json"
)

// stage says how far this process has come in becoming a member.
type stage string

const (
	// founding: this node is to create the mesh's registry.
	founding stage = "founding"
	// joining: the mesh exists, and this node does not have its registry yet.
	joining stage = "joining"
	// settled: this node has had the registry on its disk.
	settled stage = "settled"
)

func (m *Member) path(name string) string { return filepath.Join(m.cfg.Dir, name) }

func (m *Member) readStage() (stage, error) {
	b, err := os.ReadFile(m.path(stageFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("member: %w", err)
	}
	s := stage(strings.TrimSpace(string(b)))
	if s != founding && s != joining && s != settled {
		return "", fmt.Errorf("member: %s holds %.40q, which is no stage", m.path(stageFile), s)
	}
	return s, nil
}

// write replaces a file atomically, see certs.ReplaceFile.
func (m *Member) write(name string, content []byte) error {
	if err := certs.ReplaceFile(m.path(name), content); err != nil {
		return fmt.Errorf("member: %w", err)
	}
	return nil
}

// keptBytes reads a secret of fixed length, or generates and stores it.
func (m *Member) keptBytes(name string, into []byte) error {
	b, err := os.ReadFile(m.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, _ = rand.Read(into) // crypto/rand never fails
		return m.write(name, into)
	case err != nil:
		return fmt.Errorf("member: %w", err)
	case len(b) != len(into):
		return fmt.Errorf("member: %s has %d bytes, want %d", m.path(name), len(b), len(into))
	}
	copy(into, b)
	return nil
}

// resetKey returns the QUIC stateless reset key. It survives restarts, so that peers notice
// a restart at once.
func (m *Member) resetKey() (*quic.StatelessResetKey, error) {
	key := new(quic.StatelessResetKey)
	return key, m.keptBytes(resetKeyFile, key[:])
}
