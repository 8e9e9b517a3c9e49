//go:build !linux

package command

import (
	"net"
	"os"
	"path/filepath"
)

// listen makes the socket by its full path, which the operating system limits to about a
// hundred bytes.
func listen(root *os.Root, dir string) (*net.UnixListener, error) {
	return net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(root.Name(), dir, socketName), Net: "unix"})
}

func reach(door string) (*os.File, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(door, socketName), Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.File()
}
