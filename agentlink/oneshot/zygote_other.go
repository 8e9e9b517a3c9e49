//go:build !linux

package oneshot

import "errors"

// zygote is for Linux only. On Windows there is no fork, and on macOS the system's own
// libraries do not survive one, so that an interpreter is started for each program.
type zygote struct{ path string }

func startZygote(string) (*zygote, error) { return nil, errors.ErrUnsupported }

func (*zygote) wait() error { return nil }

func (*zygote) fork(string) (*interpreter, error) { return nil, errors.ErrUnsupported }

func (*zygote) kill() {}
