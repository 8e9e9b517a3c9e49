package gateway

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// misfits says where a value does not fit a schema. It knows the words that the
// description uses, and is stricter than JSON Schema in one way: a member that
// is not described is a misfit.
func misfits(doc object, schema, value any, where string) (faults []string) {
	s, ok := schema.(object)
	if !ok {
		return []string{fmt.Sprintf("%s: no schema but %v", where, schema)}
	}
	if ref, ok := s["$ref"].(string); ok {
		return misfits(doc, at(doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...), value, where)
	}
	if choices, ok := s["anyOf"].([]any); ok {
		for _, choice := range choices {
			if misfits(doc, choice, value, where) == nil {
				return nil
			}
		}
		return []string{fmt.Sprintf("%s: %v fits none of %v", where, value, choices)}
	}
	if want, ok := s["const"]; ok && !reflect.DeepEqual(want, value) {
		return []string{fmt.Sprintf("%s: %v is not %v", where, value, want)}
	}
	if list, ok := s["enum"].([]any); ok && !slices.Contains(list, value) {
		return []string{fmt.Sprintf("%s: %v is none of %v", where, value, list)}
	}
	if !rightType(s["type"], value) {
		return []string{fmt.Sprintf("%s: %v is no %v", where, value, s["type"])}
	}
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			faults = append(faults, misfits(doc, s["items"], item, fmt.Sprintf("%s[%d]", where, i))...)
		}
	case object:
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				faults = append(faults, fmt.Sprintf("%s: %s is missing", where, name))
			}
		}
		properties, described := s["properties"].(object)
		for name, item := range v {
			of, ok := properties[name]
			switch {
			case ok:
			case s["additionalProperties"] != nil:
				of = s["additionalProperties"]
			case described:
				faults = append(faults, fmt.Sprintf("%s: %s is not described", where, name))
				continue
			default:
				continue // an object of anything
			}
			faults = append(faults, misfits(doc, of, item, where+"."+name)...)
		}
	}
	return faults
}

func rightType(want, value any) bool {
	if list, ok := want.([]any); ok {
		return slices.ContainsFunc(list, func(one any) bool { return rightType(one, value) })
	}
	if want == nil {
		return true
	}
	n, number := value.(float64)
	switch want {
	case "null":
		return value == nil
	case "integer":
		return number && n == math.Trunc(n)
	case "number":
		return number
	}
	kinds := map[string]reflect.Kind{"string": reflect.String, "boolean": reflect.Bool, "array": reflect.Slice, "object": reflect.Map}
	return value != nil && reflect.TypeOf(value).Kind() == kinds[want.(string)]
}

// The checker itself can say no.
func TestSchemaCheckerFindsFaults(t *testing.T) {
	var doc object
	if err := json.Unmarshal([]byte(`{"T":{"type":"object","required":["a"],"properties":{
		"a":{"type":["integer","null"]},"b":{"type":"array","items":{"enum":["x"]}},"c":{"anyOf":[{"const":false},{"$ref":"#/T"}]}}}}`), &doc); err != nil {
		t.Fatal(err)
	}
	for text, faults := range map[string]int{
		`{"a":1}`: 0, `{"a":null,"b":["x"],"c":{"a":2}}`: 0, `{"a":1,"c":false}`: 0,
		`{}`: 1, `{"a":1.5}`: 1, `{"a":1,"b":["y",1]}`: 2, `{"a":1,"c":true}`: 1, `{"a":1,"d":1}`: 1, `[]`: 1, `{"a":1,"c":{"a":"x"}}`: 1,
	} {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if got := misfits(doc, object{"$ref": "#/T"}, value, "$"); len(got) != faults {
			t.Errorf("%s: %v, want %v faults", text, got, faults)
		}
	}
}
