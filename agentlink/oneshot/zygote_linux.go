package oneshot

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// zygote is a warm Python process from which programs are forked, which takes a thirtieth
// of the time to start one. It has no part in the programs: they and their supervisors,
// which are forked too, go on when it ends. See zygote.py.
type zygote struct {
	path    string // of the Python
	cmd     *exec.Cmd
	control *net.UnixConn
	ended   sync.Once

	asking sync.Mutex // programs are forked one at a time
}

const (
	// warmWithin bounds the start of a zygote, and forkWithin each fork.
	warmWithin = time.Minute
	forkWithin = 10 * time.Second
)

// File descriptors of a zygote: its bundle, its control socket, and this executable, to
// become a supervisor.
const (
	fdBundle = 3 + iota
	fdControl
)

// startZygote starts a zygote. It can be used after wait has returned.
func startZygote(path string) (*zygote, error) {
	text, err := bundle("zygote", nil)
	if err != nil {
		return nil, err
	}
	self, err := selfPath()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	executable, err := os.Open(self)
	if err != nil {
		return nil, fmt.Errorf("start a zygote: %w", err)
	}
	defer executable.Close()
	theirs, feed, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start a zygote: %w", err)
	}
	defer theirs.Close()
	defer feed.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start a zygote: %w", err)
	}
	ours, far := os.NewFile(uintptr(pair[0]), "zygote"), os.NewFile(uintptr(pair[1]), "agent")
	defer ours.Close()
	defer far.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, fmt.Errorf("start a zygote: %w", err)
	}
	// Reserve room for a program's mark, which overwrites it.
	mark := markName + "=" + strings.Repeat("0", len(newMark())-len(markName+"="))
	z := &zygote{path: path, control: conn.(*net.UnixConn), cmd: &exec.Cmd{
		Path: path, Args: []string{path, "-c", startText, strconv.Itoa(fdBundle), strconv.Itoa(fdControl)},
		Env: append(pythonEnvironment(), mark), Dir: "/", ExtraFiles: []*os.File{theirs, far, executable},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}}
	if err := z.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start a zygote: %w", err), conn.Close())
	}
	theirs.Close() // so that the write fails if the zygote ends
	if _, err := feed.Write(text); err != nil {
		z.kill()
		return nil, fmt.Errorf("start a zygote: %w", err)
	}
	return z, nil
}

// wait returns when the zygote is warm. kill ends the wait.
func (z *zygote) wait() error {
	if _, err := z.hear(warmWithin); err != nil {
		return fmt.Errorf("start a zygote: %w", err)
	}
	return nil
}

// forked is the zygote's answer to a request to fork.
type forked struct {
	PID int `json:"pid"`
	// Error is set if the program could not be forked.
	Error string `json:"error"`
}

func (z *zygote) hear(within time.Duration) (forked, error) {
	var said forked
	if err := z.control.SetReadDeadline(time.Now().Add(within)); err != nil {
		return said, err
	}
	packet := make([]byte, 4096)
	n, err := z.control.Read(packet)
	if err != nil {
		return said, err
	}
	err = json.Unmarshal(packet[:n], &said)
	return said, err
}

// fork returns an interpreter in a new folder, which is ready or will be soon.
func (z *zygote) fork(dir string) (*interpreter, error) {
	f, err := newFolder(dir)
	if err != nil {
		return nil, err
	}
	token, mark := newToken(), newMark()
	t, err := supervised(mark, func(ends []*os.File) (*os.Process, func(), error) {
		process, err := z.launch(ends, f.work, mark, token)
		if err != nil {
			return nil, nil, fmt.Errorf("fork an interpreter: %w", err)
		}
		return process, func() {}, nil // nobody waits for a warden: see zygote.py
	})
	if err != nil {
		return nil, errors.Join(err, f.remove())
	}
	at := &place{tree: t, folder: f}
	if <-t.started; t.failed != nil {
		return nil, errors.Join(t.failed, at.discard())
	}
	return &interpreter{place: at, hear: newFrameReader(at.from, token), say: &frameWriter{to: at.to}, feed: func() error { return nil }}, nil
}

// launch makes the zygote fork a warden, which forks the program.
func (z *zygote) launch(ends []*os.File, dir, mark string, token []byte) (*os.Process, error) {
	asked := struct {
		Dir   string   `json:"dir"`
		Mark  string   `json:"mark"`
		Token string   `json:"token"`
		Tasks []uint64 `json:"tasks"` // soft and hard limit on tasks, if any
	}{Dir: dir, Mark: strings.TrimPrefix(mark, markName+"="), Token: hex.EncodeToString(token)}
	if limit, ok := processLimit(); ok {
		asked.Tasks = []uint64{limit.Cur, limit.Max}
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	fds := make([]int, len(ends))
	for i, f := range ends {
		fds[i] = int(f.Fd())
	}
	z.asking.Lock()
	defer z.asking.Unlock()
	if _, _, err := z.control.WriteMsgUnix(text, unix.UnixRights(fds...), nil); err != nil {
		return nil, err
	}
	said, err := z.hear(forkWithin)
	switch {
	case err != nil:
		z.kill() // a late answer would be taken for that to the next request
		return nil, err
	case said.Error != "":
		return nil, errors.New(said.Error)
	}
	return os.FindProcess(said.PID)
}

// kill kills the zygote.
func (z *zygote) kill() {
	z.ended.Do(func() {
		_ = z.control.Close()
		_ = z.cmd.Process.Kill()
		_ = z.cmd.Wait() // it was killed
	})
}
