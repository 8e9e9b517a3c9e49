package netlab

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// namespace is a network of its own. It is there for as long as this process has its
// file open, or some process runs in it.
type namespace struct{ file *os.File }

func newNamespace() (ns namespace, err error) {
	err = apart(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("a network namespace cannot be made: %w", err)
		}
		ns.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return ns, err
}

// apart runs f on a thread that ends with it, so that what the thread is in stays its
// own matter.
func apart(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: that is what ends the thread
		done <- f()
	}()
	return <-done
}

// inside runs f on a thread that is in the namespace; so are the sockets that f opens
// and the processes that it starts.
func (ns namespace) inside(f func() error) error {
	return apart(func() error {
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("a network namespace cannot be entered: %w", err)
		}
		return f()
	})
}

// path is where other programs find the namespace.
func (ns namespace) path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.file.Fd())
}

// ip runs commands of ip, one a line.
func (ns namespace) ip(lines ...string) error { return ns.command(lines, "ip", "-batch", "-") }

// nft runs commands of nft, all or none.
func (ns namespace) nft(lines ...string) error { return ns.command(lines, "nft", "-f", "-") }

func (ns namespace) command(lines []string, name string, args ...string) error {
	return ns.inside(func() error {
		cmd := exec.Command(name, args...)
		cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s\n%s", name, err, out, strings.Join(lines, "\n"))
		}
		return nil
	})
}
