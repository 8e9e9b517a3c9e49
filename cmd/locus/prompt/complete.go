package prompt

import (
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// scanner tracks the syntax of a program line by line. In doubt it takes a program as
// complete, and the interpreter reports the error.
type scanner interface {
	// feed adds a line, without its newline.
	feed(line string)
	// open reports that the program is certainly incomplete.
	open() bool
	// block reports that the program is complete only after a blank line or a new
	// statement.
	block() bool
	// continues reports whether a line belongs to the program so far, even if that could be
	// complete.
	continues(line string) bool
}

func scannerFor(language surfaces.Language) scanner {
	switch language {
	case surfaces.Python:
		return &pythonScanner{}
	case surfaces.PowerShell:
		return &powerShellScanner{}
	default:
		return newShellScanner()
	}
}

// Complete reports whether text is a complete cell. A command of the prompt, such as
// :state, always is.
func Complete(language surfaces.Language, text string) bool {
	if IsCommand(text) {
		return true
	}
	s := scannerFor(language)
	lines := strings.Split(text, "\n")
	for _, line := range lines {
		s.feed(line)
	}
	if s.open() {
		return false
	}
	return !s.block() || strings.TrimSpace(lines[len(lines)-1]) == ""
}

// IsCommand reports whether a cell is a command of the prompt: one line that starts with a
// colon and a letter. No language has such programs.
func IsCommand(text string) bool {
	text = strings.TrimSpace(text)
	return len(text) > 1 && text[0] == ':' && isLetter(text[1]) && !strings.Contains(text, "\n")
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isBlank(line string) bool { return strings.TrimSpace(line) == "" }
