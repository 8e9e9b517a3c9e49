package surfaces

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// problem says why a value cannot be used, and how to correct it if that does not depend on
// the other arguments.
type problem struct {
	message    string
	correction correction
	value      any    // for setValue
	phrase     string // for setValue: description of a value that is too long to show
	expects    string // for askCaller: the values that the argument takes
}

// correction says how a problem is corrected.
type correction uint8

const (
	askCaller    correction = iota // only the caller knows the right value
	setValue                       // it is clear which value was meant
	dropArgument                   // the value says nothing
)

// read decodes a given value. Depending on the argument's kind the value is a string, an
// int, a float64, a bool, offers or fileList.
func read(a *Argument, raw json.RawMessage) (any, *problem) {
	switch a.Kind {
	case KindString:
		return readString(a, raw)
	case KindInteger:
		return readInteger(a, raw)
	case KindNumber:
		return readNumber(a, raw)
	case KindArray:
		return a.items.read(a, raw)
	default:
		return readBoolean(a, raw)
	}
}

func jsonKind(raw json.RawMessage) string {
	for _, c := range raw {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '"':
			return "a string"
		case '{':
			return "an object"
		case '[':
			return "a list"
		case 't', 'f':
			return "a boolean"
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			return "a number"
		}
		break
	}
	return "not JSON"
}

func wrongType(a *Argument, raw json.RawMessage, want string) *problem {
	return &problem{
		message: fmt.Sprintf("%s must be %s, but %s was given, which is %s", a.Name, want, quoteRaw(raw), jsonKind(raw)),
		expects: a.expects(),
	}
}

// expects describes the values that an argument takes.
func (a *Argument) expects() string {
	switch {
	case a.Enum != nil:
		return "one of " + list(quoteAll(a.Enum), "or")
	case a.Pattern != "":
		return fmt.Sprintf("1 to %d letters, digits, _ - . and spaces", a.MaxChars)
	case a.Kind == KindInteger:
		return fmt.Sprintf("an integer from %.0f to %.0f", a.Min, a.Max)
	case a.Kind == KindNumber && a.Above:
		return fmt.Sprintf("a number above %g and at most %g", a.Min, a.Max)
	case a.Kind == KindBoolean:
		return "true or false"
	case a.Kind == KindArray:
		return fmt.Sprintf("a list of at most %d %s", a.MaxItems, a.items.words)
	case a.MaxChars > 0 && a.noNUL:
		return fmt.Sprintf("a string of 1 to %d characters without NUL", a.MaxChars)
	case a.MaxChars > 0:
		return fmt.Sprintf("a string of 1 to %d characters", a.MaxChars)
	case a.noNUL:
		return fmt.Sprintf("a string of at most %d bytes of valid Unicode without NUL", a.MaxBytes)
	default:
		return fmt.Sprintf("a string of at most %d bytes", a.MaxBytes)
	}
}

func readString(a *Argument, raw json.RawMessage) (any, *problem) {
	switch jsonKind(raw) {
	case "a string":
	case "a number", "a boolean":
		p := wrongType(a, raw, "a string")
		text := strings.TrimSpace(string(raw))
		if a.Enum == nil && json.Valid(raw) && checkText(a, text) == nil {
			p.correction, p.value = setValue, text
		}
		return nil, p
	default:
		return nil, wrongType(a, raw, "a string")
	}
	s, damaged, err := unquote(raw)
	if err != nil {
		return nil, wrongType(a, raw, "a string")
	}
	if damaged != "" {
		p := &problem{message: fmt.Sprintf("%s has %s", a.Name, damaged), expects: a.expects()}
		if a.Pattern != "" {
			p = withCleanName(p, s)
		}
		return nil, p
	}
	if p := checkText(a, s); p != nil {
		return nil, p
	}
	return s, nil
}

