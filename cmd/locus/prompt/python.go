package prompt

import "strings"

// pythonScanner tracks the brackets, strings, continuations and indentation of Python.
type pythonScanner struct {
	depth    int
	quote    string // the delimiter of an open string, or empty
	joined   bool   // the last line ended in a backslash
	suite    bool   // the last logical line ended in a colon
	indented bool   // the last logical line was indented
	first    string // first word of the last logical line that was not indented
	last     byte   // last significant byte of the logical line
}

// compound has the words that start compound statements.
var compound = map[string]bool{
	"if": true, "for": true, "while": true, "try": true, "with": true, "def": true, "class": true, "async": true,
	"else": true, "elif": true, "except": true, "finally": true, "@": true,
}

// followers has the words that continue a compound statement.
var followers = map[string]bool{"else": true, "elif": true, "except": true, "finally": true}

func (p *pythonScanner) open() bool {
	return p.depth > 0 || p.quote != "" || p.joined || p.suite || (p.first == "@" && !p.indented)
}

func (p *pythonScanner) block() bool { return p.indented || compound[p.first] }

func (p *pythonScanner) continues(line string) bool {
	text := strings.TrimLeft(line, " \t\f")
	if text == "" || text[0] == '#' || len(text) < len(line) {
		return true
	}
	return p.block() && followers[firstWord(text)]
}

func (p *pythonScanner) feed(line string) {
	line = strings.TrimSuffix(line, "\r")
	i := 0
	if p.quote == "" && p.depth == 0 && !p.joined {
		text := strings.TrimLeft(line, " \t\f")
		if text == "" || text[0] == '#' {
			return
		}
		i = len(line) - len(text)
		p.startLogical(text, i > 0)
	}
	p.joined = false
	for i < len(line) {
		i = p.step(line, i)
	}
	if p.quote != "" && len(p.quote) == 1 && !p.joined {
		p.quote = "" // an unterminated string on one line: Python reports it
	}
	p.suite = p.depth == 0 && p.quote == "" && !p.joined && p.last == ':'
}

func (p *pythonScanner) startLogical(text string, indented bool) {
	p.indented, p.last = indented, 0
	if !indented {
		p.first = firstWord(text)
	}
}

// step handles what starts at line[i] and returns where the next thing starts.
func (p *pythonScanner) step(line string, i int) int {
	c := line[i]
	if p.quote != "" {
		switch {
		case c == '\\':
			p.joined = i+1 == len(line) && len(p.quote) == 1
			return i + 2
		case strings.HasPrefix(line[i:], p.quote):
			i += len(p.quote)
			p.quote, p.last = "", '"'
			return i
		}
		return i + 1
	}
	switch c {
	case '#':
		return len(line)
	case '"', '\'':
		p.quote = line[i : i+1]
		if triple := strings.Repeat(p.quote, 3); strings.HasPrefix(line[i:], triple) {
			p.quote = triple
		}
		return i + len(p.quote)
	case '\\':
		p.joined = i+1 == len(line)
	case '(', '[', '{':
		p.depth++
	case ')', ']', '}':
		p.depth = max(0, p.depth-1)
	}
	if c != ' ' && c != '\t' && c != '\f' {
		p.last = c
	}
	return i + 1
}

// firstWord returns the leading identifier, or else the leading byte.
func firstWord(text string) string {
	n := 0
	for n < len(text) && (isLetter(text[n]) || text[n] == '_' || text[n] >= '0' && text[n] <= '9' || text[n] >= 0x80) {
		n++
	}
	if n == 0 && text != "" {
		n = 1
	}
	return text[:n]
}
