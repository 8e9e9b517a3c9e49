package venv

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxText bounds a pyproject.toml, in bytes.
const MaxText = 64 << 10

// Normalise gives the text in the one form that is stored and compared: lines end
// with a line feed and without blanks, and the text with exactly one line feed.
func Normalise(text string) string {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// Digest identifies a text, whatever its line ends and trailing blanks: the
// SHA-256 of its normal form in hexadecimal.
func Digest(text string) string { return digest(Normalise(text)) }

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}
