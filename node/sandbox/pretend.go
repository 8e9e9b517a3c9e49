package sandbox

import "syscall"

// FakeProcess returns a fake process for the tests of packages that use kernels. It counts as
// ended by SIGKILL when done is closed.
func FakeProcess(done chan struct{}) *Process {
	return &Process{done: done, exit: Exit{Known: true, Signal: syscall.SIGKILL}, closed: true}
}
