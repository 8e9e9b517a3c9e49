package python

import "encoding/json"

// invocation is the program that runs a stored function; see worker/stored.py.
const invocation = "functions.__invoke__()"

// Call is one call of a stored function.
type Call struct {
	Name string `json:"name"`
	// Source becomes a module of its own, and Entry is the name of what is called in it.
	Source string `json:"source"`
	Entry  string `json:"entry"`
	// Data holds the arguments as the caller's code sent them: {"json": {"args",
	// "kwargs"}} or {"pickle", "python"}.
	Data json.RawMessage `json:"data"`
	// Shown asks for a result as that of any program. Without it the program's result
	// is that of the function in one of the forms of Data, {"json": value} or {"pickle",
	// "python"}, up to 16 MiB of it, and is for the calling code as it is.
	Shown bool `json:"shown"`
}

// Invocation gives the program and the standard input that call a stored function. The
// program is for a kernel that has run nothing. What goes wrong is its exception.
func Invocation(c Call) (code, stdin string) {
	request, _ := json.Marshal(c) // cannot fail: data was read as JSON before
	return invocation, string(request)
}
