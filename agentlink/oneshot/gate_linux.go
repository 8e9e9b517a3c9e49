package oneshot

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/surfaces"
)

// gate is where a prestarted shell waits for its program: a named pipe that it opens for
// reading. bash reads the pipe before its script, as BASH_ENV, so its script is an ordinary
// file. sh and zsh read nothing before their script, so the pipe is the script; when the
// program comes, a regular file with the same text takes the pipe's name.
type gate struct {
	at      string
	file    *os.File // the writing end
	writing sync.WaitGroup
}

const bashGate = "gate"

// prestart starts the shell, if its language can wait for its program. awaitReady returns
// when it waits.
func (s *shell) prestart() error {
	if s.kind.language == surfaces.PowerShell {
		return nil
	}
	name := shellProgram
	how := s.kind.spec(s.folder, s.command)
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

// awaitReady returns when the shell waits for its program.
func (s *shell) awaitReady() error {
	if s.gate == nil {
		return nil
	}
	opened := make(chan struct{})
	defer close(opened)
	go func() {
		select {
		case <-s.ended:
			// The shell has ended, so nobody will open the pipe. Opening it here unblocks
			// the open for writing below.
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
	if s.exited() {
		return fmt.Errorf("%s %s before there was a program for it", s.kind, s.exit)
	}
	return nil
}

// admit lets the shell run its program.
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
		_, _ = g.file.WriteString(text) // if the shell does not read it all it has ended, which is noticed elsewhere
		_ = g.file.Close()
	})
	return nil
}

// close waits for the writing, after the shell has ended.
func (g *gate) close() {
	if g == nil || g.file == nil {
		return
	}
	g.writing.Wait()
	_ = g.file.Close() // it may be closed already
}
