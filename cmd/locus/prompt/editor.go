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

// Editor reads cells from a user at a terminal.
type Editor struct {
	shell *readline.Shell
}

// EditorConfig configures an Editor.
type EditorConfig struct {
	// First and More return the prompts; they are called for each line.
	First, More func() string
	// History is the history file, created with its directory if missing; if empty the
	// history is only kept in memory.
	History string
	// NoCursor says that the terminal does not report its cursor's position. The editor
	// then assumes that each prompt starts a line.
	NoCursor bool
	// Typed is input that was already read.
	Typed string
}

// NewEditor makes an editor for a language.
func NewEditor(language surfaces.Language, look EditorConfig) (*Editor, error) {
	shell := readline.NewShell(inputrc.WithApp("locus"))
	if err := shell.Config.Set("cursor-position-probe", !look.NoCursor); err != nil {
		return nil, fmt.Errorf("the editor of lines: %w", err)
	}
	shell.Keys.Feed(false, []rune(look.Typed)...)
	shell.Prompt.Primary(look.First)
	shell.Prompt.Secondary(look.More)
	shell.AcceptMultiline = func(line []rune) bool { return Complete(language, string(line)) }
	if history := look.History; history != "" {
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

// Next reads the next cell.
func (e *Editor) Next() (string, error) {
	text, err := e.shell.Readline()
	switch {
	case errors.Is(err, readline.ErrInterrupt):
		return "", ErrCancelled
	case errors.Is(err, io.EOF):
		return "", io.EOF
	case err != nil:
		return "", err
	}
	return trimCell(text), nil
}
