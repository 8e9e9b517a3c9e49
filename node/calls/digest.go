package calls

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/locusrun/locus/surfaces"
)

// ignoredArguments are the arguments of execute_code that do not affect what is run.
var ignoredArguments = []string{"thought", "background"}

// Digest identifies what valid arguments of execute_code ask for, independent of their order,
// their spacing, and whether defaults are written out. Digests are compared across releases,
// so the canonical form must not change.
func Digest(body []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var args map[string]any
	if err := d.Decode(&args); err != nil {
		return nil, err
	}
	for _, a := range executeArguments() {
		given, ok := args[a.Name]
		if !ok {
			continue
		}
		if n, is := given.(json.Number); is && (a.Kind == surfaces.KindNumber || a.Kind == surfaces.KindInteger) {
			value, err := n.Float64()
			if err != nil {
				return nil, err
			}
			args[a.Name], given = value, value
		}
		if given == nil || slices.Contains(ignoredArguments, a.Name) || isDefault(a, given) {
			delete(args, a.Name)
		}
	}
	if _, named := args["session_name"]; !named && args["session_id"] == 0.0 && args["state_mode"] == string(surfaces.Stateful) {
		delete(args, "session_id") // session 0 is the default of a stateful call
	}
	canonical, err := json.Marshal(args) // keys come out sorted
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(canonical)
	return sum[:], nil
}

func executeArguments() []surfaces.Argument {
	tools := surfaces.Tools()
	return tools[slices.IndexFunc(tools, func(t surfaces.Tool) bool { return t.Name == surfaces.ToolExecute })].Arguments
}

// isDefault reports whether a value is the default of its argument.
func isDefault(a surfaces.Argument, given any) bool {
	switch preset := a.Default.(type) {
	case int:
		return given == float64(preset)
	case nil:
		return a.Name == "stdin" && given == ""
	default:
		return given == preset
	}
}
