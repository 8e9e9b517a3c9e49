// Package venv builds virtual environments from the text of a pyproject.toml. The directory of
// an environment is named by a digest of the text, the interpreter, the platform and the
// resolved lock.
//
// Store.Acquire returns an environment, and builds it with uv at its first use. Concurrent
// callers share one build. An incomplete environment is never returned, even after a kill at
// any moment. Store.Collect removes environments that were not used for long, but never one
// that any process is using. DESIGN.md describes how.
//
// While an environment is built, no code of its packages runs on the node, unless
// Config.Sources allows it.
//
// The package needs Linux.
package venv
