package certs

import (
	"os"
	"path/filepath"
	"testing"
)

func TestJoinKeyIsTheSameUntilItIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "join.key")
	first, err := JoinKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file is %v, %v", info, err)
	}
	if again, err := JoinKey(path); err != nil || !again.Equal(first) {
		t.Errorf("another key after an interruption, %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if next, err := JoinKey(path); err != nil || next.Equal(first) {
		t.Errorf("the same key after its removal, %v", err)
	}
}

func TestJoinKeyRefusesADamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "join.key")
	if err := os.WriteFile(path, []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := JoinKey(path); err == nil {
		t.Error("a damaged file was taken for a key, or replaced")
	}
}
