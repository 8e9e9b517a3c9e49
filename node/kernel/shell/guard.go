package shell

import (
	"context"
	"errors"
	"regexp"

	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/surfaces"
)

// hazard and zshHazard match code that can end a shell without running its EXIT trap, so
// that the shell cannot save its state: noexec in any shell, and in zsh a failed
// ${name:?} and errexit inside a function.
var (
	hazard    = regexp.MustCompile(`\bset\b[^\n;]*\s-[a-zA-Z]*n|\bnoexec\b`)
	zshHazard = regexp.MustCompile(`:?\?|\bset\b[^\n;]*\s-[a-zA-Z]*e|\berr_?(exit|return)\b|\b(ERR_?EXIT|ERR_?RETURN)\b|\b(set|un|no)_?opt|\bsetopt\b`)
)

// hazardous reports whether a program contains such code.
func (d *dialect) hazardous(code string) bool {
	return hazard.MatchString(code) || d.name == "zsh" && zshHazard.MatchString(code)
}

// guard forks a standby copy of a hazardous session before it runs a program. It returns
// nil if none is needed or the fork failed. The caller holds the turn.
func (s *session) guard(ctx context.Context, code string) *session {
	s.hazardous = s.hazardous || s.family.dialect.hazardous(code)
	if !s.hazardous || s.isolated() {
		return nil
	}
	k, err := s.fork(ctx, s.kind, "guard")
	if err != nil {
		s.log.Warn("a hazardous program runs without a standby copy", "error", err)
		return nil
	}
	return k
}

// recover switches the session to its standby copy after the program has ended the shell
// by an exit without an EXIT trap. A shell that was killed by a signal, or replaced by a
// program that was, is not recovered.
// An isolated copy has nothing to go on with, and needs nothing: its end is that of its
// program.
func (s *session) recover(ctx context.Context, by *session, err error) (kernel.Report, error) {
	var died *kernel.Died
	if !errors.As(err, &died) || !died.Exit.Known || died.Exit.Signal != 0 {
		return kernel.Report{}, err
	}
	if s.isolated() {
		return s.report(kernel.Program{}, reply{status: died.Exit.Code}), nil
	}
	if by == nil {
		return kernel.Report{}, err
	}
	if err := by.takeTurn(ctx); err != nil {
		return kernel.Report{}, died
	}
	if err := s.become(by); err != nil {
		by.giveTurn() // the caller kills it
		s.log.Error("a session could not switch to its standby copy", "error", err)
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
