// Package venv turns a pyproject.toml that is held as data into a directory on
// this machine, named by its content: the text, the interpreter, the platform and
// the resolved lock.
//
// Store.Ready gives an environment and builds it at its first use, with uv. Many
// callers share one build. What is not wholly built is never seen as ready, also
// after a kill at any moment. Store.Collect removes what has not been used for
// long, and never what is in use, by whatever process. DESIGN.md beside this file
// says how.
//
// No code of the packages runs on the node while an environment is built, unless
// Config.Sources allows it.
//
// The package is for Linux.
package venv
