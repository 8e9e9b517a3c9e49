package sandbox

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What is read and written past the os package is what it would read and write, whatever
// the length, and so are the errors.
func TestRawReadsAndWritesMatchPackageOs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, n := range []int{0, 1, 511, 512, 513, 1024, 100_000} {
		want := bytes.Repeat([]byte{'x'}, n)
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readReady(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %d, %v", n, len(got), err)
		}
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := writeReady(path, "text"); err != nil {
		t.Fatal(err)
	}
	if got, err := readReady(path); err != nil || string(got) != "text" {
		t.Errorf("got %q, %v", got, err)
	}
	_, read := readReady(path + "/none")
	missing := writeReady(path+"-none", "text")
	var named *os.PathError
	if !errors.As(read, &named) || !errors.Is(missing, os.ErrNotExist) {
		t.Errorf("got %v and %v", read, missing)
	}
	if _, err := os.Stat(path + "-none"); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file was made by writing one that was not there")
	}
}
