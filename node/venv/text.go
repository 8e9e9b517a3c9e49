package venv

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxText bounds a pyproject.toml, in bytes.
const MaxText = 64 << 10

// Normalise returns the form of a text that is stored and compared: without trailing blanks in
// lines, with line feeds only, and with exactly one at the end.
func Normalise(text string) string {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// Digest identifies a text, regardless of line ends and trailing blanks: it is the SHA-256 of
// the normal form, in hexadecimal.
func Digest(text string) string { return digest(Normalise(text)) }

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}
