package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

const usage = `usage: primitives [-r] NAMESPACE.FUNCTION [JSON | -]
       primitives list [NAMESPACE]
       primitives help NAMESPACE.FUNCTION

Calls a function of the host with the object of arguments JSON, or the one on
standard input, and prints its result as JSON; with -r, --raw a result that is a
string is printed bare, and one that is an image or a sound as its bytes. The exit status is 0, 1 if the function failed, or 2 if
the command was misused.
`

// request is a command's request to the host.
type request struct {
	about     string // the prefix of error messages
	name      string
	data      json.RawMessage
	describes bool // it requests descriptions and calls nothing
	// show formats the result.
	show func(result json.RawMessage) ([]byte, error)
}

// wellNamed matches NAMESPACE.FUNCTION, both Python identifiers.
var wellNamed = regexp.MustCompile(`^[\pL_][\pL\pN_]*\.[\pL_][\pL\pN_]*$`)

// maxName bounds a function's name, in bytes.
const maxName = 256

// understand parses a command's message. If it needs no request to the host, such as a
// misuse or --help, the answer is not nil.
func understand(m message) (request, *answer) {
	misuse := func(text string) (request, *answer) {
		a := complaint(statusMisuse, text)
		return request{}, &a
	}
	raw, words := false, make([]string, 0, len(m.arguments))
	for _, word := range m.arguments {
		switch {
		case word == "-r" || word == "--raw":
			raw = true
		case word == "-h" || word == "--help":
			return request{}, &answer{status: statusDone, stdout: []byte(usage)}
		case len(word) > 1 && word[0] == '-':
			return misuse(fmt.Sprintf("there is no option %.100q; primitives --help tells those there are", word))
		default:
			words = append(words, word)
		}
	}
	switch {
	case len(words) == 0:
		return request{}, &answer{status: statusMisuse, stderr: []byte(usage)}
	case words[0] == "list" && len(words) <= 2:
		return describe(strings.Join(words[1:], ""), list), nil
	case words[0] == "help" && len(words) == 2:
		return describe(words[1], help), nil
	case words[0] == "list" || words[0] == "help":
		return misuse(fmt.Sprintf("%s takes one name; %d words were given", words[0], len(words)-1))
	case len(words[0]) > maxName || !wellNamed.MatchString(words[0]) || strings.HasPrefix(words[0], "locus."):
		return misuse(fmt.Sprintf("%.100q is not NAMESPACE.FUNCTION; primitives list tells what there is", words[0]))
	case len(words) > 2:
		return misuse(fmt.Sprintf("%s: one object of arguments is wanted, %d words were given; put the JSON in single quotes", words[0], len(words)-1))
	}
	arguments := []byte("{}")
	if len(words) == 2 {
		arguments = []byte(words[1])
	}
	if len(words) == 2 && words[1] == "-" {
		arguments = m.input
	}
	if err := object(arguments); err != nil {
		return misuse(words[0] + ": " + err.Error())
	}
	return call(words[0], arguments, raw), nil
}

