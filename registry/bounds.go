package registry

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/locusrun/locus/surfaces"
)

// errBounds: a field of a command is outside the bounds that the state machine accepts.
// Callers see ErrMalformed.
var errBounds = errors.New("a field is outside its bounds")

// isText refuses NUL, which separates the parts of index keys, and invalid UTF-8, which
// would not survive the JSON of a snapshot.
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

// IsLabels reports whether labels are within bounds: at most MaxLabels, with names of 1 to
// MaxLabel bytes and values of up to MaxLabel bytes, in UTF-8 without NUL.
func IsLabels(labels map[string]string) bool {
	ok := len(labels) <= MaxLabels
	for k, v := range labels {
		ok = ok && isToken(k, MaxLabel) && isText(v, MaxLabel)
	}
	return ok
}

// isBlobs reports whether there are 1 to most byte strings of 1 to longest bytes each.
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

// isIdentifier reports whether s is an ASCII identifier.
func isIdentifier(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= maxIdentifier
}

// isSettings checks the variables or headers of a server.
func isSettings(all map[string]string) bool {
	ok := len(all) <= MaxServerTexts
	for k, v := range all {
		ok = ok && isToken(k, maxText) && isText(v, MaxServerText)
	}
	return ok
}

// checkBounds returns errBounds unless every condition holds.
func checkBounds(conditions ...bool) error {
	for _, ok := range conditions {
		if !ok {
			return errBounds
		}
	}
	return nil
}
