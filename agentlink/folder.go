package agentlink

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
)

// NoFolderError says that none of the folders is there in which programs may run.
type NoFolderError struct{ Folders []string }

// Error gives the sentence.
func (e *NoFolderError) Error() string {
	return fmt.Sprintf("none of the folders in which code may run is there: %s", strings.Join(e.Folders, ", "))
}

// Folder gives where the programs of the machine whose directory is dir have their folders:
// in the first of the policy's folders that is there, else in dir. The name below it is
// dir's own: what is left there from an earlier time is removed, and nothing else.
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

// holds reports whether a folder is in one of the policy's, as both are at this moment:
// a link that leads elsewhere does not count, nor what is not there.
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
