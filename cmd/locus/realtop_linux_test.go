package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// terminal is a pseudo-terminal with a command on it, and what is on its screen.
type terminal struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	cmd    *exec.Cmd
	before unix.Termios
	ended  chan error

	// raw is the output, and screen what it displays.
	mu     sync.Mutex
	screen *vt.Emulator
	raw    strings.Builder
}

// onTerminal runs a command with a terminal of 24 lines and 120 columns.
func onTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	return onTerminalThat(t, cmd, true)
}

// onTerminalThat runs a command on a terminal that answers queries, such as for the cursor's
// position, or does not.
func onTerminalThat(t *testing.T, cmd *exec.Cmd, answers bool) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no pseudo-terminals: %v", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, master: master, slave: slave, cmd: cmd, ended: make(chan error, 1), screen: vt.NewEmulator(120, 24)}
	term.resize(24, 120)
	term.before = term.modes()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { term.ended <- cmd.Wait() }()
	var both sync.WaitGroup
	both.Go(func() {
		// It ends when the other end is closed everywhere.
		_, _ = io.Copy(term, master)
	})
	// The terminal's answers to queries are input, like keys.
	asked := term.screen.InputPipe().(io.Closer)
	var to io.Writer = io.Discard
	if answers {
		to = master
	}
	both.Go(func() { _, _ = io.Copy(to, term.screen) })
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		slave.Close()
		asked.Close()
		both.Wait()
		master.Close()
	})
	return term
}

// Write takes what the command shows.
func (term *terminal) Write(p []byte) (int, error) {
	term.mu.Lock()
	defer term.mu.Unlock()
	term.raw.Write(p)
	return term.screen.Write(p)
}

func (term *terminal) written() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.raw.String()
}

// look returns the contents of the screen.
func (term *terminal) look() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

func (term *terminal) modes() unix.Termios {
	term.t.Helper()
	modes, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
	if err != nil {
		term.t.Fatal(err)
	}
	return *modes
}

// resize changes the size of the terminal, which the kernel signals to the command.
func (term *terminal) resize(lines, columns int) {
	term.t.Helper()
	term.mu.Lock()
	term.screen.Resize(columns, lines)
	term.mu.Unlock()
	if err := unix.IoctlSetWinsize(int(term.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(lines), Col: uint16(columns)}); err != nil {
		term.t.Fatal(err)
	}
}

func (term *terminal) keys(text string) {
	term.t.Helper()
	if _, err := term.master.WriteString(text); err != nil {
		term.t.Fatal(err)
	}
}

// shows waits until a text is on the screen.
func (term *terminal) shows(text string) {
	term.t.Helper()
	last := ""
	defer func() {
		if term.t.Failed() {
			term.t.Logf("the screen:\n%s", last)
		}
	}()
	eventually(term.t, fmt.Sprintf("the screen shows %q", text), func() bool {
		last = term.look()
		return strings.Contains(last, text)
	})
}

// end waits for the command and gives its exit status. The terminal is as it was before.
func (term *terminal) end() int {
	term.t.Helper()
	select {
	case <-term.ended:
	case <-time.After(patience):
		term.t.Fatalf("it does not end:\n%s", term.look())
	}
	if after := term.modes(); after != term.before {
		term.t.Errorf("the terminal's modes are %+v, and were %+v", after, term.before)
	}
	eventually(term.t, "the screen of before is back, and its cursor", func() bool {
		term.mu.Lock()
		defer term.mu.Unlock()
		return !term.screen.IsAltScreen() && !term.screen.CursorHidden() && !strings.Contains(term.screen.String(), "CALL")
	})
	return term.cmd.ProcessState.ExitCode()
}

// top shows on a terminal what a real node does, steers a call by keys, follows the size of
// the terminal, and restores the terminal however it ends.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	top := func(env string, flags ...string) *terminal {
		cmd := exec.Command(n.path, append([]string{"--data", n.data, "top"}, flags...)...)
		cmd.Env = append(os.Environ(), "TERM=xterm-256color", env)
		return onTerminal(t, cmd)
	}
	term := top("NO_COLOR=1")
	term.shows("CALL (0) FOR")

	// A new call is shown, and steered after a confirmation.
	started := decoded[surfaces.Result](n, "exec", "--background", "-t", "600", "-m", "stateful", "-s", "sales", "--thought", "count the rows", "import time\nwhile True: time.sleep(0.05)")
	term.shows("count the rows")
	call := func() gateway.CallSummary {
		for _, c := range decoded[gateway.ExecutionList](n, "calls").Executions {
			if c.CallID == started.CallID {
				return c
			}
		}
		t.Fatal("the call is not there")
		return gateway.CallSummary{}
	}
	paused := func() bool { return call().Paused }
	term.keys("p")
	term.shows("pause " + started.CallID + "?")
	if paused() {
		t.Error("it was paused before the yes")
	}
	term.keys("y")
	eventually(t, "the call is paused", paused)
	term.shows(" paused ")
	term.keys("p")
	term.shows("resume " + started.CallID + "?")
	term.keys("y")
	eventually(t, "the call goes on", func() bool { return !paused() })

	// A narrow terminal cuts the rows, a wide one shows the ends of them.
	whole := started.CallID + "  count the rows"
	term.shows(whole)
	term.resize(12, 60)
	eventually(t, "the rows are cut", func() bool { return !strings.Contains(term.look(), whole) })
	term.shows("> ")
	term.resize(50, 200)
	term.shows(whole)

	term.keys("x")
	term.shows("stop " + started.CallID + "?")
	term.keys("y")
	eventually(t, "the call has ended", func() bool { return call().Status == surfaces.StatusFailed })
	term.keys("q")
	if status := term.end(); status != 0 {
		t.Errorf("q: status %d, want 0", status)
	}
	if text := term.written(); strings.Contains(text, "\x1b[31m") || strings.Contains(text, ";31m") {
		t.Errorf("colours in spite of NO_COLOR: %q", text)
	}

	// Ctrl-C, and signals from elsewhere.
	for name, leave := range map[string]func(*terminal){
		"Ctrl-C":  func(term *terminal) { term.keys("\x03") },
		"SIGINT":  func(term *terminal) { _ = term.cmd.Process.Signal(syscall.SIGINT) },
		"SIGTERM": func(term *terminal) { _ = term.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		term := top("COLORTERM=")
		term.shows("CALL (0) FOR")
		leave(term)
		if status := term.end(); status != 0 {
			t.Errorf("%s: status %d, want 0", name, status)
		}
	}

	// One frame leaves the screen as it is.
	cmd := exec.Command(n.path, "--data", n.data, "top", "--once")
	once := onTerminal(t, cmd)
	once.shows("MACHINE (0)")
	if err := <-once.ended; err != nil {
		t.Errorf("--once: %v", err)
	}
	if text := once.written(); strings.Contains(text, "\x1b") || !strings.Contains(text, "sales") {
		t.Errorf("--once: %q", text)
	}
}
