package agentlink

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
)

// NoFolderError says that none of the policy's folders exists.
type NoFolderError struct{ Folders []string }

// Error returns the message.
func (e *NoFolderError) Error() string {
	return fmt.Sprintf("none of the folders in which code may run is there: %s", strings.Join(e.Folders, ", "))
}

// Folder returns the folder below which programs run, for the machine whose directory is
// dir: in the first of the policy's folders that exists or, without a policy, in dir. The
// name of the folder is derived from dir, so that only its own leftovers are ever removed.
func (p Policy) Folder(dir string) (string, error) {
	if len(p.Folders) == 0 {
		return filepath.Join(dir, "work"), nil
	}
	for _, folder := range p.Folders {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			whose := fnv.New32a()
			_, _ = whose.Write([]byte(dir)) // never fails: see hash.Hash
			return filepath.Join(folder, fmt.Sprintf("locus-%08x", whose.Sum32())), nil
		}
	}
	return "", &NoFolderError{p.Folders}
}

// holds reports whether a folder is inside one of the policy's folders, with symbolic links
// resolved. A folder that does not exist is not.
func (p Policy) holds(folder string) bool {
	if len(p.Folders) == 0 {
		return true
	}
	real, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return false
	}
	for _, allowed := range p.Folders {
		if allowed, err = filepath.EvalSymlinks(allowed); err != nil {
			continue
		}
		if below, err := filepath.Rel(allowed, real); err == nil && filepath.IsLocal(below) {
			return true
		}
	}
	return false
}
