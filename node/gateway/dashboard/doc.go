// Package dashboard holds the page that a node shows to people: what its nodes, sessions,
// calls and machines do, read from the public HTTP API by whoever types a token in. It is
// plain HTML, CSS and modules of JavaScript, in the binary, without a build step.
//
// The page trusts nothing that code has made: all of it is put in as text, and the policy
// that the page is served with lets a browser load nothing from elsewhere, run no script
// that stands in the page, and make no HTML of a string.
package dashboard
