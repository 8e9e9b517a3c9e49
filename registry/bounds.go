package registry

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/locusrun/locus/surfaces"
)

// errBounds marks a command whose fields are outside what the state machine
// accepts. Callers see it as ErrMalformed.
var errBounds = errors.New("a field is outside its bounds")

// NUL separates the parts of index keys, so no text may hold one; invalid UTF-8
// would not survive a snapshot.
func isText(s string, longest int) bool {
	return len(s) <= longest && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

func isToken(s string, longest int) bool { return s != "" && isText(s, longest) }

func isSessionName(s string) bool {
	return isText(s, maxName*utf8.UTFMax) && utf8.RuneCountInString(s) <= maxName
}

func isKey(k surfaces.SessionKey) bool {
	return isToken(k.Actor, maxText) && isToken(string(k.Language), maxReason) &&
		k.Venv >= 0 && k.Venv <= maxID && k.ID >= 0 && k.ID <= maxID
}

func isLife(n NodeID, i Incarnation) bool { return isToken(string(n), maxText) && i > 0 }

func isGrant(g Grant) bool { return isLife(g.Node, g.Incarnation) && g.Epoch > 0 }

func isReason(r LossReason) bool { return isToken(string(r), maxReason) }

// IsLabels reports whether the registry keeps such labels: at most MaxLabels, with names of 1 and
// values of 0 to MaxLabel bytes of text without NUL.
func IsLabels(labels map[string]string) bool {
	ok := len(labels) <= MaxLabels
	for k, v := range labels {
		ok = ok && isToken(k, MaxLabel) && isText(v, MaxLabel)
	}
	return ok
}

// isBlobs holds for 1 to most byte strings, each of 1 to longest bytes.
func isBlobs(all [][]byte, most, longest int) bool {
	ok := len(all) > 0 && len(all) <= most
	for _, b := range all {
		ok = ok && len(b) > 0 && len(b) <= longest
	}
	return ok
}

func isHash[T ~string](h T) bool {
	const digits = "0123456789abcdef"
	return len(h) == 64 && strings.Trim(string(h), digits) == ""
}

func isVenvID(id int) bool { return id > 0 && id <= maxID }

// isIdentifier holds for what can stand after a dot in Python, of ASCII letters.
func isIdentifier(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= maxIdentifier
}

// isSettings holds for a server's variables or headers.
func isSettings(all map[string]string) bool {
	ok := len(all) <= MaxServerTexts
	for k, v := range all {
		ok = ok && isToken(k, maxText) && isText(v, MaxServerText)
	}
	return ok
}

// within gives errBounds unless every condition holds.
func checkBounds(conditions ...bool) error {
	for _, ok := range conditions {
		if !ok {
			return errBounds
		}
	}
	return nil
}
