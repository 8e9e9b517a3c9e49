package surfaces

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// DecodeObject decodes exactly one JSON object without unknown members. Its error is a clause
// for the sender, to be put into a sentence.
func DecodeObject(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return decodeError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the object")
	}
	return nil
}

// decodeError rewords an error of encoding/json in terms of JSON instead of Go.
func decodeError(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var coded base64.CorruptInputError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is no JSON: it ends too early")
	case errors.As(err, &syntax):
		return fmt.Errorf("it is no JSON: %v at byte %d", syntax, syntax.Offset)
	case errors.As(err, &coded):
		return fmt.Errorf("it has data that is not base64, at character %d", int64(coded))
	case errors.As(err, &kind) && kind.Field == "":
		return fmt.Errorf("it must be %s, not %s", wanted(kind.Type), found(kind.Value))
	case errors.As(err, &kind):
		return fmt.Errorf("at %s there must be %s, not %s", kind.Field, wanted(kind.Type), found(kind.Value))
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// wanted names the JSON that decodes into a Go type.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string" // in base64
		}
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a whole number"
}

// found names the JSON value that the decoder reports: its kind or, for a number, the number.
func found(value string) string {
	kind, number, _ := strings.Cut(value, " ")
	switch {
	case number != "":
		return number
	case kind == "bool":
		return "true or false"
	case kind == "array":
		return "a list"
	case kind == "object":
		return "an object"
	}
	return "a " + kind
}
