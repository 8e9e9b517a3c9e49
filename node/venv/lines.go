package venv

import (
	"strings"
	"unicode"
)

const (
	maxLine = 2 << 10  // of one line of output, in bytes; the rest of the line is dropped
	maxTail = 16 << 10 // of BuildError.Output, in bytes
)

// lines is a writer that passes each line to say and keeps the last ones. A carriage return
// ends a line too, because progress bars use it.
type lines struct {
	say  func(string)
	line []byte
	cut  bool
	tail tail
}

func (l *lines) Write(p []byte) (int, error) {
	for _, c := range p {
		switch {
		case c == '\n' || c == '\r':
			l.flush()
		case len(l.line) < maxLine:
			l.line = append(l.line, c)
		default:
			l.cut = true
		}
	}
	return len(p), nil
}

// flush passes the current line on, unless it is empty.
func (l *lines) flush() {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(l.line), "\ufffd"))
	if l.cut {
		text += " …"
	}
	l.line, l.cut = l.line[:0], false
	if text = strings.TrimRight(text, " \t"); text == "" {
		return
	}
	l.tail.add(text)
	l.say(text)
}

// tail keeps the last lines, of maxTail bytes together at most.
type tail struct {
	kept []string
	size int
}

func (t *tail) add(line string) {
	t.kept = append(t.kept, line)
	t.size += len(line) + 1
	for t.size > maxTail {
		t.size -= len(t.kept[0]) + 1
		t.kept = t.kept[1:]
	}
}

func (t *tail) String() string { return strings.Join(t.kept, "\n") }
