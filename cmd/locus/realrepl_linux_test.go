package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// replOn is a prompt of a real node on a terminal that does not answer queries.
func replOn(t *testing.T, n *realNode) *terminal {
	t.Helper()
	cmd := exec.Command(n.path, "--data", n.data, "repl", "-s", "notes")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "INPUTRC=/dev/null", "XDG_STATE_HOME="+t.TempDir())
	return onTerminalThat(t, cmd, false)
}

// The prompt works on a terminal that does not report the position of its cursor. (On one that
// does, the editor drops keys that arrive together with the report.)
func TestReplOnATerminalWithoutACursor(t *testing.T) {
	t.Parallel()
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	term := replOn(t, n)
	term.shows(":help tells")
	term.keys("6 * 7\r")
	term.shows("\n42\npython notes>")
	term.keys("for i in range(2):\r    print('n', i)\r\r")
	term.shows("\nn 1\npython notes>")
	term.keys("\x04")
	if status := term.end(); status != 0 {
		t.Errorf("it ended with status %d, want 0:\n%s", status, term.look())
	}
}

// Output without a newline at its end stays on the screen: the next prompt once overwrote it.
func TestReplKeepsOutputWithoutANewline(t *testing.T) {
	t.Parallel()
	n := &realNode{t: t, path: binary(t), data: t.TempDir()}
	n.up()
	term := replOn(t, n)
	term.shows("python notes>")
	term.keys("print('half', 'a line', end='')\r")
	term.shows("\nhalf a line\npython notes>")
	term.keys("6 * 7\r")
	term.shows("\n42")
	if screen := term.look(); !strings.Contains(screen, "\nhalf a line\npython notes> 6 * 7\n42") {
		t.Errorf("the screen:\n%s", screen)
	}
}
