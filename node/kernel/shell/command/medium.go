package command

import (
	"bytes"
	"encoding/json"
)

// medium is an image or a sound that a function gave. It was shown as the call's own.
type medium struct {
	Type  string `json:"type"`
	MIME  string `json:"mimeType"`
	Bytes int    `json:"bytes"`
	Data  []byte `json:"data,omitempty"`
}

// mediumIn reads a result that is a medium.
func mediumIn(result json.RawMessage) (m medium, ok bool) {
	if !bytes.Contains(result, []byte(`"mimeType"`)) {
		return m, false // most are none, and need no decoder
	}
	d := json.NewDecoder(bytes.NewReader(result))
	d.DisallowUnknownFields()
	ok = d.Decode(&m) == nil && m.MIME != "" && m.Data != nil
	return m, ok
}

// withoutData leaves out of a result, or of the list that it is, the data of media:
// nobody reads them on a screen.
func withoutData(result json.RawMessage) json.RawMessage {
	if m, ok := mediumIn(result); ok {
		m.Data = nil
		return encoded(m, result)
	}
	var items []json.RawMessage
	if !bytes.Contains(result, []byte(`"mimeType"`)) || json.Unmarshal(result, &items) != nil {
		return result
	}
	changed := false
	for i, item := range items {
		if m, ok := mediumIn(item); ok {
			m.Data, changed = nil, true
			items[i] = encoded(m, item)
		}
	}
	if !changed {
		return result
	}
	return encoded(items, result)
}

// encoded gives a value's JSON, and what it was made of where it has none.
func encoded(value any, of json.RawMessage) json.RawMessage {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return of
	}
	return bytes.TrimRight(text.Bytes(), "\n")
}
