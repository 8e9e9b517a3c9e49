package venv

import "testing"

func TestDigestIgnoresWhitespaceAtLineEnds(t *testing.T) {
	one := Digest("[project]\nname = \"a\" # why\n")
	for _, same := range []string{
		"[project]\r\nname = \"a\" # why\r\n", "[project]  \nname = \"a\" # why", "\ufeff[project]\nname = \"a\" # why\n\n\n",
	} {
		if Digest(same) != one {
			t.Errorf("%q is another text", same)
		}
	}
	for _, other := range []string{"[project]\nname = \"b\" # why\n", "[project]\nname = \"a\"\n", "[project]\n\nname = \"a\" # why\n"} {
		if Digest(other) == one {
			t.Errorf("%q is the same text", other)
		}
	}
}

func TestNormaliseIsIdempotent(t *testing.T) {
	for _, text := range []string{"", "\n", "a", "a \t\r\n\n b\n\n"} {
		if once := Normalise(text); Normalise(once) != once {
			t.Errorf("%q becomes %q, and then %q", text, once, Normalise(once))
		}
	}
}
