package oneshot

import (
	"errors"
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

// shellKind is one of the shells that the machine has.
type shellKind struct {
	language surfaces.Language
	path     string
}

func (k shellKind) String() string { return string(k.language) + " " + k.path }

// file gives the name of a program's file, and the program as it is written there.
func (k shellKind) file(code string) (name, text string) {
	if k.language == surfaces.PowerShell {
		return powerShellProgram, utf8Mark + code
	}
	return shellProgram, code
}

// spec says how the shell is started in a folder.
func (k shellKind) spec(f *folder, v *visitor) spec {
	s := spec{Path: k.path, Env: v.equip(environment(os.Environ())), Dir: f.work}
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

// shell is where one program of a shell runs.
type shell struct {
	*place
	kind    shellKind
	visitor *visitor
	// gate is where the shell waits for its program; nil when it is not started yet.
	gate *gate
}

// newShell makes a place for a program of a shell, which is not started.
func (r *Runner) newShell(kind shellKind) (*shell, error) {
	p, err := newPlace(r.dir)
	if err != nil {
		return nil, err
	}
	return &shell{place: p, kind: kind, visitor: r.visit()}, nil
}

// shell gives a place for a program: where the shell waits for it, or a new one. A shell
// that waits has its input already, which is nothing.
func (r *Runner) shell(kind shellKind, reads bool) (*shell, error) {
	if !reads {
		if s, ok := r.shells.take(kind.String()); ok {
			return s, nil
		}
	}
	return r.newShell(kind)
}

// shellAhead gives a shell that will wait for its program.
func (r *Runner) shellAhead(kind shellKind) (*shell, error) {
	s, err := r.newShell(kind)
	if err != nil {
		return nil, err
	}
	if err := s.ahead(); err != nil {
		return nil, errors.Join(err, s.discard())
	}
	return s, nil
}

// start begins a program whose input is a file, or nothing.
func (s *shell) start(code, stdin string) error {
	if s.gate != nil {
		return s.gate.admit(s, code)
	}
	if _, err := s.folder.put(s.kind.file(code)); err != nil {
		return err
	}
	how := s.kind.spec(s.folder, s.visitor)
	how.Stdin = stdin
	return s.place.start(how)
}

// discard ends a shell that has run nothing.
func (s *shell) discard() error {
	s.visitor.leave()
	err := s.place.discard()
	s.gate.close()
	return err
}
