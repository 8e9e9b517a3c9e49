package command

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// RunIfAsked must be the first call in main, and in TestMain of packages that start
// shells. If this process was started under the name of the command, it does the command's
// work and exits; otherwise it does nothing. It is for machines on which the command cannot
// be compiled.
func RunIfAsked() {
	if len(os.Args) == 0 || filepath.Base(os.Args[0]) != Name {
		return
	}
	status, err := converse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", Name, err)
		status = 1
	}
	syscall.Exit(status) // code waits for it: not os.Exit, which takes a second under the race detector
}

func converse(arguments []string) (status int, err error) {
	door, named := os.LookupEnv(DoorVariable)
	caller, called := os.LookupEnv(CallerVariable)
	if !named || !called {
		return 0, errors.New("this is not the program of a call: its environment lacks what names the call")
	}
	node, err := reach(door)
	if err != nil {
		return 0, fmt.Errorf("the node cannot be reached: %w", err)
	}
	defer node.Close()
	// A node that stops reading answers why, so after a failed send read the answer.
	sent := send(node, []byte(caller)) == nil && send(node, []byte(strings.Join(append(arguments, ""), "\x00"))) == nil
	if sent && slices.Contains(arguments, "-") {
		if sent, err = sendInput(node); err != nil {
			return 0, fmt.Errorf("standard input cannot be read: %w", err)
		}
	}
	if sent {
		_ = send(node, nil)
	}
	var code [1]byte
	if _, err := io.ReadFull(node, code[:]); err != nil {
		return 0, errors.New("the node gave no answer")
	}
	for _, to := range []*os.File{os.Stdout, os.Stderr} {
		if err := giveOut(node, to); err != nil {
			return 0, err
		}
	}
	return int(code[0]), nil
}

func send(node io.Writer, part []byte) error {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(part)))
	_, err := node.Write(head)
	if err != nil || len(part) == 0 {
		return err
	}
	_, err = node.Write(part)
	return err
}

func sendInput(node io.Writer) (sent bool, err error) {
	piece := make([]byte, 64<<10)
	for {
		n, err := os.Stdin.Read(piece)
		if n > 0 && send(node, piece[:n]) != nil {
			return false, nil
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}

func giveOut(node io.Reader, to *os.File) error {
	var head [4]byte
	if _, err := io.ReadFull(node, head[:]); err != nil {
		return errors.New("the node gave no answer")
	}
	if _, err := io.CopyN(to, node, int64(binary.BigEndian.Uint32(head[:]))); err != nil {
		return fmt.Errorf("the answer cannot be written: %w", err)
	}
	return nil
}
