package oneshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// folder holds a call's files. Only the machine's user can enter it. The code works in
// work; the program's text and its input are outside of work.
type folder struct {
	root string // removed after the program
	work string // below it: the program's working directory
}

func newFolder(dir string) (*folder, error) {
	root, err := os.MkdirTemp(dir, "call-") // mode 0700
	if err != nil {
		return nil, fmt.Errorf("make the call's folder: %w", err)
	}
	f := &folder{root: root, work: filepath.Join(root, "work")}
	for _, made := range []string{f.work, filepath.Join(f.work, surfaces.OutFolder)} {
		if err := os.Mkdir(made, 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("make the call's folder: %w", err), f.remove())
		}
	}
	return f, nil
}

// beside returns a path in the call's folder, outside of work.
func (f *folder) beside(name string) string { return filepath.Join(f.root, name) }

// put writes a file outside of work.
func (f *folder) put(name, text string) (string, error) {
	at := f.beside(name)
	if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write what the code is given: %w", err)
	}
	return at, nil
}

// place writes the call's files, which surfaces.CheckFiles has accepted, into work.
func (f *folder) place(files []File) error {
	if len(files) == 0 {
		return nil
	}
	root, err := os.OpenRoot(f.work)
	if err != nil {
		return fmt.Errorf("place files: %w", err)
	}
	defer root.Close()
	for _, file := range files {
		if err := root.MkdirAll(path.Dir(file.Name), 0o700); err != nil {
			return fmt.Errorf("place %q: %w", file.Name, err)
		}
		if err := root.WriteFile(file.Name, file.Data, 0o600); err != nil {
			return fmt.Errorf("place %q: %w", file.Name, err)
		}
	}
	return nil
}

// maxLooked bounds how many entries of the folder out are examined.
const maxLooked = 10_000

// collect reads the files that the code has left in the folder out: only regular files,
// within the bounds, following no links. left describes what was not collected; it is empty
// if there was nothing. No process may run in the folder any more.
func (f *folder) collect() (files []File, left string, err error) {
	root, err := os.OpenRoot(f.work)
	if err != nil {
		return nil, "", fmt.Errorf("collect files: %w", err)
	}
	defer root.Close()
	total, skipped, looked := int64(0), 0, 0
	folders := []string{surfaces.OutFolder}
	for len(folders) > 0 && looked < maxLooked {
		in := folders[0]
		folders = folders[1:]
		for _, entry := range list(root, in, maxLooked-looked) {
			looked++
			name := in + "/" + entry.Name()
			if entry.IsDir() {
				folders = append(folders, name)
				continue
			}
			data, err := read(root, name, entry, surfaces.MaxFilesBytes-total)
			if err != nil || len(files) == surfaces.MaxFiles {
				skipped++
				continue
			}
			total += int64(len(data))
			files = append(files, surfaces.NewFile(name, data))
		}
	}
	switch {
	case looked == maxLooked:
		left = fmt.Sprintf("the folder out has %d entries or more, and not all were looked at", maxLooked)
	case skipped > 0:
		left = fmt.Sprintf("%d entries of the folder out stay behind: at most %d regular files and %d bytes together come back", skipped, surfaces.MaxFiles, surfaces.MaxFilesBytes)
	}
	return files, left, nil
}

// list returns up to most entries of a folder, sorted; none if it is not a folder or cannot
// be read.
func list(root *os.Root, name string, most int) []fs.DirEntry {
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() {
		return nil
	}
	dir, err := root.Open(name)
	if err != nil {
		return nil
	}
	defer dir.Close()
	entries, err := dir.ReadDir(most)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

// errStays: the entry is not a regular file, or it is too large.
var errStays = errors.New("the entry does not come back")

// read returns the content of a regular file of at most most bytes.
func read(root *os.Root, name string, entry fs.DirEntry, most int64) ([]byte, error) {
	if !entry.Type().IsRegular() {
		return nil, errStays
	}
	file, err := root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, errStays
	}
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(data)) > most {
		err = errStays
	}
	return data, err
}

// remove deletes the folder, even if the code has removed its own permissions in it.
func (f *folder) remove() error {
	err := os.RemoveAll(f.root)
	if err == nil {
		return nil
	}
	// A directory without permissions for its owner cannot be emptied.
	_ = filepath.WalkDir(f.root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			_ = os.Chmod(name, 0o700) // if it fails, so does the second RemoveAll
		}
		return nil
	})
	return os.RemoveAll(f.root)
}
