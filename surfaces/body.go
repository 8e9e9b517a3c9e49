package surfaces

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

const (
	// MaxBody is the longest body that a door should read, in bytes.
	MaxBody = 64 << 20
	// maxDepth bounds the nesting of lists and objects. No argument nests nearly as deep;
	// the room lets the decoder refuse the argument itself with a better message.
	maxDepth = 64
	// maxMembers bounds the members of the object, so that a refusal that names each
	// unknown one stays short.
	maxMembers = 256
)

// parseBody returns the members of a JSON object, the last value of each name, and for each
// name that occurs more than once whether all its values were the same.
func parseBody(body []byte) (map[string]json.RawMessage, map[string]bool, *Refusal) {
	if len(body) > MaxBody {
		return nil, nil, TooLarge(len(body))
	}
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return map[string]json.RawMessage{}, nil, nil
	}
	if body[0] != '{' {
		return nil, nil, notObject(fmt.Sprintf("it begins with %q", body[0]))
	}
	if tooDeep(body) {
		return nil, nil, notObject(fmt.Sprintf("it nests deeper than %d levels", maxDepth))
	}
	if !json.Valid(body) {
		return nil, nil, notObject(syntax(json.Unmarshal(body, new(json.RawMessage))))
	}
	return members(body)
}

// members splits a valid JSON object. Since it is valid, finding where strings, lists and
// objects end is enough.
func members(body []byte) (map[string]json.RawMessage, map[string]bool, *Refusal) {
	args := make(map[string]json.RawMessage, 8)
	var twice map[string]bool
	for rest := skip(body[1:], ", \t\r\n"); rest[0] != '}'; rest = skip(rest, ", \t\r\n") {
		n := valueLength(rest)
		name, _, err := unquote(json.RawMessage(rest[:n]))
		if err != nil {
			return nil, nil, notObject(syntax(err))
		}
		rest = skip(rest[n:], ": \t\r\n")
		n = valueLength(rest)
		raw := json.RawMessage(rest[:n:n])
		rest = rest[n:]
		if before, again := args[name]; again {
			same, seen := twice[name]
			put(&twice, name, (same || !seen) && bytes.Equal(before, raw))
		}
		if args[name] = raw; len(args) > maxMembers {
			return nil, nil, notObject(fmt.Sprintf("it has more than %d members", maxMembers))
		}
	}
	return args, twice, nil
}

func skip(s []byte, bytesToSkip string) []byte { return bytes.TrimLeft(s, bytesToSkip) }

// valueLength returns the length of the JSON value at the start of s, which lies within a
// valid object.
func valueLength(s []byte) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			for i++; s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the end of the object around a number or a word
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(s)
}

// tooDeep reports whether brackets outside strings nest deeper than maxDepth.
func tooDeep(body []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

func syntax(err error) string {
	var bad *json.SyntaxError
	if errors.As(err, &bad) {
		return fmt.Sprintf("%s at byte %d", bad.Error(), bad.Offset)
	}
	return err.Error()
}

func notObject(why string) *Refusal {
	return &Refusal{
		Code:       CodeInvalidArgument,
		Message:    "the arguments are not one JSON object: " + why,
		Suggestion: "Send one JSON object whose members are the arguments, each given once.",
	}
}

// TooLarge refuses a body of size bytes, which is over MaxBody.
func TooLarge(size int) *Refusal {
	return &Refusal{
		Code:       CodeInvalidArgument,
		Message:    fmt.Sprintf("the arguments have %d bytes, over the limit of %d", size, MaxBody),
		Suggestion: "Send less, for instance by putting data into a file that the code reads.",
		HTTP:       httpTooLarge,
	}
}
