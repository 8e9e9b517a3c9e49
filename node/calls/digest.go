package calls

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/locusrun/locus/surfaces"
)

// beside are the arguments of execute_code that say nothing of what is to be run: why,
// and how the caller wants to have the result.
var beside = []string{"thought", "background"}

// Digest identifies what the valid arguments of execute_code ask for, however they are
// written: in any order and spacing, with defaults written out or left out. The digests
// of one version are compared with those of the next, so that arguments without anything
// to leave out are taken as they are.
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
		if given == nil || slices.Contains(beside, a.Name) || isDefault(a, given) {
			delete(args, a.Name)
		}
	}
	if _, named := args["session_name"]; !named && args["session_id"] == 0.0 && args["state_mode"] == string(surfaces.Stateful) {
		delete(args, "session_id") // which is that of a stateful call without a session
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

// isDefault reports whether a value is what the argument stands for when it is not given.
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
