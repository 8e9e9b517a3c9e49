package client

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestFilesAreReadAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "in.bin")
	if err := os.WriteFile(at, []byte{0, 255, '\n'}, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := ReadFile("data/in.bin", at); err != nil || f.Name != "data/in.bin" || string(f.Data) != "\x00\xff\n" {
		t.Errorf("got %+v, %v", f, err)
	}
	long := filepath.Join(dir, "long")
	if err := os.WriteFile(long, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(long, surfaces.MaxFilesBytes+1); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]error{filepath.Join(dir, "none"): fs.ErrNotExist, long: ErrFileSize} {
		var failed *FileError
		if _, err := ReadFile("x", from); !errors.As(err, &failed) || failed.Name != from || !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", from, err, want)
		}
	}
	if _, err := ReadFile("x", dir); err == nil {
		t.Error("a folder was read as a file")
	}
}

func TestFilesAreSavedInTheFolderAlone(t *testing.T) {
	above := t.TempDir()
	dir := filepath.Join(above, "kept")
	files := []surfaces.File{surfaces.NewFile("out/a.txt", []byte("one")), surfaces.NewFile("out/deep/er/b", nil)}
	names, err := SaveFiles(dir, files, false)
	if err != nil || !slices.Equal(names, []string{"a.txt", "deep/er/b"}) {
		t.Fatalf("got %v, %v", names, err)
	}
	if got, want := content(t, dir, "a.txt"), "one"; got != want {
		t.Errorf("a.txt has %q, want %q", got, want)
	}

	// What is there stays, unless the caller says otherwise; then too nothing is left half done.
	again := []surfaces.File{surfaces.NewFile("out/new", nil), surfaces.NewFile("out/a.txt", []byte("2"))}
	if _, err := SaveFiles(dir, again, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part was written: %v", err)
	}
	if _, err := SaveFiles(dir, again, true); err != nil || content(t, dir, "a.txt") != "2" {
		t.Errorf("%v, a.txt has %q", err, content(t, dir, "a.txt"))
	}

	// What a machine makes up.
	for _, name := range []string{"../escape", "out/../../escape", "out/../escape", "/escape", "out//escape", "out/", "out", "escape", `out/..\escape`, "out/c:escape", "out/a\nb", ""} {
		if _, err := SaveFiles(dir, []surfaces.File{surfaces.NewFile(name, []byte("x"))}, true); !errors.Is(err, ErrFileName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	forged := surfaces.NewFile("out/f", []byte("x"))
	forged.Data = []byte("y")
	if _, err := SaveFiles(dir, []surfaces.File{forged}, true); !errors.Is(err, ErrFileDigest) {
		t.Errorf("got %v", err)
	}
	if err := os.Symlink(above, filepath.Join(dir, "way")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(above, "escape"), filepath.Join(dir, "file")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"out/way/escape", "out/file"} {
		if _, err := SaveFiles(dir, []surfaces.File{surfaces.NewFile(name, []byte("x"))}, true); err == nil {
			t.Errorf("%q went through a link", name)
		}
	}
	if entries, err := os.ReadDir(above); err != nil || len(entries) != 1 {
		t.Errorf("beside the folder are %v, %v", entries, err)
	}
}

func content(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
