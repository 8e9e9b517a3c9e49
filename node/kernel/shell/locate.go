package shell

import (
	"os/exec"
	"path/filepath"

	"github.com/locusrun/locus/surfaces"
)

// programs has the name of each language's shell. PowerShell is missing because a running
// session of it cannot be copied.
var programs = map[surfaces.Language]string{
	surfaces.Bash: "bash",
	surfaces.Sh:   "sh",
	surfaces.Zsh:  "zsh",
}

// Locate returns the paths of the shells that this machine has, by language.
func Locate() map[surfaces.Language]string {
	found := make(map[surfaces.Language]string)
	for language, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err == nil {
			found[language] = path
		}
	}
	return found
}
