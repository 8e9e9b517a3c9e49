package oneshot

import (
	"errors"
	"os"

	"github.com/locusrun/locus/surfaces"
)

// A shell's program is a file outside of its working directory. It is not an argument,
// because other users can read those.
const (
	shellProgram      = "program"
	powerShellProgram = "program.ps1" // PowerShell requires the suffix
	// utf8Mark is the byte order mark by which Windows PowerShell recognises UTF-8.
	utf8Mark = "\uFEFF"
)

// shellKind is one shell of the machine.
type shellKind struct {
	language surfaces.Language
	path     string
}

func (k shellKind) String() string { return string(k.language) + " " + k.path }

// file returns the name and the content of the program's file.
func (k shellKind) file(code string) (name, text string) {
	if k.language == surfaces.PowerShell {
		return powerShellProgram, utf8Mark + code
	}
	return shellProgram, code
}

// spec returns how to start the shell in a folder.
func (k shellKind) spec(f *folder, v *commandClient) spec {
	s := spec{Path: k.path, Env: v.addTo(environment(os.Environ())), Dir: f.work}
	switch k.language {
	case surfaces.PowerShell:
		s.Args = []string{k.path, "-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-File", f.beside(powerShellProgram)}
	case surfaces.Bash:
		s.Args = []string{"bash", "--noprofile", "--norc", "-O", "expand_aliases", "../" + shellProgram}
	case surfaces.Zsh:
		s.Args = []string{"zsh", "-f", "../" + shellProgram}
	default:
		s.Args = []string{"sh", "../" + shellProgram}
	}
	return s
}

// shell is a place for one shell program.
type shell struct {
	*place
	kind    shellKind
	command *commandClient
	// gate is where the shell waits for its program; nil if it is not started yet.
	gate *gate
}

// newShell returns a place for a shell program, with nothing started.
func (r *Runner) newShell(kind shellKind) (*shell, error) {
	p, err := newPlace(r.dir)
	if err != nil {
		return nil, err
	}
	return &shell{place: p, kind: kind, command: r.newCommandClient()}, nil
}

// shell returns a prestarted shell, or a new one. A prestarted shell has no standard input.
func (r *Runner) shell(kind shellKind, reads bool) (*shell, error) {
	if !reads {
		if s, ok := r.shells.take(kind.String()); ok {
			return s, nil
		}
	}
	return r.newShell(kind)
}

// newPrestarted returns a shell that is prestarted, if possible.
func (r *Runner) newPrestarted(kind shellKind) (*shell, error) {
	s, err := r.newShell(kind)
	if err != nil {
		return nil, err
	}
	if err := s.prestart(); err != nil {
		return nil, errors.Join(err, s.discard())
	}
	return s, nil
}

// start runs a program. stdin is a file, or empty for none.
func (s *shell) start(code, stdin string) error {
	if s.gate != nil {
		return s.gate.admit(s, code)
	}
	if _, err := s.folder.put(s.kind.file(code)); err != nil {
		return err
	}
	how := s.kind.spec(s.folder, s.command)
	how.Stdin = stdin
	return s.place.start(how)
}

// discard kills a shell that has run nothing.
func (s *shell) discard() error {
	s.command.close()
	err := s.place.discard()
	s.gate.close()
	return err
}
