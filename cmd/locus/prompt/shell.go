package prompt

import "strings"

// shellScanner tracks the quotes, brackets, here-documents and reserved words of POSIX-like
// shells.
type shellScanner struct {
	stack []shellFrame
	// atCommand says that the next word is in command position, where reserved words are
	// recognised.
	atCommand bool
	word      strings.Builder
	lastWord  string
	heredocs  []heredoc
	joined    bool // the last line ends in a backslash or an operator
	bodyless  bool // after a function's name, before its body
}

// shellFrame is an open construct.
type shellFrame struct {
	// kind is ' for a quoted text, $ for $'...', " for a double-quoted text, ` and s for
	// command substitutions, ( for a subshell, a for an array, { for a group, v for ${...},
	// + for arithmetic, and i, l, c for if, loops and case.
	kind    byte
	depth   int  // nesting of brackets in arithmetic
	pattern bool // in case: a pattern is next
	params  bool // of a bracket: it follows the name of a function
}

type heredoc struct {
	end  string
	tabs bool // leading tabs are ignored
}

func newShellScanner() *shellScanner { return &shellScanner{atCommand: true} }

func (s *shellScanner) open() bool { return len(s.stack) > 0 || len(s.heredocs) > 0 || s.joined }

func (s *shellScanner) block() bool { return false }

func (s *shellScanner) continues(line string) bool { return isBlank(line) }

func (s *shellScanner) feed(line string) {
	line = strings.TrimSuffix(line, "\r")
	if len(s.heredocs) > 0 && !s.inText() {
		text := line
		if s.heredocs[0].tabs {
			text = strings.TrimLeft(text, "\t")
		}
		if text == s.heredocs[0].end {
			s.heredocs = s.heredocs[1:]
		}
		return
	}
	if isBlank(line) && s.joined {
		return
	}
	s.joined = false
	for i := 0; i < len(line); {
		i = s.step(line, i)
	}
	if s.joined || s.inText() {
		return
	}
	s.endWord()
	s.joined = s.bodyless || len(s.stack) == 0 && len(s.heredocs) == 0 && endsInOperator(line)
	s.atCommand = s.top() != 'a'
}

// inText reports whether a newline here is part of a text.
func (s *shellScanner) inText() bool { return strings.IndexByte(`'$"v`, s.top()) >= 0 }

func (s *shellScanner) top() byte {
	if len(s.stack) == 0 {
		return ' '
	}
	return s.stack[len(s.stack)-1].kind
}

func (s *shellScanner) push(kind byte) {
	s.stack = append(s.stack, shellFrame{kind: kind})
	s.atCommand = kind == '(' || kind == 's' || kind == '`' || kind == '{' || kind == 'i' || kind == 'l'
}

// pop closes the innermost construct if it is of the kind; the shell reports unmatched
// ends.
func (s *shellScanner) pop(kind byte) {
	if s.top() == kind {
		s.stack = s.stack[:len(s.stack)-1]
	}
}

// step handles what starts at line[i] and returns where the next thing starts.
func (s *shellScanner) step(line string, i int) int {
	switch s.top() {
	case '\'':
		return s.untilQuote(line, i, false)
	case '$':
		return s.untilQuote(line, i, true)
	case '"', 'v':
		return s.stepText(line, i)
	case '+':
		return s.stepArithmetic(line, i)
	}
	c := line[i]
	switch c {
	case ' ', '\t':
		s.endWord()
	case '#':
		if s.word.Len() == 0 {
			return len(line)
		}
		s.word.WriteByte(c)
	case '{', '}', '!':
		s.word.WriteByte(c)
	case ';', '&', '|':
		return s.separator(line, i)
	case '<', '>':
		return s.redirection(line, i)
	case '(':
		return s.openBracket(line, i)
	case ')':
		s.closeBracket(strings.TrimRight(line[:i], " \t"))
	default:
		return s.stepQuoting(line, i)
	}
	return i + 1
}

// redirection handles < and >, which end a word and may start a here-document or a process
// substitution.
func (s *shellScanner) redirection(line string, i int) int {
	s.endWord()
	rest := line[i+1:]
	switch {
	case strings.HasPrefix(rest, "("):
		s.push('s')
		return i + 2
	case line[i] == '>':
		return i + 1
	case strings.HasPrefix(rest, "<<"):
		return i + 3
	case strings.HasPrefix(rest, "<"):
		return s.startHeredoc(line, i+2)
	}
	return i + 1
}

// separator handles an operator that ends a command.
func (s *shellScanner) separator(line string, i int) int {
	s.endWord()
	s.atCommand = true
	if s.top() == 'c' && strings.HasPrefix(line[i:], ";") && i+1 < len(line) && strings.IndexByte(";&|", line[i+1]) >= 0 {
		s.stack[len(s.stack)-1].pattern = true
		return i + 2
	}
	return i + 1
}

func (s *shellScanner) openBracket(line string, i int) int {
	before := s.word.String()
	if strings.HasPrefix(line[i:], "((") && before == "" && (s.atCommand || s.lastWord == "for") {
		s.push('+')
		return i + 2
	}
	params := before != "" || !s.atCommand
	s.word.Reset()
	s.lastWord = before
	switch {
	case s.top() == 'c' && s.stack[len(s.stack)-1].pattern && before == "":
		// the optional bracket before a pattern
	case strings.HasSuffix(before, "="):
		s.push('a')
	default:
		s.push('(')
		s.stack[len(s.stack)-1].params = params
		s.bodyless = false
	}
	return i + 1
}

// closeBracket handles a closing bracket; before is the text before it.
func (s *shellScanner) closeBracket(before string) {
	s.endWord()
	switch s.top() {
	case '(':
		s.bodyless = s.stack[len(s.stack)-1].params && strings.HasSuffix(before, "(")
		s.pop('(')
		s.atCommand = true // a group may follow f()
	case 'a', 's':
		s.pop(s.top())
		s.word.WriteByte(')')
		s.atCommand = false
	case 'c':
		s.stack[len(s.stack)-1].pattern = false
		s.atCommand = true
	}
}

// endWord ends a word: in command position it may open or close a construct.
func (s *shellScanner) endWord() {
	word := s.word.String()
	if word == "" {
		return
	}
	s.word.Reset()
	s.bodyless = false
	defer func() { s.lastWord = word }()
	if s.top() == 'c' && s.stack[len(s.stack)-1].pattern {
		if word == "esac" {
			s.pop('c')
		}
		return
	}
	if s.top() == 'c' && word == "in" && !s.atCommand {
		s.stack[len(s.stack)-1].pattern = true
		return
	}
	if !s.atCommand {
		s.atCommand = s.lastWord == "function"
		return
	}
	s.atCommand = false
	switch word {
	case "if":
		s.push('i')
	case "fi":
		s.pop('i')
	case "for", "select":
		s.push('l')
		s.atCommand = false
	case "while", "until":
		s.push('l')
	case "done":
		s.pop('l')
	case "case":
		s.push('c')
	case "esac":
		s.pop('c')
	case "{":
		s.push('{')
	case "}":
		s.pop('{')
	case "then", "else", "elif", "do", "!", "time":
		s.atCommand = true
	}
}

// endsInOperator reports whether a line ends in an operator that needs another command.
func endsInOperator(line string) bool {
	text := strings.TrimRight(line, " \t")
	if strings.HasPrefix(strings.TrimLeft(text, " \t"), "#") {
		return false
	}
	return strings.HasSuffix(text, "|") || strings.HasSuffix(text, "&&")
}
