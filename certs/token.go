package certs

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
)

// Token lets one machine join: it names the mesh's root, so that the joiner knows
// whom it talks to, and holds the key that proves that the joiner may. The mesh
// keeps only ID and Public; nothing that it stores lets anybody join. How often
// and until when a token holds is the mesh's business.
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
	// TokenForeign: the text is no token at all.
	TokenForeign TokenProblem = "not a join token"
	// TokenOtherVersion: made by another version of locus.
	TokenOtherVersion TokenProblem = "a join token of another version of locus"
	// TokenTruncated: its end is missing.
	TokenTruncated TokenProblem = "a join token that is cut short"
	// TokenMistyped: a character is wrong, missing or too many.
	TokenMistyped TokenProblem = "a mistyped join token"
)

// TokenError is what ParseToken fails with. Its text holds nothing of the token.
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

// String gives the token with its secret, as it is handed to the joiner:
// locus1.ROLE.PIN.ID.SECRET.CHECK, all lower case.
func (t Token) String() string {
	body := strings.Join([]string{tokenVersion, roleLetters[t.Role], string(t.Pin), t.ID, letters.EncodeToString(t.Seed[:])}, ".")
	return body + "." + checkOf(body)
}

// GoString hides the secret.
func (t Token) GoString() string { return fmt.Sprintf("Token(%s %s)", t.Role, t.ID) }

// LogValue hides the secret.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.GoString()) }

// checkOf catches what happens to text that is copied by hand; it proves nothing.
func checkOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return letters.EncodeToString(sum[:checkBytes])
}

// ParseToken reads a token; white space around it does not matter. The error is a
// *TokenError.
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
	// Comparing with what would be written also refuses a wrong check, and a second
	// spelling of the same bytes.
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

// Public gives the key that the mesh keeps to know the token by.
func (t Token) Public() ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(t.Seed[:]).Public().(ed25519.PublicKey)
}
