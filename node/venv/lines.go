package venv

import (
	"strings"
	"unicode"
)

const (
	maxLine = 2 << 10  // bytes of one line of output; the rest of it is left out
	maxTail = 16 << 10 // bytes of BuildError.Output
)

// lines is a writer that gives each line on, and keeps the last ones. A carriage
// return ends a line too, since that is how progress is drawn.
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

// flush gives what there is of a line on. Empty ones say nothing.
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

// tail keeps the last lines within maxTail.
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
