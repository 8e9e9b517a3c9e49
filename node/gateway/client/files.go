package client

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// File is a file that is sent with a call to a linked machine.
type File struct {
	// Name is the path below the code's folder, with slashes.
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// FileError says which file could not be read or saved, and why.
type FileError struct {
	Name string
	// Err is ErrFileName, ErrFileDigest, ErrFileSize, fs.ErrExist, or an error of the file
	// system.
	Err error
}

// Error returns a message for users.
func (e *FileError) Error() string {
	err := e.Err
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err // without the name, which is added below
	}
	return fmt.Sprintf("the file %q: %v", e.Name, err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// The causes of a FileError.
var (
	ErrFileName   = errors.New("its name would lead out of the folder, or means something else on another system")
	ErrFileDigest = errors.New("its content is not what its size and digest say")
	ErrFileSize   = fmt.Errorf("it is longer than %d bytes, which is the limit for all files of a call together", surfaces.MaxFilesBytes)
)

// ReadFile reads a file to send under a name. The error is a *FileError.
func ReadFile(name, from string) (File, error) {
	file, err := os.Open(from)
	if err != nil {
		return File{}, &FileError{Name: from, Err: err}
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, surfaces.MaxFilesBytes+1))
	if err == nil && len(data) > surfaces.MaxFilesBytes {
		err = ErrFileSize
	}
	if err != nil {
		return File{}, &FileError{Name: from, Err: err}
	}
	return File{Name: name, Data: data}, nil
}

// SaveFiles writes the files of a result into a directory, which it creates if needed, each
// under its name without the leading out/. It never writes outside the directory, not even
// through links. It writes nothing if a name or digest is wrong, or if a file exists and
// overwrite is false. It returns the names written. The error is a *FileError, or about the
// directory.
func SaveFiles(dir string, files []surfaces.File, overwrite bool) (written []string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names := make([]string, len(files))
	for i, f := range files {
		if names[i], err = savedName(root, f, overwrite); err != nil {
			return nil, &FileError{Name: f.Name, Err: err}
		}
	}
	for i, f := range files {
		if err := save(root, names[i], f.Data, overwrite); err != nil {
			return written, &FileError{Name: f.Name, Err: err}
		}
		written = append(written, names[i])
	}
	return written, nil
}

// savedName checks a file and returns the name to save it under.
func savedName(root *os.Root, f surfaces.File, overwrite bool) (string, error) {
	name, inOut := strings.CutPrefix(f.Name, surfaces.OutFolder+"/")
	if !inOut || surfaces.CheckFileName(name) != "" {
		return "", ErrFileName
	}
	if sound := surfaces.NewFile(f.Name, f.Data); sound.Size != f.Size || sound.SHA256 != f.SHA256 {
		return "", ErrFileDigest
	}
	_, err := root.Lstat(name)
	switch {
	case err == nil && !overwrite:
		return "", fs.ErrExist
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	return name, nil
}

func save(root *os.Root, name string, data []byte, overwrite bool) error {
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	how := os.O_EXCL
	if overwrite {
		how = os.O_TRUNC
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|how, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}
