package present

import (
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Table writes aligned rows under headings. It removes line ends and control characters
// from cells.
func Table(w io.Writer, headings []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	write := func(cells []string) error {
		clean := make([]string, len(cells))
		for i, c := range cells {
			clean[i] = Sanitise(c)
		}
		_, err := io.WriteString(t, strings.TrimRight(strings.Join(clean, "\t"), "\t")+"\n")
		return err
	}
	if headings != nil {
		if err := write(headings); err != nil {
			return err
		}
	}
	for _, row := range rows {
		if err := write(row); err != nil {
			return err
		}
	}
	return t.Flush()
}

// Sanitise replaces characters that could move the cursor, start a line or reorder it.
func Sanitise(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, text)
}
