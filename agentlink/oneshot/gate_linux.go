package oneshot

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/surfaces"
)

// gate is where a shell that was started ahead waits for its program: a named pipe that
// it begins to read. For bash that is what it reads before its program, so that it finds
// that as a file like any other. sh and zsh read nothing before, so they read the program
// itself there; once they do, a file with the same text has the pipe's name.
type gate struct {
	at      string
	file    *os.File // to write
	writing sync.WaitGroup
}

const bashGate = "gate"

// ahead starts the shell so that it waits for its program, where that can be done.
// settle returns when it does.
func (s *shell) ahead() error {
	if s.kind.language == surfaces.PowerShell {
		return nil
	}
	name := shellProgram
	how := s.kind.spec(s.folder, s.visitor)
	if s.kind.language == surfaces.Bash {
		name = bashGate
		how.Env = append(how.Env, "BASH_ENV=../"+bashGate)
	}
	s.gate = &gate{at: s.folder.beside(name)}
	if err := unix.Mkfifo(s.gate.at, 0o600); err != nil {
		return fmt.Errorf("make a gate: %w", err)
	}
	return s.place.start(how)
}

// settle returns when the shell waits for its program.
func (s *shell) settle() error {
	if s.gate == nil {
		return nil
	}
	opened := make(chan struct{})
	defer close(opened)
	go func() {
		select {
		case <-s.ended:
			// Nobody will read any more, and who waits for that need not: the pipe has
			// a reader as long as it takes.
			if f, err := os.OpenFile(s.gate.at, os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
				defer f.Close()
			}
			<-opened
		case <-opened:
		}
	}()
	var err error
	if s.gate.file, err = os.OpenFile(s.gate.at, os.O_WRONLY, 0); err != nil {
		return fmt.Errorf("open a gate: %w", err)
	}
	if s.dead() {
		return fmt.Errorf("%s %s before there was a program for it", s.kind, s.exit)
	}
	return nil
}

// admit lets the program of a shell begin.
func (g *gate) admit(s *shell, code string) error {
	text := code
	if s.kind.language == surfaces.Bash {
		if _, err := s.folder.put(shellProgram, code); err != nil {
			return err
		}
		text = "unset BASH_ENV\n"
	} else {
		at, err := s.folder.put("text", code)
		if err == nil {
			err = os.Rename(at, s.folder.beside(shellProgram))
		}
		if err != nil {
			return fmt.Errorf("write what the code is given: %w", err)
		}
	}
	g.writing.Go(func() {
		_, _ = g.file.WriteString(text) // who does not read it all has ended, which is told elsewhere
		_ = g.file.Close()
	})
	return nil
}

// close ends the writing, after the shell's end.
func (g *gate) close() {
	if g == nil || g.file == nil {
		return
	}
	g.writing.Wait()
	_ = g.file.Close() // again, where something was written
}
