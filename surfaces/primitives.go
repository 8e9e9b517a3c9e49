package surfaces

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Host performs the primitives that running code uses.
type Host interface {
	// Ask accepts one use of a primitive and returns at once. Uses must be given in the
	// order in which the code makes them. wait blocks for the answer, an object with either
	// "result" or "error" {"type", "message"}; it is nil if ctx ends first. Asking again for
	// the same use does not perform it again.
	Ask(u Use) (wait func(ctx context.Context) json.RawMessage)
}

// Use is one use of a primitive by code.
type Use struct {
	CallID  string
	Actor   string
	Attempt int
	// Seq numbers the uses of an attempt from 1, in decimal.
	Seq  string
	Name string
	// Data is the object of arguments.
	Data json.RawMessage
	// Remaining is the time until the call's deadline.
	Remaining time.Duration
}

// UseRecord is what a call's record keeps of one use of a primitive.
type UseRecord struct {
	Seq  int64  `json:"seq"`
	Name string `json:"name"`
	// Digest is the hex SHA-256 of the name and the arguments, independent of the order of
	// their members.
	Digest string `json:"digest"`
	// Outcome is "ok", the type of the error, or "running".
	Outcome string  `json:"outcome"`
	MS      float64 `json:"ms"`
	// Replayed says that the second attempt was given the recorded outcome of the first.
	Replayed bool `json:"replayed"`
}

// The outcomes of a use that are not types of errors.
const (
	UseOK      = "ok"
	UseRunning = "running"
)

// Offer is a primitive that the caller of execute_code provides to its own call.
type Offer struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	ReadOnly    bool            `json:"read_only,omitempty"`
}

// Bounds on the primitives of one call.
const (
	// DefaultPrimitives is how many primitives a call may use by default.
	DefaultPrimitives = 10_000
	// MaxPrimitives is the largest primitives_limit.
	MaxPrimitives = 1_000_000
	// MaxOffers is how many functions a caller may offer, and MaxOffersBytes how long
	// their list may be, as JSON.
	MaxOffers      = 1000
	MaxOffersBytes = 1 << 20
	// MaxPrimitiveName is the longest name of a primitive, in bytes.
	MaxPrimitiveName = 200
	// MaxOpenUses is how many uses of one call may be without an answer, and
	// MaxOpenUsesBytes how many bytes of arguments they may have in all.
	MaxOpenUses      = 16_384
	MaxOpenUsesBytes = 256 << 20
)

// What code is answered, as JSON, if its use is not passed to a Host.
const (
	// AnswerNoHost: the attempt has no Host.
	AnswerNoHost = `{"error":{"type":"unavailable","message":"primitives cannot be used here"}}`
	// AnswerTooMany: MaxOpenUses or MaxOpenUsesBytes is exceeded.
	AnswerTooMany = `{"error":{"type":"primitives_limit","message":"too many primitives are under way at once: await some of them first"}}`
)

const primitivePattern = `^[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*$`

var primitiveName = regexp.MustCompile(primitivePattern)

// reservedNamespaces cannot be used by callers.
var reservedNamespaces = []string{"functions", "locus"}

// offers is a list of Offer as canonical JSON, so that it can be compared with == like the
// other argument values.
type offers string

// MarshalJSON gives the list.
func (o offers) MarshalJSON() ([]byte, error) { return []byte(o), nil }

func (o offers) list() []Offer {
	var list []Offer
	if err := json.Unmarshal([]byte(o), &list); err != nil {
		panic(fmt.Sprintf("surfaces: a list of primitives that was checked does not decode: %v", err))
	}
	return list
}

