package surfaces

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// conforms is a validator for the part of JSON Schema that Property uses.
func conforms(p Property, raw string) bool {
	var v any
	return json.Unmarshal([]byte(raw), &v) == nil && fits(p, v)
}

func fits(p Property, v any) bool {
	switch x := v.(type) {
	case []any:
		return p.Type == KindArray && len(x) <= p.MaxItems && !slices.ContainsFunc(x, func(item any) bool {
			return !slices.ContainsFunc(p.Items.AnyOf, func(one Property) bool { return fits(one, item) })
		})
	case map[string]any:
		if p.Type != KindObject || slices.ContainsFunc(p.Required, func(name string) bool { _, given := x[name]; return !given }) {
			return false
		}
		for name, member := range x {
			if of, known := p.Properties[name]; known && !fits(of, member) || !known && p.AdditionalProperties != nil && !*p.AdditionalProperties {
				return false
			}
		}
		return true
	case bool:
		return p.Type == KindBoolean
	case float64:
		return (p.Type == KindNumber || (p.Type == KindInteger && x == math.Trunc(x))) &&
			(p.Minimum == nil || x >= *p.Minimum) && (p.ExclusiveMinimum == nil || x > *p.ExclusiveMinimum) &&
			(p.Maximum == nil || x <= *p.Maximum)
	case string:
		n := utf8.RuneCountInString(x)
		return p.Type == KindString && n >= p.MinLength && (p.MaxLength == 0 || n <= p.MaxLength) &&
			(p.Enum == nil || slices.Contains(p.Enum, x)) &&
			(p.Pattern == "" || regexp.MustCompile(p.Pattern).MatchString(x))
	}
	return false
}

// TestSchemaAgreesWithDecoder: a schema is never stricter than the decoder, and
// laxer only where JSON Schema has no words for the rule.
func TestSchemaAgreesWithDecoder(t *testing.T) {
	schemas := Schemas()
	for _, tool := range Tools() {
		schema := schemas[tool.Name]
		if len(schema.Properties) != len(tool.Arguments) || schema.AdditionalProperties || schema.Type != "object" {
			t.Errorf("%s: %+v, want %v schema.Properties, no schema.AdditionalProperties, schema.Type \"object\"", tool.Name, schema, len(tool.Arguments))
		}
		for _, a := range tool.Arguments {
			p := schema.Properties[a.Name]
			if a.Required != slices.Contains(schema.Required, a.Name) || p.Description == "" {
				t.Errorf("%s %s: required %v, %+v", tool.Name, a.Name, schema.Required, p)
			}
			for _, raw := range slices.Concat(usual[a.Name], odd[a.Name], wrongKinds) {
				if isNull(json.RawMessage(raw)) {
					continue
				}
				v, problem := read(&a, json.RawMessage(raw))
				s, text := v.(string)
				taken := problem == nil && (a.Enum == nil || (text && slices.Contains(a.Enum, s)))
				var written string
				_ = json.Unmarshal([]byte(raw), &written)
				wordless := strings.TrimSpace(written) == "" || strings.ContainsAny(written, "\x00\uFFFD")
				switch ok := conforms(p, raw); {
				case taken && !ok:
					t.Errorf("%s %s: the schema refuses %s, which is taken", tool.Name, a.Name, raw)
				case ok && !taken && !wordless:
					t.Errorf("%s %s: the schema takes %s, which is refused", tool.Name, a.Name, raw)
				}
			}
			if p.Default != nil && !conforms(p, encode(t, p.Default)) {
				t.Errorf("%s %s: the default %v does not conform", tool.Name, a.Name, p.Default)
			}
		}
	}
	execute := schemas[ToolExecute]
	if !slices.Equal(execute.Required, []string{"code", "language"}) {
		t.Errorf("required %v", execute.Required)
	}
}

func TestSchemaGolden(t *testing.T) { golden(t, "schemas.json", Schemas()) }

func TestSchemaIsACopy(t *testing.T) {
	a, b := Schemas(), Schemas()
	a[ToolExecute].Properties["language"].Enum[0] = "cobol"
	delete(a[ToolExecute].Properties, "code")
	if encode(t, b) != encode(t, Schemas()) || toolByName[ToolExecute].argument("language").Enum[0] != "python" {
		t.Error("one caller's changes are another's")
	}
	raw, err := b[ToolList].JSON()
	if err != nil || string(raw) != `{"type":"object","properties":{},"additionalProperties":false}` {
		t.Errorf("%s %v", raw, err)
	}
}
