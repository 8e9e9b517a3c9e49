package surfaces

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Fix is the mechanical mend of a refused call: remove the arguments in Drop,
// give those in Set. The mended call is valid as long as the mesh is as it was.
type Fix struct {
	Drop []string       `json:"drop"`
	Set  map[string]any `json:"set"`
}

// Apply gives the mended arguments and leaves args as they are. The error is that
// of a value in Set that is not JSON; a Fix of this package has none.
func (f Fix) Apply(args map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	mended := maps.Clone(args)
	if mended == nil {
		mended = make(map[string]json.RawMessage, len(f.Set))
	}
	for _, name := range f.Drop {
		delete(mended, name)
	}
	for name, v := range f.Set {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("value of %s: %w", name, err)
		}
		mended[name] = raw
	}
	return mended, nil
}
