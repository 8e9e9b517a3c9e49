package command

import (
	"bytes"
	"encoding/json"
)

// medium is an image or a sound in a function's result. The host has also shown it as a
// display of the call.
type medium struct {
	Type  string `json:"type"`
	MIME  string `json:"mimeType"`
	Bytes int    `json:"bytes"`
	Data  []byte `json:"data,omitempty"`
}

// mediumIn decodes a result that is a medium.
func mediumIn(result json.RawMessage) (m medium, ok bool) {
	if !bytes.Contains(result, []byte(`"mimeType"`)) {
		return m, false // most results are not, and need no decoder
	}
	d := json.NewDecoder(bytes.NewReader(result))
	d.DisallowUnknownFields()
	ok = d.Decode(&m) == nil && m.MIME != "" && m.Data != nil
	return m, ok
}

// withoutData removes the data of media from a result, or from the items of a list, because
// people cannot read them.
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

// encoded returns the JSON of a value, or of if it cannot be encoded.
func encoded(value any, of json.RawMessage) json.RawMessage {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return of
	}
	return bytes.TrimRight(text.Bytes(), "\n")
}
