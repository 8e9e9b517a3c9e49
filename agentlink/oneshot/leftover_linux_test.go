package oneshot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/surfaces"
)

// Leftovers that cannot be removed do not keep a machine from starting.
func TestLeftoversThatCannotBeRemovedDoNotPreventAStart(t *testing.T) {
	dir := t.TempDir()
	stuck := filepath.Join(dir, "call-1", "work")
	if err := os.MkdirAll(stuck, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", stuck, "tmpfs", 0, ""); err != nil {
		t.Skipf("nothing can be made that cannot be removed: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(stuck, 0); err != nil {
			t.Error(err)
		}
	})
	r, err := New(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	res, out := run(t, r, surfaces.Sh, "echo runs")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if out.stdout() != "runs\n" {
		t.Errorf("got %+v", res)
	}
	if _, err := os.Stat(stuck); errors.Is(err, os.ErrNotExist) {
		t.Error("it was removed after all")
	}
}
