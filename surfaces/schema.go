package surfaces

import (
	"encoding/json"
	"math"
)

// Schema is a JSON Schema (2020-12) of one tool's arguments.
type Schema struct {
	Type                 string              `json:"type"`
	Properties           map[string]Property `json:"properties"`
	Required             []string            `json:"required,omitempty"`
	AdditionalProperties bool                `json:"additionalProperties"`
}

// Items is the schema of the items of a list.
type Items struct {
	AnyOf []Property `json:"anyOf"`
}

// Property is the schema of one argument, or of a part of one.
type Property struct {
	Type             Kind     `json:"type"`
	Description      string   `json:"description,omitempty"`
	Enum             []string `json:"enum,omitempty"`
	Default          any      `json:"default,omitempty"`
	Minimum          *float64 `json:"minimum,omitempty"`
	ExclusiveMinimum *float64 `json:"exclusiveMinimum,omitempty"`
	Maximum          *float64 `json:"maximum,omitempty"`
	MinLength        int      `json:"minLength,omitempty"`
	MaxLength        int      `json:"maxLength,omitempty"`
	Pattern          string   `json:"pattern,omitempty"`
	MaxItems         int      `json:"maxItems,omitempty"`
	Items            *Items   `json:"items,omitempty"`
	// The members of an object.
	Properties           map[string]Property `json:"properties,omitempty"`
	Required             []string            `json:"required,omitempty"`
	AdditionalProperties *bool               `json:"additionalProperties,omitempty"`
}

// Schemas returns the schema of each tool's arguments by the name of the tool, as a fresh
// copy. Bounds in bytes appear as bounds in characters, which are never stricter.
func Schemas() map[string]Schema {
	all := make(map[string]Schema, len(tools))
	for _, t := range tools {
		s := Schema{Type: "object", Properties: make(map[string]Property, len(t.Arguments))}
		for _, a := range t.Arguments {
			s.Properties[a.Name] = property(a)
			if a.Required {
				s.Required = append(s.Required, a.Name)
			}
		}
		all[t.Name] = s
	}
	return all
}

// JSON encodes the schema.
func (s Schema) JSON() (json.RawMessage, error) { return json.Marshal(s) }

func property(a Argument) Property {
	p := Property{
		Type: a.Kind, Description: a.Doc, Default: a.Default, Pattern: a.Pattern,
		Enum: append([]string(nil), a.Enum...), MaxLength: max(a.MaxChars, a.MaxBytes),
	}
	switch a.Kind {
	case KindString:
		if !a.allowBlank && a.Enum == nil {
			p.MinLength = 1
		}
	case KindInteger, KindNumber:
		low, high := a.Min, a.Max
		if a.Above {
			p.ExclusiveMinimum = &low
		} else {
			p.Minimum = &low
		}
		if high != 0 && !math.IsInf(high, 0) {
			p.Maximum = &high
		}
	case KindArray:
		p.MaxItems, p.Items = a.MaxItems, a.items.schema()
	}
	return p
}
