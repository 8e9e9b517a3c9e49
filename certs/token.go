package certs

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
)

// Token lets a machine join a mesh. It has the pin of the mesh's root, by which the joiner
// authenticates the mesh, and a key, by which the mesh authenticates the joiner. The mesh
// stores only ID and Public, with which nobody can join, and decides how often and until when
// the token is valid.
type Token struct {
	Role Role
	Pin  Pin
	// ID is public: 13 lower-case letters and digits.
	ID string
	// Seed is the secret, an Ed25519 seed. It never crosses the wire.
	Seed [32]byte
}

// TokenProblem says what is wrong with the text of a token.
type TokenProblem string

const (
	// TokenForeign: the text is not a token at all.
	TokenForeign TokenProblem = "not a join token"
	// TokenOtherVersion: the token is of another version of locus.
	TokenOtherVersion TokenProblem = "a join token of another version of locus"
	// TokenTruncated: its end is missing.
	TokenTruncated TokenProblem = "a join token that is cut short"
	// TokenMistyped: a character is wrong, missing or superfluous.
	TokenMistyped TokenProblem = "a mistyped join token"
)

// TokenError is the error of ParseToken. Its text contains nothing of the token.
type TokenError struct{ Problem TokenProblem }

func (e *TokenError) Error() string { return "certs: this is " + string(e.Problem) }

const (
	tokenFamily  = "locus"
	tokenVersion = tokenFamily + "1"
	tokenIDBytes = 8
	tokenParts   = 6
	checkBytes   = 5
)

var roleLetters = map[Role]string{RoleNode: "n", RoleVM: "v", RoleLink: "l"}

// NewToken makes a token with a random id and secret.
func NewToken(role Role, pin Pin) Token {
	var id [tokenIDBytes]byte
	t := Token{Role: role, Pin: pin}
	rand.Read(id[:]) // never fails
	rand.Read(t.Seed[:])
	t.ID = letters.EncodeToString(id[:])
	return t
}

// String returns the token with its secret, as it is handed to the joiner:
// locus1.ROLE.PIN.ID.SECRET.CHECK, all lower case.
func (t Token) String() string {
	body := strings.Join([]string{tokenVersion, roleLetters[t.Role], string(t.Pin), t.ID, letters.EncodeToString(t.Seed[:])}, ".")
	return body + "." + checkOf(body)
}

// GoString hides the secret.
func (t Token) GoString() string { return fmt.Sprintf("Token(%s %s)", t.Role, t.ID) }

// LogValue hides the secret.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.GoString()) }

// checkOf is a checksum against typing errors. It has no cryptographic purpose.
func checkOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return letters.EncodeToString(sum[:checkBytes])
}

// ParseToken parses a token, ignoring white space around it. The error is a *TokenError.
func ParseToken(s string) (Token, error) {
	s = strings.TrimSpace(s)
	parts := strings.Split(s, ".")
	number, ours := strings.CutPrefix(parts[0], tokenFamily)
	switch {
	case !ours || strings.Trim(number, "0123456789") != "":
		return Token{}, &TokenError{TokenForeign}
	case len(parts) > 1 && parts[0] != tokenVersion:
		return Token{}, &TokenError{TokenOtherVersion}
	case len(parts) < tokenParts, len(parts) == tokenParts && len(parts[5]) < letters.EncodedLen(checkBytes):
		return Token{}, &TokenError{TokenTruncated}
	}
	t, ok := readToken(parts)
	// Comparing with the canonical text also refuses a wrong checksum and a second spelling
	// of the same bytes.
	if !ok || t.String() != s {
		return Token{}, &TokenError{TokenMistyped}
	}
	return t, nil
}

func readToken(parts []string) (t Token, ok bool) {
	if len(parts) != tokenParts {
		return Token{}, false
	}
	for role, letter := range roleLetters {
		if letter == parts[1] {
			t.Role = role
		}
	}
	t.Pin, t.ID = Pin(parts[2]), parts[3]
	id, err := letters.DecodeString(t.ID)
	if err != nil || len(id) != tokenIDBytes {
		return Token{}, false
	}
	seed, err := letters.DecodeString(parts[4])
	if err != nil || len(seed) != len(t.Seed) {
		return Token{}, false
	}
	t.Seed = [32]byte(seed)
	return t, t.Role.valid() && t.Pin.valid() && letters.EncodeToString(id) == t.ID
}

// Public returns the public key, with which the mesh verifies proofs made with the token.
func (t Token) Public() ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(t.Seed[:]).Public().(ed25519.PublicKey)
}
