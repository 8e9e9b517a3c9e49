// Package dashboard holds the web page with the nodes, sessions, calls and machines of a
// mesh. It reads them through the public HTTP API with a token that the user types in. It
// is plain HTML, CSS and JavaScript modules, embedded in the binary, without a build step.
//
// The page trusts nothing that code has produced: it inserts all of it as text. Its
// Content-Security-Policy forbids loading anything from elsewhere, inline scripts, and
// making HTML from strings.
package dashboard
