package sandbox

import "syscall"

// Pretended gives a process that there is not, for tests of what keeps kernels. It
// has ended, by SIGKILL, when done is closed.
func Pretended(done chan struct{}) *Process {
	return &Process{done: done, exit: Exit{Known: true, Signal: syscall.SIGKILL}, closed: true}
}
