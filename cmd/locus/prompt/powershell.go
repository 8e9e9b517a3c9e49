package prompt

import "strings"

// powerShellScanner tracks the brackets, strings, comments and continuations of PowerShell.
type powerShellScanner struct {
	depth   int
	here    string // the line that ends an open here-string, or empty
	quote   byte   // the delimiter of an open string, or 0
	comment bool   // in a block comment
	joined  bool   // the last line ended in a backtick or in a pipe
}

func (p *powerShellScanner) open() bool {
	return p.depth > 0 || p.here != "" || p.quote != 0 || p.comment || p.joined
}

func (p *powerShellScanner) block() bool { return false }

func (p *powerShellScanner) continues(line string) bool {
	word := strings.ToLower(firstWord(strings.TrimSpace(line)))
	return isBlank(line) || word == "else" || word == "elseif" || word == "catch" || word == "finally"
}

func (p *powerShellScanner) feed(line string) {
	line = strings.TrimSuffix(line, "\r")
	if p.here != "" {
		if !strings.HasPrefix(line, p.here) {
			return
		}
		line, p.here = line[len(p.here):], ""
	}
	p.joined = false
	for i := 0; i < len(line); {
		i = p.step(line, i)
	}
	if text := strings.TrimRight(line, " \t"); p.quote == 0 && !p.comment && strings.HasSuffix(text, "|") {
		p.joined = true
	}
}

func (p *powerShellScanner) step(line string, i int) int {
	c, rest := line[i], line[i:]
	switch {
	case p.comment:
		if strings.HasPrefix(rest, "#>") {
			p.comment = false
			return i + 2
		}
		return i + 1
	case p.quote != 0:
		if c == '`' && p.quote == '"' {
			return i + 2
		}
		if c == p.quote {
			p.quote = 0
		}
		return i + 1
	}
	switch c {
	case '`':
		p.joined = i+1 == len(line)
		return i + 2
	case '#':
		return len(line)
	case '<':
		if strings.HasPrefix(rest, "<#") {
			p.comment = true
			return i + 2
		}
	case '@':
		if rest == `@"` || rest == `@'` {
			p.here = rest[1:] + "@"
			return len(line)
		}
	case '"', '\'':
		p.quote = c
	case '(', '[', '{':
		p.depth++
	case ')', ']', '}':
		p.depth = max(0, p.depth-1)
	}
	return i + 1
}
