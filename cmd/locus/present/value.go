package present

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/locusrun/locus/surfaces"
)

// Value formats the result of a call like the prompt of its language; false if a prompt
// would print nothing.
func Value(r surfaces.Result) (string, bool) {
	raw := bytes.TrimSpace(r.Result)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return "", false
	}
	if raw[0] == '"' && (r.ResultType == nil || *r.ResultType != "str") {
		// Anything but plain data is sent as its repr.
		var text string
		if json.Unmarshal(raw, &text) == nil {
			return text, true
		}
	}
	var b strings.Builder
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := writeValue(&b, dec); err != nil {
		return string(raw), true
	}
	return b.String(), true
}

// writeValue writes the next value of dec like Python's repr. Keys keep their order.
func writeValue(b *strings.Builder, dec *json.Decoder) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		return writeCompound(b, dec, v)
	case string:
		b.WriteString(quote(v))
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case nil:
		b.WriteString("None")
	default:
		fmt.Fprint(b, v)
	}
	return nil
}

func writeCompound(b *strings.Builder, dec *json.Decoder, open json.Delim) error {
	b.WriteString(open.String())
	for n := 0; dec.More(); n++ {
		if n > 0 {
			b.WriteString(", ")
		}
		if err := writeValue(b, dec); err != nil {
			return err
		}
		if open == '{' {
			b.WriteString(": ")
			if err := writeValue(b, dec); err != nil {
				return err
			}
		}
	}
	end, err := dec.Token()
	if err != nil {
		return err
	}
	fmt.Fprint(b, end)
	return nil
}

// quote quotes a string like Python: in single quotes, unless double quotes need fewer
// escapes.
func quote(s string) string {
	q := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	var b strings.Builder
	b.WriteRune(q)
	for _, r := range s {
		switch {
		case r == q || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(q)
	return b.String()
}
