package prompt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/reeflective/readline"
	"github.com/reeflective/readline/inputrc"

	"github.com/locusrun/locus/surfaces"
)

// Editor reads cells from a person at a terminal.
type Editor struct {
	shell *readline.Shell
}

// NewEditor makes an editor for a language. The prompts are asked before each
// line. History is kept in the file, made with its directory when missing; with
// an empty name it is kept in memory.
func NewEditor(language surfaces.Language, first, more func() string, history string) (*Editor, error) {
	shell := readline.NewShell(inputrc.WithApp("locus"))
	shell.Prompt.Primary(first)
	shell.Prompt.Secondary(more)
	shell.AcceptMultiline = func(line []rune) bool { return Complete(language, string(line)) }
	if history != "" {
		if err := os.MkdirAll(filepath.Dir(history), 0o700); err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		f, err := os.OpenFile(history, os.O_CREATE|os.O_RDONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		source, err := readline.NewHistoryFromFile(history)
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		shell.History.Add("cells", source)
	}
	return &Editor{shell: shell}, nil
}

// Next lets the person type the next cell.
func (e *Editor) Next() (string, error) {
	text, err := e.shell.Readline()
	switch {
	case errors.Is(err, readline.ErrInterrupt):
		return "", ErrGivenUp
	case errors.Is(err, io.EOF):
		return "", io.EOF
	case err != nil:
		return "", err
	}
	return trimCell(text), nil
}
