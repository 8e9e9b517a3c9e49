package gateway

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// schemas collects the JSON Schemas of named types.
type schemas map[string]any

// schemaPath is the location of the schemas in the API description.
const schemaPath = "#/components/schemas/"

func reference(name string) object { return object{"$ref": schemaPath + name} }

// enums lists the values of enumeration types.
var enums = map[reflect.Type][]string{
	typeOf[surfaces.Language]():  strs(surfaces.Languages()),
	typeOf[surfaces.StateMode](): strs(surfaces.StateModes()),
	typeOf[surfaces.Place]():     strs(surfaces.Places()),
	typeOf[surfaces.Status]():    strs(surfaces.Statuses()),
	typeOf[surfaces.ErrorType](): strs(errorTypes),
}

// received are the types of the coordinates that a Result repeats as they were given: for a
// refused call they may be any text.
var received = []reflect.Type{typeOf[*surfaces.Language](), typeOf[*surfaces.StateMode](), typeOf[*surfaces.Place]()}

func strs[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// of returns the schema of the JSON encoding of a type.
func (s schemas) of(t reflect.Type) object {
	switch t {
	case typeOf[json.RawMessage]():
		return object{} // any JSON
	case typeOf[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	case typeOf[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case typeOf[surfaces.StateLost]():
		return object{"anyOf": []object{{"const": false}, s.named(typeOf[surfaces.Loss]())}}
	}
	if slices.Contains(received, t) {
		return object{
			"type":        []string{"string", "null"},
			"description": "One of " + strings.Join(enums[t.Elem()], ", ") + "; of a call that was refused, what was given.",
		}
	}
	if values, ok := enums[t]; ok {
		return object{"type": "string", "enum": values}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(s.of(t.Elem()))
	case reflect.Struct:
		return s.named(t)
	case reflect.Slice:
		return object{"type": []string{"array", "null"}, "items": s.of(t.Elem())}
	case reflect.Map:
		of := object{"type": []string{"object", "null"}}
		if t.Elem().Kind() != reflect.Interface {
			of["additionalProperties"] = s.of(t.Elem())
		}
		return of
	case reflect.Interface:
		return object{}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	}
	panic(fmt.Sprintf("gateway: no schema for %s", t))
}

func nullable(schema object) object {
	if kind, ok := schema["type"].(string); ok {
		schema["type"] = []string{kind, "null"}
		if values, ok := schema["enum"].([]string); ok {
			withNull := make([]any, 0, len(values)+1)
			for _, v := range values {
				withNull = append(withNull, v)
			}
			schema["enum"] = append(withNull, nil)
		}
		return schema
	}
	if _, ok := schema["type"].([]string); ok || len(schema) == 0 {
		return schema // takes null already
	}
	return object{"anyOf": []object{schema, {"type": "null"}}}
}

// named adds a struct's schema to the components and returns a reference to it.
func (s schemas) named(t reflect.Type) object {
	if _, known := s[t.Name()]; known {
		return reference(t.Name())
	}
	properties, required := object{}, []string{}
	s[t.Name()] = object{} // placeholder, for recursive types
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		properties[name] = s.of(f.Type)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	s[t.Name()] = object{"type": "object", "properties": properties, "required": required}
	return reference(t.Name())
}
