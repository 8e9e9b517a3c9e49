package shell

import (
	"os/exec"
	"path/filepath"

	"github.com/locusrun/locus/surfaces"
)

// programs names the program that serves each language. PowerShell is left out:
// it has no way to copy a running session.
var programs = map[surfaces.Language]string{
	surfaces.Bash: "bash",
	surfaces.Sh:   "sh",
	surfaces.Zsh:  "zsh",
}

// Locate tells which shells this machine has and where. A language that is not
// in the answer cannot be served here.
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
