package mcpserver

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// stopTime is how long a server has to exit after its standard input was closed, and
	// again after SIGTERM.
	stopTime = 2 * time.Second
	// writeTime is how long a write may block on a server that does not read its standard
	// input.
	writeTime = 30 * time.Second
	// pipeGrace is how long to go on reading the pipes after the server died, if a process
	// that sweep did not find holds them open.
	pipeGrace = time.Second
	// maxLogLine and maxTail bound the kept end of standard error: bytes per line, and
	// lines.
	maxLogLine = 4 << 10
	maxTail    = 20
)

// markVariable is set to a random value in the environment of a server. Everything that the
// server starts inherits it, also daemons that left the process group, so that they can be
// found and killed. A program that clears its environment escapes.
const markVariable = "LOCUS_MCP_SERVER"

// process is a server started from its command. It leads a process group. When it ends,
// everything that it started is killed.
type process struct {
	log    *slog.Logger
	cmd    *exec.Cmd
	mark   string
	stdin  *os.File
	stdout *os.File
	ended  chan struct{} // closed when nothing of it is left

	mu     sync.Mutex
	tail   []string // the last lines of standard error
	reason string   // how it ended
}

func startProcess(cfg Config, log *slog.Logger) (*process, error) {
	p := &process{log: log, mark: markVariable + "=" + rand.Text(), ended: make(chan struct{})}
	p.cmd = exec.Command(cfg.Command[0], cfg.Command[1:]...)
	p.cmd.Dir = cfg.Dir
	p.cmd.Env = append(environment(cfg.Env), p.mark)
	// Linux sends Pdeathsig when the thread that forked ends, so run locks its goroutine to
	// that thread.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	theirs, stderr, err := p.pipes()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go p.run(started, stderr)
	err = <-started
	for _, f := range theirs {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, errors.Join(err, p.stdin.Close(), p.stdout.Close())
	}
	return p, nil
}

// environment is the server's environment. It has nothing of the node's own but PATH and
// HOME, as that may hold secrets.
func environment(extra map[string]string) []string {
	home, _ := os.UserHomeDir() // empty where there is none
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	for name, value := range extra {
		env = append(env, name+"="+value)
	}
	return env
}

// pipes makes the three pipes. It returns the child's ends, and our end of standard error.
func (p *process) pipes() (theirs []*os.File, stderr *os.File, err error) {
	var files [6]*os.File
	for i := 0; i < len(files); i += 2 {
		if files[i], files[i+1], err = os.Pipe(); err != nil {
			for _, f := range files[:i] {
				err = errors.Join(err, f.Close())
			}
			return nil, nil, err
		}
	}
	p.cmd.Stdin, p.stdin = files[0], files[1]
	p.stdout, p.cmd.Stdout = files[2], files[3]
	stderr, p.cmd.Stderr = files[4], files[5]
	return []*os.File{files[0], files[3], files[5]}, stderr, nil
}

// run starts the process and waits for its end.
func (p *process) run(started chan<- error, stderr *os.File) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	defer close(p.ended)
	defer stderr.Close()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	said := make(chan struct{})
	go func() {
		defer close(said)
		p.listen(stderr)
	}()
	// Until the leader is reaped its pid, and so the group's id, cannot be reused.
	if err := awaitExit(p.cmd.Process.Pid); err != nil {
		p.log.Warn("an MCP server could not be watched", "error", err)
	}
	p.signal(syscall.SIGKILL)
	err := p.cmd.Wait()
	p.sweep()
	// The last output is still in the pipes; then comes their end, if nothing else holds
	// them.
	limit := time.Now().Add(pipeGrace)
	_ = stderr.SetReadDeadline(limit)
	_ = p.stdout.SetReadDeadline(limit)
	<-said
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason = "exit status 0"
	if err != nil {
		p.reason = err.Error()
	}
}

// awaitExit waits until the process has exited, without reaping it.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// signal signals the process group, which may be gone already.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// sweep kills the processes that left the group, until a scan finds none.
func (p *process) sweep() {
	for limit := time.Now().Add(stopTime); p.killMarked() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			p.log.Warn("an MCP server left processes that could not be killed")
			return
		}
	}
}

func (p *process) killMarked() (found int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		p.log.Warn("processes of an MCP server may be left", "error", err)
		return 0
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !p.marked(pid) {
			continue
		}
		// The handle is taken before the mark is checked again, so that a reused pid is not
		// killed.
		other, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if p.marked(pid) && other.Kill() == nil {
			found++
		}
		_ = other.Release()
	}
	return found
}

// marked reports whether a process has the mark. The environment of other users' processes
// cannot be read, and a zombie has none.
func (p *process) marked(pid int) bool {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	return err == nil && bytes.Contains(env, []byte(p.mark))
}

// listen logs the server's standard error and keeps the end of it.
func (p *process) listen(stderr io.Reader) {
	r := bufio.NewReaderSize(stderr, maxLogLine)
	for {
		part, err := r.ReadSlice('\n')
		if text := strings.TrimSpace(string(part)); text != "" {
			p.log.Debug("an MCP server says", "text", text)
			p.mu.Lock()
			p.tail = append(p.tail, text)
			p.tail = p.tail[max(0, len(p.tail)-maxTail):]
			p.mu.Unlock()
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// Read, Write and Close make the process the stream of the MCP transport.

func (p *process) Read(b []byte) (int, error) { return p.stdout.Read(b) }

func (p *process) Write(b []byte) (int, error) {
	if err := p.stdin.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	return p.stdin.Write(b)
}

// Close asks the server to exit by closing its standard input.
func (p *process) Close() error { return p.stdin.Close() }

// stop ends the server: it closes its input, then sends SIGTERM, then SIGKILL.
func (p *process) stop() {
	_ = p.stdin.Close()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-p.ended:
		case <-time.After(stopTime):
			p.signal(s)
			continue
		}
		break
	}
	<-p.ended
	_ = p.stdout.Close()
}

// exitError waits for the end of the process and returns its exit status as an error.
func (p *process) exitError() error {
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("its process ended: %s", p.reason)
}

// stderrTail returns the last lines of standard error.
func (p *process) stderrTail() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.tail...)
}