// object returns an error if a text is not a JSON object.
func object(text []byte) error {
	const example = `; give an object such as {"name": "value"}`
	text = bytes.TrimLeft(text, " \t\r\n")
	switch {
	case len(text) == 0:
		return errors.New("the arguments are empty" + example)
	case !utf8.Valid(text):
		return errors.New("the arguments are not UTF-8")
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(text, new(json.RawMessage)); errors.As(err, &syntax) {
		return fmt.Errorf("the arguments are not JSON: %v at byte %d%s", syntax, syntax.Offset, example)
	}
	if text[0] != '{' {
		return fmt.Errorf("the arguments are JSON but not an object: %.40q%s", text, example)
	}
	return nil
}

// stored is the namespace of the stored functions, whose arguments are encoded in another
// form.
const stored = "functions."

func call(name string, arguments json.RawMessage, raw bool) request {
	r := request{about: name, name: name, data: arguments}
	r.show = func(result json.RawMessage) ([]byte, error) {
		if !raw {
			return append(withoutData(result), '\n'), nil
		}
		if m, ok := mediumIn(result); ok {
			return m.Data, nil
		}
		return append(unquoted(result), '\n'), nil
	}
	if strings.HasPrefix(name, stored) {
		r.data = fmt.Appendf(nil, `{"json": {"args": [], "kwargs": %s}}`, arguments)
		show := r.show
		r.show = func(result json.RawMessage) ([]byte, error) {
			var value struct {
				JSON json.RawMessage `json:"json"`
			}
			if err := json.Unmarshal(result, &value); err != nil || value.JSON == nil {
				return nil, errors.New("the result is not plain JSON data, and can be used from Python only")
			}
			return show(value.JSON)
		}
	}
	return r
}

// unquoted returns the text of a JSON string, and any other value as it is.
func unquoted(result []byte) []byte {
	var text string
	if result[0] != '"' || json.Unmarshal(result, &text) != nil {
		return result
	}
	return []byte(text)
}

// function is the host's description of a function.
type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Signature   string          `json:"signature"`
	Schema      json.RawMessage `json:"schema"`
	ReadOnly    bool            `json:"read_only"`
	Destructive bool            `json:"destructive"`
}

// nature returns whether a function is read-only or destructive, as a word.
func (f function) nature() string {
	switch {
	case f.ReadOnly:
		return "read-only"
	case f.Destructive:
		return "destructive"
	}
	return ""
}

func describe(name string, show func([]function) ([]byte, error)) request {
	about := name
	if name == "" {
		about = "list"
	}
	asked, err := json.Marshal(map[string]string{"name": name})
	if err != nil {
		asked = []byte("{}") // a string can always be encoded
	}
	return request{
		about: about, name: "locus.describe", data: asked, describes: true,
		show: func(result json.RawMessage) ([]byte, error) {
			var there struct {
				Functions []function `json:"functions"`
			}
			if err := json.Unmarshal(result, &there); err != nil {
				return nil, fmt.Errorf("the answer cannot be read: %w", err)
			}
			if len(there.Functions) == 0 && name != "" {
				return nil, errors.New("there is nothing of that name; primitives list tells what there is")
			}
			return show(there.Functions)
		},
	}
}

// list formats a line for each function: its name, its nature and the first line of its
// description.
func list(functions []function) ([]byte, error) {
	var text bytes.Buffer
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, f := range functions {
		first, _, _ := strings.Cut(strings.TrimSpace(f.Description), "\n")
		fmt.Fprintf(columns, "%s\t%s\t%s\n", f.Name, f.nature(), first)
	}
	if err := columns.Flush(); err != nil {
		return nil, err
	}
	var trimmed []byte
	for line := range bytes.Lines(text.Bytes()) {
		trimmed = append(append(trimmed, bytes.TrimRight(line, " \n")...), '\n')
	}
	return trimmed, nil
}

// help formats the full description of each function.
func help(functions []function) ([]byte, error) {
	var text bytes.Buffer
	for i, f := range functions {
		if i > 0 {
			text.WriteString("\n")
		}
		text.WriteString(f.Name + f.Signature)
		if n := f.nature(); n != "" {
			text.WriteString("  [" + n + "]")
		}
		text.WriteString("\n")
		if d := strings.TrimSpace(f.Description); d != "" {
			text.WriteString("\n" + d + "\n")
		}
		if len(f.Schema) > 0 {
			text.WriteString("\nThe arguments, as a JSON Schema:\n\n")
			if err := json.Indent(&text, f.Schema, "", "  "); err != nil {
				return nil, fmt.Errorf("the schema of %s cannot be read: %w", f.Name, err)
			}
			text.WriteString("\n")
		}
	}
	return text.Bytes(), nil
}
