package python

import "encoding/json"

// invocation is the program that runs a stored function; see worker/stored.py.
const invocation = "functions.__invoke__()"

// Invocation gives the program and the standard input of a stored function's own call,
// which is to run as a one-shot. The source becomes a module of its own, and the entry
// is the name of what is called in it. The data is what the caller's code sent: the
// arguments as {"json": ...} or {"pickle": ..., "python": ...}. The result of the
// program is the function's result in one of these forms, up to 16 MiB of it, and is
// for the caller as it is; what goes wrong is the program's exception.
func Invocation(name, source, entry string, data json.RawMessage) (code, stdin string) {
	request, _ := json.Marshal(struct { // cannot fail: data was read as JSON before
		Name   string          `json:"name"`
		Source string          `json:"source"`
		Entry  string          `json:"entry"`
		Data   json.RawMessage `json:"data"`
	}{name, source, entry, data})
	return invocation, string(request)
}