// readOffers decodes the primitives that a caller offers.
func readOffers(a *Argument, raw json.RawMessage) (any, *problem) {
	var items []json.RawMessage
	if jsonKind(raw) != "a list" || json.Unmarshal(raw, &items) != nil {
		p := wrongType(a, raw, "a list")
		if one, fault := readOffer(raw); fault == "" {
			p.correction, p.value = setValue, canonical([]Offer{one})
		}
		return nil, p
	}
	if len(items) > a.MaxItems {
		return nil, &problem{message: fmt.Sprintf("%s has %d items, over the limit of %d", a.Name, len(items), a.MaxItems), expects: a.expects()}
	}
	list := make([]Offer, 0, len(items))
	seen := map[string]bool{}
	again := ""
	for i, item := range items {
		o, fault := readOffer(item)
		switch {
		case fault != "":
			return nil, &problem{message: fmt.Sprintf("item %d of %s %s", i+1, a.Name, fault), expects: a.expects()}
		case seen[o.Name]:
			again = o.Name
			continue
		}
		seen[o.Name] = true
		list = append(list, o)
	}
	value := canonical(list)
	switch {
	case len(value) > MaxOffersBytes:
		return nil, &problem{message: fmt.Sprintf("%s has %d bytes, over the limit of %d", a.Name, len(value), MaxOffersBytes), expects: a.expects()}
	case again != "":
		return nil, &problem{
			message: fmt.Sprintf("%s names %s more than once", a.Name, again), expects: a.expects(),
			correction: setValue, value: value, phrase: "the same list with each name once",
		}
	}
	return value, nil
}

func canonical(list []Offer) offers {
	b, err := json.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("surfaces: a list of primitives that was checked does not encode: %v", err))
	}
	return offers(b)
}

// readOffer decodes one item, a name or an object. fault says what is wrong with it.
func readOffer(raw json.RawMessage) (o Offer, fault string) {
	switch jsonKind(raw) {
	case "a string":
		if err := json.Unmarshal(raw, &o.Name); err != nil {
			return o, "is no string: " + quoteRaw(raw)
		}
	case "an object":
		if err := DecodeObject(raw, &o); err != nil {
			return o, fmt.Sprintf("must have the members name, description, schema and read_only, but %s was given: %v", quoteRaw(raw), err)
		}
		if isNull(o.Schema) {
			o.Schema = nil
		}
		if o.Schema != nil && jsonKind(o.Schema) != "an object" {
			return o, "has a schema that is no object: " + quoteRaw(o.Schema)
		}
	default:
		return o, fmt.Sprintf("must be a name or an object, but %s was given", quoteRaw(raw))
	}
	switch namespace, _, _ := strings.Cut(o.Name, "."); {
	case len(o.Name) > MaxPrimitiveName:
		return o, fmt.Sprintf("has a name of %d bytes, over the limit of %d", len(o.Name), MaxPrimitiveName)
	case !primitiveName.MatchString(o.Name):
		return o, "must be NAMESPACE.FUNCTION, two words of letters, digits and _ joined by a dot, but " + quote(o.Name) + " was given"
	case slices.Contains(reservedNamespaces, namespace):
		return o, fmt.Sprintf("%s is in the namespace %s, which is not the caller's", quote(o.Name), namespace)
	}
	return o, ""
}

// primitivesSchema describes the items of the list of primitives.
func primitivesSchema() *Items {
	name := Property{Type: KindString, Pattern: primitivePattern, MaxLength: MaxPrimitiveName}
	closed := false
	return &Items{AnyOf: []Property{name, {
		Type: KindObject, Required: []string{"name"}, AdditionalProperties: &closed,
		Properties: map[string]Property{
			"name": name, "description": {Type: KindString}, "schema": {Type: KindObject}, "read_only": {Type: KindBoolean},
		},
	}}}
}

// PrimitiveName reports whether a name is a valid name of a primitive:
// NAMESPACE.FUNCTION, each part an identifier.
func PrimitiveName(name string) bool {
	return len(name) <= MaxPrimitiveName && primitiveName.MatchString(name)
}

// Nearest returns the one candidate that a word is most likely a misspelling of.
func Nearest(word string, candidates []string) (string, bool) { return nearest(word, candidates) }
