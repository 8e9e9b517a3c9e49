package venv

import (
	"slices"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	var said []string
	l := &lines{say: func(line string) { said = append(said, line) }}
	for _, piece := range []string{"one\ntw", "o\r\r\n10%\r20%\r", "\x1b[1mbold\n", "bad \xff\n", strings.Repeat("x", maxLine+10) + "\n", "last"} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	l.flush()
	want := []string{"one", "two", "10%", "20%", "[1mbold", "bad \ufffd", strings.Repeat("x", maxLine) + " …", "last"}
	if !slices.Equal(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
}

func TestTheTailIsBounded(t *testing.T) {
	l := &lines{say: func(string) {}}
	for range 1000 {
		l.Write([]byte(strings.Repeat("y", 500) + "\n"))
	}
	l.Write([]byte("the end\n"))
	if s := l.tail.String(); len(s) > maxTail || len(s) < maxTail-1000 || !strings.HasSuffix(s, "the end") {
		t.Errorf("%d bytes, which end with %q", len(s), s[max(0, len(s)-20):])
	}
}
