package node_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Text that the registry cannot store is an invalid argument, not an internal error.
func TestTextsThatTheRegistryCannotStore(t *testing.T) {
	w := start(t, t.TempDir())
	many := args{}
	for i := range 65 {
		many[fmt.Sprint(i)] = "x"
	}
	for _, labels := range []args{{"zone": "a\x00"}, {"a\x00": "b"}, {"": "b"}, {"zone": strings.Repeat("x", 257)}, many} {
		for path, body := range map[string]args{
			"/v1/actors": {"name": "ada", "labels": labels}, "/v1/tokens": {"role": "node", "labels": labels}, "/v1/nodes/" + w.id() + "/labels": {"labels": labels},
		} {
			w.refuses("POST", path, body, http.StatusUnprocessableEntity, "labels cannot be kept")
		}
	}
	for _, name := range []string{"a%00b", "no-such"} {
		w.refuses("POST", "/v1/nodes/"+name+"/drain", args{"draining": true}, http.StatusNotFound, "there is no node")
		w.refuses("POST", "/v1/nodes/"+name+"/labels", args{"labels": args{}}, http.StatusNotFound, "there is no node")
		w.refuses("DELETE", "/v1/nodes/"+name, nil, http.StatusNotFound, "there is no node")
		w.refuses("DELETE", "/v1/actors/"+name, nil, http.StatusNotFound, "there is no actor")
		w.refuses("DELETE", "/v1/tokens/"+name, nil, http.StatusNotFound, "there is no join token")
	}
	w.refuses("POST", "/v1/tools/execute_code", args{"code": "1", "language": "python", "idempotency_key": "a\x00b"}, http.StatusUnprocessableEntity, "idempotency_key has a NUL character")
}
