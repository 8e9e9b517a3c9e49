package certs

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCredentialsAreKept(t *testing.T) {
	dir := t.TempDir()
	if _, err := LoadCredentials(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	old, next := rotated(t)
	c := member(t, next, node("n1"))
	must(t, 0, c.SetTrust(trustIn(next, old)))
	// A crash may have left half a file, of any mode.
	left := filepath.Join(dir, credentialsFile+".new")
	must(t, 0, os.WriteFile(left, []byte("half"), 0o444))
	for range 2 {
		must(t, 0, SaveCredentials(dir, c))
		got, err := LoadCredentials(dir)
		must(t, got, err)
		if got.Identity() != c.Identity() || !got.Leaf().Equal(c.Leaf()) || len(got.Certificate().Certificate) != 2 ||
			len(got.Trust().Roots) != 2 || !got.Trust().Issuer().Equal(next.Root()) ||
			!got.Certificate().PrivateKey.(ed25519.PrivateKey).Equal(c.Certificate().PrivateKey) {
			t.Error("other credentials came back")
		}
		info, err := os.Stat(filepath.Join(dir, credentialsFile))
		must(t, info, err)
		if info.Mode() != 0o600 {
			t.Errorf("mode %v", info.Mode())
		}
		must(t, 0, c.Replace(issue(t, next, node("n1"))))
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestFailedSaveKeepsTheOldFile(t *testing.T) {
	dir := t.TempDir()
	a := authority(t)
	c := member(t, a, node("n1"))
	must(t, 0, SaveCredentials(dir, c))
	was, err := os.ReadFile(filepath.Join(dir, credentialsFile))
	must(t, was, err)
	// A directory in the way of the new file, which cannot be removed as a file.
	blocked := filepath.Join(dir, credentialsFile+".new")
	must(t, 0, os.MkdirAll(filepath.Join(blocked, "x"), 0o700))
	must(t, 0, c.Replace(issue(t, a, node("n1"))))
	if err := SaveCredentials(dir, c); err == nil {
		t.Error("saved")
	}
	if is, err := os.ReadFile(filepath.Join(dir, credentialsFile)); err != nil || !bytes.Equal(is, was) {
		t.Errorf("the old file changed, %v", err)
	}
	if err := SaveCredentials(filepath.Join(dir, "nowhere"), c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func TestDamagedFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, credentialsFile)
	must(t, 0, SaveCredentials(dir, member(t, authority(t), node("n1"))))
	whole, err := os.ReadFile(path)
	must(t, whole, err)
	whole = bytes.TrimSpace(whole)
	refused := func(what string, content []byte) {
		t.Helper()
		must(t, 0, os.WriteFile(path, content, 0o600))
		if _, err := LoadCredentials(dir); !errors.Is(err, ErrBadCredentials) && !errors.Is(err, ErrBadTrust) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for at := 0; at < len(whole); at += 7 {
		refused("cut", whole[:at])
	}
	other := t.TempDir()
	must(t, 0, SaveCredentials(other, member(t, authority(t), node("n1"))))
	mixed, err := os.ReadFile(filepath.Join(other, credentialsFile))
	must(t, mixed, err)
	cert := []byte("-----BEGIN CERTIFICATE")
	refused("the key of another", append(mixed[:bytes.Index(mixed, cert):bytes.Index(mixed, cert)], whole[bytes.Index(whole, cert):]...))
	refused("too long", append(bytes.Clone(whole), make([]byte, maxPEM)...))
	refused("another block", append([]byte("-----BEGIN X-----\n-----END X-----\n"), whole...))
}

func TestExpiredCredentialsAreLoaded(t *testing.T) {
	dir, a := t.TempDir(), authority(t)
	c := member(t, a, node("n1"))
	must(t, 0, SaveCredentials(dir, c))
	late := func() time.Time { return time.Now().Add(1000 * time.Hour) }
	got, err := LoadCredentials(dir, WithClock(late))
	must(t, got, err)
	if m := meet(t, got.Server("p/1"), c.Client(nil, "p/1")); !errors.Is(m.server, ErrExpired) {
		t.Errorf("the clock is not used: %v", m.server)
	}
}
