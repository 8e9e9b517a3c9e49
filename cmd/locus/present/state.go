package present

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sort"
)

// State writes the state of a session: lists of named things as tables, everything else as
// it is. Groups are in alphabetical order.
func State(w io.Writer, state json.RawMessage) error {
	var groups map[string]json.RawMessage
	if err := json.Unmarshal(state, &groups); err != nil {
		return indented(w, state)
	}
	names := make([]string, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := stateGroup(w, name, groups[name]); err != nil {
			return err
		}
	}
	return nil
}

func stateGroup(w io.Writer, name string, body json.RawMessage) error {
	var text string
	if json.Unmarshal(body, &text) == nil {
		_, err := fmt.Fprintf(w, "%s: %s\n", Sanitise(name), Sanitise(text))
		return err
	}
	var items []json.RawMessage
	if json.Unmarshal(body, &items) != nil {
		if _, err := fmt.Fprintf(w, "%s:\n", Sanitise(name)); err != nil {
			return err
		}
		return indented(w, body)
	}
	if _, err := fmt.Fprintf(w, "%s: %d\n", Sanitise(name), len(items)); err != nil {
		return err
	}
	var rows [][]string
	for _, item := range items {
		rows = append(rows, stateRow(item))
	}
	return Table(w, nil, rows)
}

// stateRow returns the cells for one thing in a session.
func stateRow(item json.RawMessage) []string {
	var plain string
	if json.Unmarshal(item, &plain) == nil {
		return []string{"  " + Clip(plain, 120)}
	}
	var thing struct {
		Name, Type, Summary string
		Size                *int64
	}
	if json.Unmarshal(item, &thing) != nil || thing.Name == "" {
		return []string{"  " + Clip(string(item), 120)}
	}
	size := ""
	if thing.Size != nil {
		size = Bytes(*thing.Size)
	}
	return []string{"  " + thing.Name, thing.Type, size, Clip(thing.Summary, 80)}
}

func indented(w io.Writer, body json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, body, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}
