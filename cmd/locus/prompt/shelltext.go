package prompt

import "strings"

// stepQuoting handles the start of a quoted text, an expansion, or another byte of a word.
func (s *shellScanner) stepQuoting(line string, i int) int {
	switch c := line[i]; c {
	case '\\':
		s.word.WriteByte('\\')
		s.joined = i+1 == len(line)
		return i + 2
	case '\'', '"':
		s.word.WriteByte(c)
		s.stack = append(s.stack, shellFrame{kind: c})
	case '`':
		s.backtick()
	case '$':
		return s.dollar(line, i, true)
	default:
		s.word.WriteByte(c)
	}
	return i + 1
}

// dollar handles an expansion. Within double quotes $'...' is not special.
func (s *shellScanner) dollar(line string, i int, quotes bool) int {
	s.word.WriteByte('$')
	rest := line[i+1:]
	switch {
	case strings.HasPrefix(rest, "(("):
		s.push('+')
		return i + 3
	case strings.HasPrefix(rest, "("):
		s.push('s')
		s.word.Reset()
		return i + 2
	case strings.HasPrefix(rest, "{"):
		s.push('v')
		return i + 2
	case quotes && strings.HasPrefix(rest, "'"):
		s.push('$')
		return i + 2
	}
	return i + 1
}

func (s *shellScanner) backtick() {
	for i := len(s.stack) - 1; i >= 0; i-- {
		if s.stack[i].kind == '`' {
			s.stack = s.stack[:i]
			s.word.Reset()
			s.word.WriteByte('`')
			return
		}
	}
	s.push('`')
	s.word.Reset()
}

// untilQuote skips to the closing quote.
func (s *shellScanner) untilQuote(line string, i int, escapes bool) int {
	for ; i < len(line); i++ {
		switch {
		case escapes && line[i] == '\\':
			i++
		case line[i] == '\'':
			s.stack = s.stack[:len(s.stack)-1]
			s.word.WriteByte('\'')
			return i + 1
		}
	}
	return len(line)
}

// stepText handles what starts at line[i] within double quotes or ${...}.
func (s *shellScanner) stepText(line string, i int) int {
	in := s.top()
	switch c := line[i]; {
	case c == '\\':
		return i + 2
	case c == '"':
		if in == '"' {
			s.pop('"')
			s.word.WriteByte('"')
		} else {
			s.stack = append(s.stack, shellFrame{kind: '"'})
		}
	case c == '}' && in == 'v':
		s.pop('v')
	case c == '\'' && in == 'v' && !s.quoted():
		s.stack = append(s.stack, shellFrame{kind: '\''})
	case c == '`':
		s.backtick()
	case c == '$':
		return s.dollar(line, i, false)
	}
	return i + 1
}

// quoted reports whether any enclosing construct is double quotes.
func (s *shellScanner) quoted() bool {
	for _, f := range s.stack {
		if f.kind == '"' {
			return true
		}
	}
	return false
}

func (s *shellScanner) stepArithmetic(line string, i int) int {
	frame := &s.stack[len(s.stack)-1]
	switch c := line[i]; {
	case c == '(':
		frame.depth++
	case c == ')' && frame.depth > 0:
		frame.depth--
	case c == ')':
		s.pop('+')
		s.word.WriteByte('+')
		s.atCommand = false
		if strings.HasPrefix(line[i:], "))") {
			return i + 2
		}
	}
	return i + 1
}

// startHeredoc reads the word after <<, which ends the document.
func (s *shellScanner) startHeredoc(line string, i int) int {
	doc := heredoc{}
	if strings.HasPrefix(line[i:], "-") {
		doc.tabs = true
		i++
	}
	for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
		i++
	}
	var end strings.Builder
	quote := byte(0)
	for ; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && strings.IndexByte(" \t;&|<>()", c) >= 0:
			doc.end = end.String()
			s.heredocs = append(s.heredocs, doc)
			return i
		case quote != '\'' && c == '\\':
		default:
			end.WriteByte(c)
		}
	}
	doc.end = end.String()
	s.heredocs = append(s.heredocs, doc)
	return i
}
