package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// replOn is a prompt of a real node on a terminal.
func replOn(t *testing.T, n *realNode, answers bool) *terminal {
	t.Helper()
	cmd := exec.Command(n.path, "--data", n.data, "repl", "-s", "notes")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "INPUTRC=/dev/null", "XDG_STATE_HOME="+t.TempDir())
	return onTerminalThat(t, cmd, answers)
}

// A person types cells, and leaves, whether or not the terminal tells where its cursor is.
func TestReplOnATerminal(t *testing.T) {
	t.Parallel()
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	for name, answers := range map[string]bool{"that answers": true, "that answers nothing": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := replOn(t, n, answers)
			term.shows(":help tells")
			term.keys("6 * 7\r")
			term.shows("\n42")
			term.keys("for i in range(2):\r    print('n', i)\r\r")
			term.shows("\nn 1")
			term.keys("\x04")
			if status := term.end(); status != 0 {
				t.Errorf("it ended with status %d:\n%s", status, term.look())
			}
		})
	}
}

// What code prints without an end of line stays on the screen: the next prompt was written
// over it.
func TestReplKeepsALineWithoutItsEnd(t *testing.T) {
	t.Parallel()
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	term := replOn(t, n, true)
	term.shows("python notes>")
	term.keys("print('half', 'a line', end='')\r")
	term.shows("\nhalf a line\npython notes>")
	term.keys("6 * 7\r")
	term.shows("\n42")
	if screen := term.look(); !strings.Contains(screen, "\nhalf a line\npython notes> 6 * 7\n42") {
		t.Errorf("the screen:\n%s", screen)
	}
}
