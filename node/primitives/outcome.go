package primitives

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/locusrun/locus/surfaces"
)

// MaxBytes bounds the arguments and the result of one use.
const MaxBytes = 16 << 20

// outcome is the result of a use: the answer as the code gets it, and its kind.
type outcome struct {
	answer json.RawMessage
	word   string // surfaces.UseOK, or the type of the error
}

// failure is the outcome of a failed use.
func failure(kind, format string, values ...any) outcome {
	return failed(&Error{Type: kind, Message: fmt.Sprintf(format, values...)})
}

func failed(e *Error) outcome {
	if e.Type == "" {
		e = &Error{Type: ErrorFailed, Message: e.Message}
	}
	b, err := json.Marshal(map[string]*Error{"error": e})
	if err != nil {
		panic(fmt.Sprintf("primitives: an error of two strings does not encode: %v", err))
	}
	return outcome{b, e.Type}
}

// success is the outcome of a use with a result; nil stands for null.
func success(result json.RawMessage) outcome {
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	switch {
	case len(result) > MaxBytes:
		return failure(ErrorFailed, "the result has %d bytes, over the limit of %d", len(result), MaxBytes)
	case !json.Valid(result):
		return failure(ErrorFailed, "the result is not JSON")
	}
	answer := make([]byte, 0, len(result)+len(`{"result":}`))
	answer = append(answer, `{"result":`...)
	answer = append(answer, result...)
	return outcome{append(answer, '}'), surfaces.UseOK}
}

// answered decodes the outcome that a caller sent: an object with either result or error.
// The error is a string or an object {type, message}.
func answered(body []byte) (outcome, error) {
	var given struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(body, &given); err != nil {
		return outcome{}, fmt.Errorf("not an object with result or error: %w", err)
	}
	switch {
	case given.Error == nil && given.Result == nil, given.Error != nil && given.Result != nil:
		return outcome{}, errors.New("not an object with either result or error")
	case given.Error == nil:
		return success(given.Result), nil
	case len(given.Error) > MaxBytes:
		return failure(ErrorFailed, "the error has %d bytes, over the limit of %d", len(given.Error), MaxBytes), nil
	}
	var e Error
	if json.Unmarshal(given.Error, &e.Message) == nil && e.Message != "" {
		return failed(&e), nil
	}
	if json.Unmarshal(given.Error, &e) == nil && e.Message != "" {
		return failed(&e), nil
	}
	return failure(ErrorFailed, "%s", given.Error), nil
}

// digest identifies a use by its name and arguments, whatever the order and spacing of the
// members. The error says why the arguments are not an object.
func digest(name string, arguments json.RawMessage) (string, error) {
	var object map[string]any
	if len(arguments) > 0 {
		d := json.NewDecoder(bytes.NewReader(arguments))
		d.UseNumber()
		if err := d.Decode(&object); err != nil {
			return "", err
		}
	}
	if object == nil {
		object = map[string]any{}
	}
	canonical, err := json.Marshal([]any{name, object}) // Marshal sorts the members
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}
