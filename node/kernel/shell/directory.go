package shell

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// directory is a kernel's own directory. Code in the container can see and change it.
// The node accesses it by descriptor and never follows a link in it, so code cannot make
// the node touch other files.
type directory struct {
	path string
	file *os.File
}

func makeDirectory(path string) (*directory, error) {
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, fmt.Errorf("make a kernel's directory: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return &directory{path: path, file: f}, nil
}

func (d *directory) fd() int { return int(d.file.Fd()) }

// open opens a file of the directory; a link is an error.
func (d *directory) open(name string, flag int) (*os.File, error) {
	fd, err := unix.Openat(d.fd(), name, flag|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// fifo makes a named pipe and opens it without blocking.
func (d *directory) fifo(name string, flag int) (*os.File, error) {
	if err := unix.Mknodat(d.fd(), name, unix.S_IFIFO|0o600, 0); err != nil {
		return nil, &fs.PathError{Op: "mkfifo", Path: name, Err: err}
	}
	return d.open(name, flag|unix.O_NONBLOCK)
}

// create makes a new file and opens it for reading and writing.
func (d *directory) create(name string) (*os.File, error) {
	return d.open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
}

// write makes a new file with the given content.
func (d *directory) write(name, content string) error {
	f, err := d.create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Close())
}

// remove removes a file, if it exists.
func (d *directory) remove(name string) error {
	if err := unix.Unlinkat(d.fd(), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "unlink", Path: name, Err: err}
	}
	return nil
}

// close removes the directory and everything in it.
func (d *directory) close() error {
	return errors.Join(d.file.Close(), os.RemoveAll(d.path))
}
