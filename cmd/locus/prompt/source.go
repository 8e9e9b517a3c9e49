package prompt

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// Source reads cells, one at a time.
type Source interface {
	// Next returns the next cell, without a trailing newline. The error is io.EOF after the
	// last cell, and ErrCancelled if the user dropped the input.
	Next() (string, error)
}

// ErrCancelled says that the user dropped the input.
var ErrCancelled = errors.New("the input was given up")

// MaxCell bounds a cell, in bytes.
const MaxCell = surfaces.MaxCode

// ErrTooLong says that a cell is longer than MaxCell.
var ErrTooLong = errors.New("a cell of the script is longer than a program may be")

// Script reads cells from a text that is not typed by a user: a cell ends where the next
// statement starts, so that functions may contain blank lines.
type Script struct {
	language surfaces.Language
	lines    *bufio.Reader
	next     string
	hasNext  bool
	err      error
}

// NewScript reads cells of a language from r.
func NewScript(language surfaces.Language, r io.Reader) *Script {
	return &Script{language: language, lines: bufio.NewReaderSize(r, 64<<10)}
}

// Next returns the next cell.
func (s *Script) Next() (string, error) {
	scan := scannerFor(s.language)
	var cell strings.Builder
	filled := false
	for {
		line, ok := s.line()
		if !ok {
			if filled {
				return trimCell(cell.String()), nil
			}
			return "", s.err
		}
		if filled && !scan.open() && s.starts(scan, line) {
			s.next, s.hasNext = line, true
			return trimCell(cell.String()), nil
		}
		if !filled && IsCommand(line) {
			return strings.TrimSpace(line), nil
		}
		if cell.Len()+len(line) > MaxCell {
			return "", ErrTooLong
		}
		cell.WriteString(line + "\n")
		scan.feed(line)
		filled = filled || !isBlank(line) && !isComment(line)
	}
}

// isComment recognises a comment line, which is the same in all languages.
func isComment(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " \t"), "#") }

// starts reports whether a line starts a new cell.
func (s *Script) starts(scan scanner, line string) bool {
	return IsCommand(line) || !scan.continues(line)
}

// line returns the next line; if there is none, s.err says why.
func (s *Script) line() (string, bool) {
	if s.hasNext {
		s.hasNext = false
		return s.next, true
	}
	if s.err != nil {
		return "", false
	}
	var b strings.Builder
	for {
		part, err := s.lines.ReadSlice('\n')
		b.Write(part)
		switch {
		case b.Len() > MaxCell:
			s.err = ErrTooLong
			return "", false
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			s.err = err
			if b.Len() == 0 {
				return "", false
			}
		}
		return strings.TrimSuffix(b.String(), "\n"), true
	}
}

// trimCell removes blank lines at both ends.
func trimCell(text string) string {
	lines := strings.Split(text, "\n")
	for len(lines) > 0 && isBlank(lines[0]) {
		lines = lines[1:]
	}
	for len(lines) > 0 && isBlank(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines, "\n")
}
