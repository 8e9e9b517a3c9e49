package netlab

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace. It exists as long as this process has its file open or
// some process runs in it.
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

// apart runs f on an OS thread that ends afterwards, so that a change of the thread's
// namespace affects nothing else.
func apart(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}

// inside runs f on a thread in the namespace. Sockets that f opens and processes that it
// starts are in the namespace as well.
func (ns namespace) inside(f func() error) error {
	return apart(func() error {
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("a network namespace cannot be entered: %w", err)
		}
		return f()
	})
}

// path returns the path by which other programs can enter the namespace.
func (ns namespace) path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.file.Fd())
}

// ip runs ip commands, one per line.
func (ns namespace) ip(lines ...string) error { return ns.command(lines, "ip", "-batch", "-") }

// nft runs nft commands as one transaction.
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
