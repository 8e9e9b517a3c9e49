package venv

import "strings"

// maxWhy bounds the part of uv's output that a BuildError's message has, in bytes.
const maxWhy = 1 << 10

// why extracts the reason for a failure from uv's output: the last line that is not indented,
// or the error in a frame, with the causes that are indented below it. It leaves out hints and
// the output of programs that uv has run.
func why(output string) string {
	var said []string
	aside := false
	for line := range strings.Lines(output) {
		text := strings.TrimLeft(line, " \t│╰├─▶")
		begins := len(said) == 0 || line[0] != ' ' || strings.HasPrefix(text, "×")
		for _, mark := range []string{"×", "error:", "cause:"} {
			text = strings.TrimPrefix(text, mark)
		}
		text = strings.TrimRight(strings.Join(strings.Fields(text), " "), ":")
		switch {
		case text == "":
		case strings.HasPrefix(text, "hint:") || strings.HasPrefix(text, "[std"):
			aside = true
		case begins:
			said, aside = []string{text}, false
		case !aside:
			said = append(said, text)
		}
	}
	text := strings.TrimSuffix(strings.Join(said, ": "), ".")
	if len(text) > maxWhy {
		text = strings.ToValidUTF8(text[:maxWhy], "") + "…"
	}
	return text
}