// checkText checks a string against the argument's bounds.
func checkText(a *Argument, s string) *problem {
	switch {
	case !a.allowBlank && strings.TrimSpace(s) == "":
		p := &problem{message: fmt.Sprintf("%s is blank: %s", a.Name, quote(s)), expects: a.expects()}
		if !a.Required {
			p.correction = dropArgument
		}
		return p
	case a.Pattern != "":
		if fault := nameFault(s); fault != "" {
			return withCleanName(&problem{message: fmt.Sprintf("%s %s %s", a.Name, quote(s), fault), expects: a.expects()}, s)
		}
	case a.noNUL && strings.IndexByte(s, 0) >= 0:
		return &problem{message: fmt.Sprintf("%s has a NUL character at byte %d", a.Name, strings.IndexByte(s, 0)), expects: a.expects()}
	case a.MaxBytes > 0 && len(s) > a.MaxBytes:
		p := &problem{message: fmt.Sprintf("%s has %d bytes, over the limit of %d", a.Name, len(s), a.MaxBytes), expects: a.expects()}
		if a.Name == "thought" {
			p.correction, p.value = setValue, cut(s, a.MaxBytes)
			p.phrase = fmt.Sprintf("its first %d bytes", len(cut(s, a.MaxBytes)))
		}
		return p
	case a.MaxChars > 0 && utf8.RuneCountInString(s) > a.MaxChars:
		return &problem{
			message: fmt.Sprintf("%s %s has %d characters, over the limit of %d", a.Name, quote(s), utf8.RuneCountInString(s), a.MaxChars),
			expects: a.expects(),
		}
	case a.Enum != nil && !a.deferred && !slices.Contains(a.Enum, s):
		p := &problem{message: fmt.Sprintf("%s %s is not one of %s", a.Name, quote(s), list(quoteAll(a.Enum), "or")), expects: a.expects()}
		if near, ok := nearestValue(a.Name, s, a.Enum); ok {
			p.correction, p.value = setValue, near
		}
		return p
	}
	return nil
}

func withCleanName(p *problem, name string) *problem {
	if clean := cleanName(name); clean != "" {
		p.correction, p.value = setValue, clean
	}
	return p
}

func readInteger(a *Argument, raw json.RawMessage) (any, *problem) {
	if n, err := strconv.Atoi(string(raw)); err == nil && raw[0] != '+' && json.Valid(raw) && float64(n) >= a.Min && float64(n) <= a.Max {
		return n, nil
	}
	p := wrongType(a, raw, "an integer")
	text := strings.TrimSpace(string(raw))
	quoted := jsonKind(raw) == "a string"
	if quoted {
		s, damaged, err := unquote(raw)
		if err != nil || damaged != "" {
			return nil, p
		}
		if text = strings.TrimSpace(s); text == "" {
			p.correction = dropArgument
			return nil, p
		}
	} else if jsonKind(raw) != "a number" || !json.Valid(raw) {
		return nil, p
	}
	n, err := parseInteger(text)
	switch {
	case err != nil:
		return nil, p
	case float64(n) < a.Min || float64(n) > a.Max:
		p.message = fmt.Sprintf("%s must be %s, but %s was given", a.Name, a.expects(), quoteRaw(raw))
		if a.Name == "venv_id" && n == 0 {
			p.correction = dropArgument // 0 is how some callers write none
		}
		return nil, p
	case quoted:
		p.correction, p.value = setValue, n
		return nil, p
	}
	return n, nil
}

var errNotWhole = errors.New("not a whole number")

// parseInteger takes 3, 3.0 and 3e0.
func parseInteger(text string) (int, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return int(n), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, err
	}
	if f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, errNotWhole
	}
	return int(f), nil
}

func readNumber(a *Argument, raw json.RawMessage) (any, *problem) {
	p := wrongType(a, raw, "a number")
	p.correction = dropArgument
	text := strings.TrimSpace(string(raw))
	quoted := jsonKind(raw) == "a string"
	if quoted {
		s, damaged, err := unquote(raw)
		if err != nil || damaged != "" {
			return nil, p
		}
		text = strings.TrimSuffix(strings.TrimSpace(s), "s")
	} else if jsonKind(raw) != "a number" || !json.Valid(raw) {
		return nil, p
	}
	f, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // f is an infinity, which the bounds refuse
	}
	tooLow := f < a.Min || (a.Above && f == a.Min)
	switch {
	case err != nil || math.IsNaN(f):
		return nil, p
	case tooLow, f > a.Max:
		p.message = fmt.Sprintf("%s must be %s, but %s was given", a.Name, a.expects(), quoteRaw(raw))
		if !tooLow && !math.IsInf(f, 0) {
			p.correction, p.value = setValue, a.Max
		}
		return nil, p
	case quoted:
		p.correction, p.value = setValue, f
		return nil, p
	}
	return f, nil
}

func readBoolean(a *Argument, raw json.RawMessage) (any, *problem) {
	text := strings.TrimSpace(string(raw[:min(len(raw), maxQuoted)]))
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	p := wrongType(a, raw, "a boolean")
	if s, damaged, err := unquote(raw); err == nil && damaged == "" {
		text = s
	}
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "yes", "on", "1":
		p.correction, p.value = setValue, true
	case "false", "no", "off", "0":
		p.correction, p.value = setValue, false
	case "":
		p.correction = dropArgument
	}
	return nil, p
}
