package calls

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestOutputBufferIsExactAtItsBound(t *testing.T) {
	for _, n := range []int{0, 1, HeadBytes, HeadBytes + 1, HeadBytes + TailBytes - 1, HeadBytes + TailBytes, HeadBytes + TailBytes + 1, 3 * TailBytes} {
		all := make([]byte, n)
		for i := range all {
			all[i] = 'a' + byte(i%26)
		}
		var tp outputBuffer
		tp.write(all)
		text, shown := tp.text()
		if n <= HeadBytes+TailBytes {
			if text != string(all) || shown != nil {
				t.Errorf("%d bytes: %d shown, truncated %+v", n, len(text), shown)
			}
			continue
		}
		want := string(all[:HeadBytes]) + string(all[n-TailBytes:])
		if text != want || shown == nil || shown.Total != int64(n) || shown.Shown != int64(len(want)) {
			t.Errorf("%d bytes: %d shown, truncated %+v", n, len(text), shown)
		}
	}
}

// However the output is split into writes, the buffer shows the same as after a single write.
func TestOutputBufferDoesNotDependOnChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pieces, whole outputBuffer
		var all []byte
		for range rapid.IntRange(0, 20).Draw(t, "pieces") {
			p := bytes.Repeat([]byte{byte(rapid.IntRange('a', 'z').Draw(t, "byte"))}, rapid.IntRange(0, TailBytes+10).Draw(t, "size"))
			pieces.write(p)
			all = append(all, p...)
		}
		whole.write(all)
		got, gotShown := pieces.text()
		want, wantShown := whole.text()
		if got != want || (gotShown == nil) != (wantShown == nil) || gotShown != nil && *gotShown != *wantShown {
			t.Fatalf("pieces show %d bytes %+v, the whole %d bytes %+v", len(got), gotShown, len(want), wantShown)
		}
	})
}

func TestOutputBufferReplacesInvalidUTF8(t *testing.T) {
	var tp outputBuffer
	tp.write([]byte("a\xff\xfeb\x00"))
	if text, _ := tp.text(); text != "a\uFFFD\uFFFDb\x00" {
		t.Fatalf("got %q, want text \"a\\uFFFD\\uFFFDb\\x00\"", text)
	}
}

// A character at the cut is left out whole: the reader is shown no U+FFFD that the program did
// not print.
func TestTapeIsNotCutWithinACharacter(t *testing.T) {
	for _, char := range []string{"é", "中", "🙂"} {
		for before := range 4 {
			for after := range 4 {
				pad := bytes.Repeat([]byte("a"), before)
				all := append(pad, bytes.Repeat([]byte(char), (HeadBytes+TailBytes)/len(char)+100)...)
				all = append(all, bytes.Repeat([]byte("z"), after)...)
				var tp outputBuffer
				tp.write(all)
				text, shown := tp.text()
				if strings.ContainsRune(text, utf8.RuneError) || shown == nil || shown.Shown != int64(len(text)) || shown.Total != int64(len(all)) {
					t.Errorf("%s after %d, before %d: %d bytes of text, truncated %+v, U+FFFD: %v", char, before, after, len(text), shown, strings.ContainsRune(text, utf8.RuneError))
				}
			}
		}
	}
}
