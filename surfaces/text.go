package surfaces

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isNull reports whether a value counts as not given.
func isNull(raw json.RawMessage) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) == 0 || string(trimmed) == "null"
}

// unquote decodes a JSON string. Unlike encoding/json it does not accept invalid Unicode
// silently: damaged says what is wrong with it.
func unquote(raw json.RawMessage) (s, damaged string, err error) {
	if s, ok := plain(raw); ok {
		return s, "", nil
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", "", err
	}
	if !utf8.Valid(raw) {
		return s, "invalid UTF-8", nil
	}
	if strings.ContainsRune(s, utf8.RuneError) && loneSurrogate(raw) {
		return s, "half of a surrogate pair", nil
	}
	return s, "", nil
}

// plain decodes a JSON string that has no escapes, which is the common case.
func plain(raw json.RawMessage) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	body := raw[1 : len(raw)-1]
	for _, c := range body {
		if c == '"' || c == '\\' || c < ' ' {
			return "", false
		}
	}
	return string(body), utf8.Valid(body)
}

// loneSurrogate reports whether a valid JSON string has an escape \uD800 to \uDFFF that is
// not half of a surrogate pair.
func loneSurrogate(raw json.RawMessage) bool {
	escaped := func(i int) (rune, bool) {
		if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
			return 0, false
		}
		r, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
		return rune(r), err == nil
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		r, ok := escaped(i)
		if !ok {
			i++ // a one-letter escape
			continue
		}
		i += 5
		switch {
		case r >= 0xDC00 && r <= 0xDFFF:
			return true
		case r >= 0xD800 && r < 0xDC00:
			low, ok := escaped(i + 1)
			if !ok || low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 6
		}
	}
	return false
}

func nameRune(r rune) bool {
	return r == '_' || r == '-' || r == '.' || r == ' ' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// nameFault says what is wrong with a session name; "" if it is valid.
func nameFault(name string) string {
	if strings.TrimSpace(name) == "" {
		return "is blank"
	}
	var wrong []string
	for _, r := range name {
		if nameRune(r) || len(wrong) == 5 {
			continue
		}
		q := strconv.QuoteRune(r)
		if unicode.IsMark(r) {
			q = strconv.QuoteRuneToASCII(r) // a combining mark would merge with the quote
		}
		if !slices.Contains(wrong, q) {
			wrong = append(wrong, q)
		}
	}
	if wrong != nil {
		return "may only have letters, digits, _ - . and spaces, not " + strings.Join(wrong, " ")
	}
	if n := utf8.RuneCountInString(name); n > MaxName {
		return fmt.Sprintf("has %d characters, %d more than allowed", n, n-MaxName)
	}
	return ""
}

// cleanName returns the nearest valid name; "" if there is none.
func cleanName(name string) string {
	var b strings.Builder
	n, gap := 0, false
	for _, r := range name {
		if n == MaxName {
			break
		}
		if !nameRune(r) || r == utf8.RuneError {
			gap = n > 0
			continue
		}
		if gap && n < MaxName-1 {
			b.WriteByte('-')
			n++
		}
		gap = false
		b.WriteRune(r)
		n++
	}
	clean := strings.TrimSpace(b.String())
	if nameFault(clean) != "" {
		return ""
	}
	return clean
}

// cut returns the longest prefix of s of at most limit bytes that ends between two characters.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// maxQuoted bounds a quoted value, in bytes, so that the size of a refusal does not depend on
// the input.
const maxQuoted = 80

// quoteRaw quotes a value as received.
func quoteRaw(raw json.RawMessage) string {
	return clip(strings.ToValidUTF8(strings.TrimSpace(string(raw[:min(len(raw), 4*maxQuoted)])), "\uFFFD"))
}

// quote quotes a value as JSON.
func quote(v any) string {
	if s, ok := v.(string); ok {
		v = cut(s, 4*maxQuoted)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%q", fmt.Sprint(v))
	}
	return clip(string(b))
}

func clip(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	return cut(s, maxQuoted) + "…"
}

// maxListed bounds the items of a list in a sentence. It is the number of sessions that an
// actor can have, the plan's own included.
const maxListed = MaxSessions + 1

// list joins items: "a, b and c".
func list(items []string, last string) string {
	if len(items) > maxListed {
		items = append(append([]string(nil), items[:maxListed]...), fmt.Sprintf("%d more", len(items)-maxListed))
	}
	return enumerate(items, last)
}

// enumerate joins items without a bound.
func enumerate(items []string, last string) string {
	switch len(items) {
	case 0:
		return ""
	case 1:
		return items[0]
	}
	return strings.Join(items[:len(items)-1], ", ") + " " + last + " " + items[len(items)-1]
}

func quoteAll[T any](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = quote(v)
	}
	return out
}

// Count formats a number of things: "1 call", "2 calls".
func Count[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
