package agentlink

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/locusrun/locus/surfaces"
)

// longestLine bounds the text of a program in one line of output, in characters.
const longestLine = 60

// firstLine returns the first non-empty line of a program, for display.
func firstLine(code string) string {
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			return clipped(line)
		}
	}
	return ""
}

// clipped shortens a text to one line and replaces unprintable characters, which could
// control the terminal.
func clipped(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > longestLine {
			return b.String() + "..."
		}
		if !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		b.WriteRune(r)
	}
	return b.String()
}

// shortID returns the last characters of a call id, which suffice to tell calls apart.
func shortID(callID string) string { return callID[max(0, len(callID)-6):] }

// outcomeOf returns a short description of a result.
func outcomeOf(res surfaces.Result) string {
	if res.Code != nil {
		return string(*res.Code)
	}
	if res.Exit != nil && res.Exit.Code != nil && *res.Exit.Code != 0 {
		return fmt.Sprintf("exit status %d", *res.Exit.Code)
	}
	return string(res.Status)
}
