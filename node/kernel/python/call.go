package python

import "encoding/json"

// invoke is the program that runs a stored function; see worker/stored.py.
const invoke = "functions.__invoke__()"

// Call is one call of a stored function.
type Call struct {
	Name string `json:"name"`
	// Source becomes a module of its own; Entry is the name of the function in it.
	Source string `json:"source"`
	Entry  string `json:"entry"`
	// Data holds the arguments in the form in which the caller's code sent them:
	// {"json": {"args", "kwargs"}} or {"pickle", "python"}.
	Data json.RawMessage `json:"data"`
	// Shown requests a result in the form that any program has. Without it the result
	// is the function's, for the calling code: {"json": value} or {"pickle", "python"},
	// 16 MiB at most.
	Shown bool `json:"shown"`
}

// CallProgram returns the program and the standard input that call a stored function.
// The program must run in a kernel that has run nothing else. Failures of the call are
// the program's exception.
func CallProgram(c Call) (code, stdin string) {
	request, _ := json.Marshal(c) // cannot fail: data was read as JSON before
	return invoke, string(request)
}
