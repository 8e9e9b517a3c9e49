package command

import (
	"errors"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// listen makes the socket through a descriptor of its directory, because its full path may
// be longer than a socket address allows.
func listen(root *os.Root, dir string) (*net.UnixListener, error) {
	d, err := root.OpenFile(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	name := "/proc/self/fd/" + strconv.Itoa(int(d.Fd())) + "/" + socketName
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the path has a descriptor's number, which may be reused by then
	return l, nil
}

// reach connects to the socket through a descriptor of its directory, for the same reason.
func reach(door string) (*os.File, error) {
	dir, err := unix.Open(door, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	address := &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(dir) + "/" + socketName}
	for {
		err = unix.Connect(fd, address)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), socketName), nil
}
