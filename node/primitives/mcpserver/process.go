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
	// stopTime is how long a server has to end after its standard input was closed,
	// and again after SIGTERM.
	stopTime = 2 * time.Second
	// writeTime is how long a server may leave its standard input unread while it is
	// full.
	writeTime = 30 * time.Second
	// afterlife is how long the pipes of a dead server may still be held open by
	// something that could not be found.
	afterlife = time.Second
	// maxLogLine and maxTail bound what is kept of a server's standard error.
	maxLogLine = 4 << 10
	maxTail    = 20
)

// markVariable marks a server and all that it starts. Fork, exec, setsid and the
// death of a parent keep it, so that a daemon is found too, as long as it does not
// hide.
const markVariable = "LOCUS_MCP_SERVER"

// process is a server that was started from its command. It leads a process group,
// and when it ends, so does everything that it started.
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
	// The kernel sends the signal when the thread that forked ends, so run keeps it.
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

// environment is what a server gets: what any program needs, and nothing else of
// the node's, which may hold secrets.
func environment(extra map[string]string) []string {
	home, _ := os.UserHomeDir() // empty where there is none
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	for name, value := range extra {
		env = append(env, name+"="+value)
	}
	return env
}

// pipes makes the three pipes. It gives the ends that are for the child, and ours
// of standard error.
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

// run starts the process and stays with it to its end.
func (p *process) run(started chan<- error, stderr *os.File) {
	runtime.LockOSThread() // for good: the thread ends with the goroutine
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
	// While its leader is not waited for, the process group's number is nobody else's.
	if err := awaitExit(p.cmd.Process.Pid); err != nil {
		p.log.Warn("an MCP server could not be watched", "error", err)
	}
	p.signal(syscall.SIGKILL)
	err := p.cmd.Wait()
	p.sweep()
	// What it said last is still in the pipes, and then comes their end.
	limit := time.Now().Add(afterlife)
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

// awaitExit returns when the process has ended, and leaves it to be waited for.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// signal reaches the process group. It may be gone already.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// sweep kills what left the process group, until a look finds nothing.
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
		// The handle is taken first and the mark looked at again, so that a number that
		// now is somebody else's harms nobody.
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

// marked says whether a process bears the mark. Those of other users cannot be
// read, and a dead one has no environment any more.
func (p *process) marked(pid int) bool {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	return err == nil && bytes.Contains(env, []byte(p.mark))
}

// listen logs what the server says on its standard error, and keeps the end of it.
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

// Read, Write and Close make it the stream that messages travel on.

func (p *process) Read(b []byte) (int, error) { return p.stdout.Read(b) }

func (p *process) Write(b []byte) (int, error) {
	if err := p.stdin.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	return p.stdin.Write(b)
}

// Close asks the server to end by the end of its input.
func (p *process) Close() error { return p.stdin.Close() }

// stop ends the server: it is asked twice, and then killed.
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

// epitaph says how it ended; it waits until that is known.
func (p *process) epitaph() error {
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("its process ended: %s", p.reason)
}

// lastWords are the last lines of its standard error so far.
func (p *process) lastWords() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.tail...)
}
