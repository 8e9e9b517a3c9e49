package prompt

import (
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// scanner follows a program line by line. It guesses where it cannot know: when
// in doubt a program counts as whole, and the interpreter says what is wrong.
type scanner interface {
	// feed takes the next line, without its end.
	feed(line string)
	// open says that the program cannot be whole yet, whatever comes after it.
	open() bool
	// block says that the program is whole only when a blank line or a new
	// statement ends it.
	block() bool
	// continues says whether a line belongs to what was fed, though that could
	// be whole.
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

// Complete says whether text, typed so far, is a cell to run. A command of the
// prompt, such as :state, always is.
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

// IsCommand says whether a cell is a command of the prompt: a colon and a letter
// on a single line. No program of any language starts so.
func IsCommand(text string) bool {
	text = strings.TrimSpace(text)
	return len(text) > 1 && text[0] == ':' && isLetter(text[1]) && !strings.Contains(text, "\n")
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isBlank(line string) bool { return strings.TrimSpace(line) == "" }
