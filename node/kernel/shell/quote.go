package shell

import "strings"

// wordEnd returns the end of the shell word that starts at b[i]: the first blank or
// newline outside quotes and parentheses, or len(b) if there is none.
func wordEnd(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '\\':
			i++
		case '\'':
			i = skipTo(b, i+1, '\'', i > 0 && b[i-1] == '$')
		case '"':
			i = skipTo(b, i+1, '"', true)
		case '(':
			depth++
		case ')':
			depth--
		case ' ', '\t', '\n':
			if depth <= 0 {
				return i
			}
		}
		i++
	}
	return len(b)
}

// skipTo returns the index of the closing quote, or at least len(b) if there is none.
func skipTo(b []byte, i int, quote byte, escapes bool) int {
	for i < len(b) && b[i] != quote {
		if escapes && b[i] == '\\' {
			i++
		}
		i++
	}
	return i
}

// unquote returns the value of a word as a shell reads it. It returns false for arrays
// and malformed words.
func unquote(word []byte) (string, bool) {
	var out strings.Builder
	for i := 0; i < len(word); {
		switch c := word[i]; {
		case c == '(' || c == ')':
			return "", false
		case c == '\\' && i+1 < len(word):
			out.WriteByte(word[i+1])
			i += 2
		case c == '\'':
			end := skipTo(word, i+1, '\'', false)
			if end >= len(word) {
				return "", false
			}
			out.Write(word[i+1 : end])
			i = end + 1
		case c == '"':
			end := skipTo(word, i+1, '"', true)
			if end >= len(word) {
				return "", false
			}
			unescapeDouble(&out, word[i+1:end])
			i = end + 1
		case c == '$' && i+1 < len(word) && word[i+1] == '\'':
			end := skipTo(word, i+2, '\'', true)
			if end >= len(word) {
				return "", false
			}
			unescapeC(&out, word[i+2:end])
			i = end + 1
		default:
			out.WriteByte(c)
			i++
		}
	}
	return out.String(), true
}

func unescapeDouble(out *strings.Builder, b []byte) {
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+1 < len(b) && strings.IndexByte("$`\"\\", b[i+1]) >= 0 {
			i++
		}
		out.WriteByte(b[i])
	}
}

// unescapeC decodes the text between $' and '.
func unescapeC(out *strings.Builder, b []byte) {
	const letters, values = "abefnrtvE", "\a\b\x1b\f\n\r\t\v\x1b"
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			out.WriteByte(b[i])
			continue
		}
		i++
		c := b[i]
		switch at := strings.IndexByte(letters, c); {
		case at >= 0:
			out.WriteByte(values[at])
		case c >= '0' && c <= '7':
			n, width := 0, 0
			for ; width < 3 && i+width < len(b) && b[i+width] >= '0' && b[i+width] <= '7'; width++ {
				n = n*8 + int(b[i+width]-'0')
			}
			out.WriteByte(byte(n))
			i += width - 1
		case c == 'C' && i+2 < len(b) && b[i+1] == '-': // zsh: control characters
			out.WriteByte(b[i+2] & 0x1f)
			i += 2
		default:
			out.WriteByte(c)
		}
	}
}
