package certs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func tokens() *rapid.Generator[Token] {
	return rapid.Custom(func(t *rapid.T) Token {
		bytes32 := rapid.SliceOfN(rapid.Byte(), 32, 32)
		return Token{
			Role: rapid.SampledFrom([]Role{RoleNode, RoleVM, RoleLink}).Draw(t, "role"),
			Pin:  Pin(KeyHash(bytes32.Draw(t, "key"))),
			ID:   letters.EncodeToString(rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "id")),
			Seed: [32]byte(bytes32.Draw(t, "seed")),
		}
	})
}

func TestTokenIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := tokens().Draw(t, "token")
		got, err := ParseToken(" \t" + token.String() + "\n")
		if err != nil || got != token {
			t.Fatalf("%v, %v", got, err)
		}
	})
}

// No slip of a hand makes another token of it.
func TestMistypedTokens(t *testing.T) {
	const characters = "abcdefghijklmnopqrstuvwxyz0123456789.ABC -_é"
	rapid.Check(t, func(t *rapid.T) {
		s := tokens().Draw(t, "token").String()
		at := rapid.IntRange(0, len(s)-2).Draw(t, "at")
		slip := rapid.SampledFrom([]string{"other", "more", "less", "swapped"}).Draw(t, "slip")
		c := rapid.SampledFrom([]rune(characters)).Draw(t, "character")
		var wrong string
		switch slip {
		case "other":
			wrong = s[:at] + string(c) + s[at+1:]
		case "more":
			wrong = s[:at+1] + string(c) + s[at+1:]
		case "less":
			wrong = s[:at] + s[at+1:]
		case "swapped":
			wrong = s[:at] + s[at+1:at+2] + s[at:at+1] + s[at+2:]
		}
		if wrong == s {
			t.Skip("nothing changed")
		}
		var problem *TokenError
		if _, err := ParseToken(wrong); !errors.As(err, &problem) {
			t.Fatalf("%s: %v", wrong, err)
		}
	})
}

func TestTokenProblemsAreTyped(t *testing.T) {
	s := NewToken(RoleLink, Pin(KeyHash(nil))).String()
	for at := len("locus1"); at < len(s); at++ {
		wantProblem(t, s[:at], TokenTruncated)
	}
	last := "a"
	if strings.HasSuffix(s, "a") {
		last = "b"
	}
	for text, want := range map[string]TokenProblem{
		"":                                     TokenForeign,
		"hello":                                TokenForeign,
		"SWMTKN-1-abc-def":                     TokenForeign,
		strings.ToUpper(s):                     TokenForeign,
		"locusts.n." + s[9:]:                   TokenForeign,
		"locus2" + s[6:]:                       TokenOtherVersion,
		"locus12" + s[6:]:                      TokenOtherVersion,
		"locus2.whatever":                      TokenOtherVersion,
		s[:len(s)-1] + last:                    TokenMistyped,
		s + "a":                                TokenMistyped,
		s + ".a":                               TokenMistyped,
		s + s:                                  TokenMistyped,
		"locus1.x" + s[8:]:                     TokenMistyped,
		strings.Replace(s, ".", "..", 1):       TokenMistyped,
		s[:20] + s[21:]:                        TokenMistyped,
		s[:20] + "\n" + s[20:]:                 TokenMistyped,
		s[:len(s)/2] + " " + s[len(s)/2:]:      TokenMistyped,
		strings.ToUpper(s[6:]) + s:             TokenForeign,
		"locus1." + strings.ToUpper(s[7:]):     TokenMistyped,
		"locus1.n..." + strings.Repeat("a", 9): TokenTruncated,
	} {
		wantProblem(t, text, want)
	}
}

func wantProblem(t *testing.T, text string, want TokenProblem) {
	t.Helper()
	var problem *TokenError
	if _, err := ParseToken(text); !errors.As(err, &problem) || problem.Problem != want {
		t.Errorf("%q: %v, want %s", text, err, want)
	} else if len(text) > 20 && strings.Contains(err.Error(), text[10:20]) {
		t.Errorf("the error tells of the token: %v", err)
	}
}

func TestTokensAreUniqueAndRedacted(t *testing.T) {
	a, b := NewToken(RoleNode, "pin"), NewToken(RoleNode, "pin")
	if a.ID == b.ID || a.Seed == b.Seed || a.Public().Equal(b.Public()) {
		t.Error("two tokens are alike")
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "token", a)
	secret := letters.EncodeToString(a.Seed[:])
	if s := log.String() + fmt.Sprintf("%#v", a); strings.Contains(s, secret) || !strings.Contains(s, a.ID) {
		t.Errorf("shown as %s", s)
	}
	if !strings.Contains(a.String(), secret) {
		t.Error("String is for the joiner and needs the secret")
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(NewToken(RoleNode, Pin(KeyHash(nil))).String())
	f.Add("locus1.n.pin.id.secret.check")
	f.Add("locus2.")
	f.Fuzz(func(t *testing.T, s string) {
		token, err := ParseToken(s)
		var problem *TokenError
		switch {
		case err == nil && token.String() != strings.TrimSpace(s):
			t.Fatalf("%q became %q", s, token.String())
		case err != nil && !errors.As(err, &problem):
			t.Fatal(err)
		}
	})
}
