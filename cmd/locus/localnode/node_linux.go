package localnode

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/locusrun/locus/node/gateway/client"
)

// Config says how to start a node. All fields but Flags are required.
type Config struct {
	// Program is the path of locus, Data the node's data directory, Log a file to which its
	// log is appended.
	Program, Data, Log string
	// Flags are passed to locus up in addition to --data and --json.
	Flags []string
}

// Node is a node's process. It is safe for concurrent use.
type Node struct {
	// HTTP, Listen and ID are from the node's ready line.
	HTTP, Listen, ID string

	cfg  Config
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
}

// ready is the line that a node prints when it serves.
type ready struct {
	HTTP   string `json:"http"`
	Listen string `json:"listen"`
	Node   string `json:"node"`
}

// EndedError says that a node's process ended before it served.
type EndedError struct {
	// Status is the exit status; -1 if a signal killed it.
	Status int
	// Log is the end of the node's log.
	Log string
}

// Error has the status and the end of the log.
func (e *EndedError) Error() string {
	return fmt.Sprintf("the node ended before it served, with status %d: %s", e.Status, e.Log)
}

// ErrStopTimeout: the node did not end in time after SIGTERM.
var ErrStopTimeout = errors.New("the node did not end in time after SIGTERM")

// Start starts a node and waits until it serves. If ctx or the process ends before that,
// the process is removed, and the error has the end of its log: an *EndedError, or one with
// the cause of ctx.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	n := &Node{cfg: cfg, gone: make(chan struct{})}
	n.cmd = exec.Command(cfg.Program, append([]string{"up", "--json", "--data", cfg.Data}, cfg.Flags...)...)
	n.cmd.Env = environment()
	// The node does not get the terminal's Ctrl-C, which is for this process, and it is
	// killed when this process ends.
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	log, err := os.OpenFile(cfg.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	n.cmd.Stderr = log
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	n.cmd.Stdout = in
	started := make(chan error, 1)
	go n.own(started)
	err = <-started
	in.Close()
	if err != nil {
		out.Close()
		return nil, err
	}
	line := make(chan ready, 1)
	go listen(out, line)
	select {
	case r := <-line:
		n.HTTP, n.Listen, n.ID = r.HTTP, r.Listen, r.Node
		return n, nil
	case <-n.gone:
		return nil, &EndedError{Status: n.cmd.ProcessState.ExitCode(), Log: n.lastWords()}
	case <-ctx.Done():
		err := fmt.Errorf("the node did not serve in time: %w: %s", context.Cause(ctx), n.lastWords())
		return nil, errors.Join(err, n.Kill())
	}
}

// own starts the process and waits for its end. Linux sends Pdeathsig when the starting
// thread ends, so this goroutine keeps its thread until then.
func (n *Node) own(started chan<- error) {
	runtime.LockOSThread()
	defer close(n.gone)
	err := n.cmd.Start()
	started <- err
	if err == nil {
		_ = n.cmd.Wait() // its status is read later
	}
}

// listen reads the ready line, and then the rest until the end.
func listen(out *os.File, line chan<- ready) {
	defer out.Close()
	r := bufio.NewReader(out)
	if text, err := r.ReadSlice('\n'); err == nil {
		var told ready
		if json.Unmarshal(text, &told) == nil && told.HTTP != "" {
			line <- told
		}
	}
	_, _ = io.Copy(io.Discard, r) // until the node closes it
}

// environment is this process's environment without variables that configure a node.
func environment() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LOCUS_") {
			env = append(env, v)
		}
	}
	return env
}

// logTail bounds the end of the log in an error, in bytes.
const logTail = 2000

func (n *Node) lastWords() string {
	text, err := os.ReadFile(n.cfg.Log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-logTail):]))
}

// Token returns the default actor's token from the node's data directory.
func (n *Node) Token() (string, error) {
	text, err := os.ReadFile(filepath.Join(n.cfg.Data, client.TokenFile))
	return strings.TrimSpace(string(text)), err
}

// Done returns a channel that is closed when the process has ended.
func (n *Node) Done() <-chan struct{} { return n.gone }

// Signal signals the node's process; os.ErrProcessDone if it has ended.
func (n *Node) Signal(s syscall.Signal) error { return n.cmd.Process.Signal(s) }

// Kill kills the process and waits for its end.
func (n *Node) Kill() error {
	err := n.Signal(syscall.SIGKILL)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	if err == nil {
		<-n.gone
	}
	return err
}

// Stop drains the node and returns its exit status, normally 0. A node that does not end in
// time is killed, and the error is ErrStopTimeout.
func (n *Node) Stop(within time.Duration) (status int, err error) {
	// A suspended process must be continued to handle SIGTERM.
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := n.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return -1, errors.Join(err, n.Kill())
		}
	}
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-n.gone:
		return n.cmd.ProcessState.ExitCode(), nil
	case <-t.C:
		return -1, errors.Join(fmt.Errorf("%w (%s)", ErrStopTimeout, within), n.Kill())
	}
}
