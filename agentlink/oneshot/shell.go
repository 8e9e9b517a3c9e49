package oneshot

import (
	"os"

	"github.com/locusrun/locus/surfaces"
)

// A shell's program is a file beside the folder that it works in: what stands in an argv
// can be read by everybody.
const (
	shellProgram      = "program"
	powerShellProgram = "program.ps1" // another name is not run
	// utf8Mark tells the PowerShell of Windows how its program is encoded.
	utf8Mark = "\uFEFF"
)

// shellSpec writes a shell's program into the folder, and says how it is started.
func shellSpec(language surfaces.Language, path string, f *folder, code, stdin string) (spec, error) {
	s := spec{Path: path, Env: environment(os.Environ()), Dir: f.work, Stdin: stdin}
	name := shellProgram
	if language == surfaces.PowerShell {
		name, code = powerShellProgram, utf8Mark+code
	}
	at, err := f.put(name, code)
	if err != nil {
		return spec{}, err
	}
	switch language {
	case surfaces.PowerShell:
		s.Args = []string{path, "-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-File", at}
	case surfaces.Bash:
		s.Args = []string{"bash", "--noprofile", "--norc", "-O", "expand_aliases", "../" + name}
	case surfaces.Zsh:
		s.Args = []string{"zsh", "-f", "../" + name}
	default:
		s.Args = []string{"sh", "../" + name}
	}
	return s, nil
}
