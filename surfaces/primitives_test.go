package surfaces

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestPrimitivesAreRead(t *testing.T) {
	for given, want := range map[string][]Offer{
		``:                        nil,
		`,"primitives":null`:      nil,
		`,"primitives":[]`:        {},
		`,"primitives":["fs.ls"]`: {{Name: "fs.ls"}},
		`,"primitives":["fs.ls",{"name":"fs.rm","description":"d","schema":{"a":[1]},"read_only":true},{"name":"a.b","schema":null}]`: {
			{Name: "fs.ls"}, {Name: "fs.rm", Description: "d", Schema: json.RawMessage(`{"a":[1]}`), ReadOnly: true}, {Name: "a.b"}},
	} {
		call, r := Resolve([]byte(`{"code":"1","language":"python"`+given+`}`), world())
		if r != nil || !reflect.DeepEqual(call.Primitives, want) || call.PrimitivesLimit != DefaultPrimitives {
			t.Errorf("%s: %+v, limit %d, %v", given, call.Primitives, call.PrimitivesLimit, r)
		}
	}
	call, r := Resolve([]byte(`{"code":"1","language":"python","primitives_limit":0}`), world())
	if r != nil || call.PrimitivesLimit != 0 {
		t.Errorf("limit %d, %v", call.PrimitivesLimit, r)
	}
}

// Where the mend is plain it is given, and following it makes the call valid.
func TestPrimitivesAreFixed(t *testing.T) {
	for given, fixed := range map[string]string{
		`"primitives":"fs.ls"`:                                `[{"name":"fs.ls"}]`,
		`"primitives":{"name":"fs.ls","read_only":true}`:      `[{"name":"fs.ls","read_only":true}]`,
		`"primitives":["fs.ls",{"name":"fs.ls"},"fs.rm"]`:     `[{"name":"fs.ls"},{"name":"fs.rm"}]`,
		`"tools":["fs.ls"]`:                                   `[{"name":"fs.ls"}]`,
		`"primitives":["fs.ls","fs.ls"],"primitives_limit":9`: `[{"name":"fs.ls"}]`,
	} {
		args := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(`{"code":"1","language":"python",`+given+`}`), &args); err != nil {
			t.Fatal(err)
		}
		_, r := resolveArgs(args, world())
		if r == nil || r.Fix == nil || encode(t, r.Fix.Set["primitives"]) != fixed {
			t.Errorf("%s: %+v", given, r)
			continue
		}
		again, err := r.Fix.Apply(args)
		if err != nil {
			t.Fatal(err)
		}
		if _, r := resolveArgs(again, world()); r != nil {
			t.Errorf("%s: the fixed call is refused: %s", given, r.Message)
		}
	}
}

func TestPrimitivesWithoutAMechanicalFix(t *testing.T) {
	many := make([]string, MaxOffers+1)
	for i := range many {
		many[i] = fmt.Sprintf("fs.f%d", i)
	}
	long := `"fs.` + strings.Repeat("a", MaxPrimitiveName) + `"`
	heavy := `{"name":"fs.f","description":"` + strings.Repeat("a", MaxOffersBytes) + `"}`
	for given, says := range map[string]string{
		`7`:                                "must be a list",
		`["fs"]`:                           `item 1 of primitives must be NAMESPACE.FUNCTION`,
		`["a.b","fs.read.all"]`:            `item 2 of primitives`,
		`["fs.2nd"]`:                       `"fs.2nd"`,
		`[7]`:                              "a name or an object",
		`[{"name":"a.b","readonly":true}]`: `unknown field \"readonly\"`,
		`[{"name":"a.b","description":7}]`: ": at description there must be a string, not a number",
		`[{"name":"a.b","schema":[1]}]`:    "a schema that is no object",
		`["functions.f"]`:                  "namespace functions",
		`["locus.describe"]`:               "namespace locus",
		encode(t, many):                    "over the limit of 1000",
		`[` + long + `]`:                   "over the limit of 200",
		`[` + heavy + `]`:                  "over the limit of 1048576",
	} {
		says = strings.ReplaceAll(says, `\"`, `"`)
		_, r := Resolve([]byte(`{"code":"1","language":"python","primitives":`+given+`}`), world())
		if r == nil || r.Code != CodeInvalidArgument || r.Fix != nil || !strings.Contains(r.Message, says) || !strings.Contains(r.Suggestion, "primitives") {
			t.Errorf("%.60s: %+v, want a refusal, Code %v, no Fix, Message with %v, Suggestion with \"primitives\"", given, r, CodeInvalidArgument, says)
		}
		if r != nil && len(r.Message) > 1000 {
			t.Errorf("%.60s: a message of %d bytes", given, len(r.Message))
		}
	}
}
