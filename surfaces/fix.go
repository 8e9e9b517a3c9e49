package surfaces

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Fix is the correction of a refused call that a program can apply: remove the arguments in
// Drop and set those in Set. The corrected call is valid as long as the mesh has not changed.
type Fix struct {
	Drop []string       `json:"drop"`
	Set  map[string]any `json:"set"`
}

// Apply returns the corrected arguments and leaves args unchanged. It fails if a value in Set
// cannot be encoded as JSON, which does not happen with a Fix of this package.
func (f Fix) Apply(args map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	fixed := maps.Clone(args)
	if fixed == nil {
		fixed = make(map[string]json.RawMessage, len(f.Set))
	}
	for _, name := range f.Drop {
		delete(fixed, name)
	}
	for name, v := range f.Set {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("value of %s: %w", name, err)
		}
		fixed[name] = raw
	}
	return fixed, nil
}
