package shell

import (
	"context"
	"errors"
	"regexp"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// hazards match what can end a shell in a way that leaves it no last word, so that
// its state could not be carried on: turning execution off everywhere, and in zsh a
// failed ${name:?}, and errexit inside of a function.
var (
	hazard    = regexp.MustCompile(`\bset\b[^\n;]*\s-[a-zA-Z]*n|\bnoexec\b`)
	zshHazard = regexp.MustCompile(`:?\?|\bset\b[^\n;]*\s-[a-zA-Z]*e|\berr_?(exit|return)\b|\b(ERR_?EXIT|ERR_?RETURN)\b|\b(set|un|no)_?opt|\bsetopt\b`)
)

// hazardous says whether a program may do so, or define what may later.
func (d *dialect) hazardous(code string) bool {
	return hazard.MatchString(code) || d.name == "zsh" && zshHazard.MatchString(code)
}

// guard forks a copy that stands by while a hazardous session runs a program. It is
// nil where there is no need, or no copy was to be had. The turn is held.
func (s *session) guard(ctx context.Context, code string) *session {
	s.hazardous = s.hazardous || s.family.dialect.hazardous(code)
	if !s.hazardous {
		return nil
	}
	k, err := s.fork(ctx, s.kind, "guard")
	if err != nil {
		s.log.Warn("a program runs without a copy that stands by", "error", err)
		return nil
	}
	return k
}

// recover goes on with the copy that stood by after the program has ended the shell
// by an exit that it had no last word in. Being killed, or replaced by a program
// that is killed, is no such exit.
func (s *session) recover(ctx context.Context, by *session, err error) (kernel.Report, error) {
	var died *kernel.Died
	if by == nil || !errors.As(err, &died) || !died.Exit.Known || died.Exit.Signal != 0 {
		return kernel.Report{}, err
	}
	if err := by.takeTurn(ctx); err != nil {
		return kernel.Report{}, died
	}
	if err := s.become(by); err != nil {
		by.giveTurn() // it is killed by whoever had it made
		s.log.Error("a session did not go on in the copy that stood by", "error", err)
		return kernel.Report{}, died
	}
	code := died.Exit.Code
	r := kernel.Report{ExitCode: &code, Replaced: s.kind == kernel.Copy, Notices: []surfaces.Notice{{
		Kind: "rolled_back",
		Text: "the program ended the shell itself; the session goes on with its state from before the call",
	}}}
	if s.known != nil {
		r.Diff = compare(s.known, s.known)
	}
	return r, nil
}
