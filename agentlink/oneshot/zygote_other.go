//go:build !linux

package oneshot

import "errors"

// zygote exists only on Linux. Windows cannot fork, and on macOS the system's libraries do
// not survive a fork, so an interpreter is started for each program.
type zygote struct{ path string }

func startZygote(string) (*zygote, error) { return nil, errors.ErrUnsupported }

func (*zygote) wait() error { return nil }

func (*zygote) fork(string) (*interpreter, error) { return nil, errors.ErrUnsupported }

func (*zygote) kill() {}
