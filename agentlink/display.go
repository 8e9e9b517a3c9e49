package agentlink

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/locusrun/locus/surfaces"
)

// longestLine bounds what a line shows of a program, in characters.
const longestLine = 60

// firstLine gives the first line of a program that says something, for one line of text.
func firstLine(code string) string {
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			return clipped(line)
		}
	}
	return ""
}

// clipped keeps a text from writing over the terminal, or beyond its line.
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

// shortID gives the end of a call's id, which tells calls apart at a glance.
func shortID(callID string) string { return callID[max(0, len(callID)-6):] }

// outcomeOf says in a few words how a call ended.
func outcomeOf(res surfaces.Result) string {
	if res.Code != nil {
		return string(*res.Code)
	}
	if res.Exit != nil && res.Exit.Code != nil && *res.Exit.Code != 0 {
		return fmt.Sprintf("exit status %d", *res.Exit.Code)
	}
	return string(res.Status)
}
