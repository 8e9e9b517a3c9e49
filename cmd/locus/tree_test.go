package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every command has a description, an example that names it, and flags that say what they
// take.
func TestEveryCommandIsDocumented(t *testing.T) {
	root := newApp(os.Stdin, os.Stdout, os.Stderr).root()
	seen := map[string]bool{}
	walk(root, func(c *cobra.Command) {
		path := c.CommandPath()
		seen[path] = true
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short text %q", path, c.Short)
		}
		if !strings.Contains(c.Example, path) && c.Name() != "help" {
			t.Errorf("%s: no example names it: %q", path, c.Example)
		}
		if c.RunE == nil {
			t.Errorf("%s does nothing", path)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: --%s says nothing", path, f.Name)
			}
		})
	})
	for _, want := range strings.Fields("up exec repl sessions calls venv fn primitives token nodes link machines authority recover status top audit doctor chaos bench mcp version completion") {
		if !seen["locus "+want] {
			t.Errorf("there is no %q", want)
		}
	}
}

// People copy the examples, so their flags must exist.
func TestExamplesParse(t *testing.T) {
	walk(newApp(os.Stdin, os.Stdout, os.Stderr).root(), func(c *cobra.Command) {
		for _, line := range strings.Split(c.Example, "\n") {
			for _, word := range strings.Fields(line) {
				name, _, _ := strings.Cut(strings.TrimRight(word, ")'"), "=")
				if !strings.HasPrefix(name, "--") || name == "--" || strings.Contains(line, "|") && !strings.HasPrefix(strings.TrimSpace(line), "locus") {
					continue
				}
				if !anyFlag(c, name[2:]) {
					t.Errorf("%s: the example %q has no flag %s", c.CommandPath(), line, name)
				}
			}
		}
	})
}

// anyFlag says whether a command or one under it has a flag, as examples of a
// group are of its verbs.
func anyFlag(c *cobra.Command, name string) bool {
	found := false
	walk(c, func(c *cobra.Command) {
		if err := c.ParseFlags(nil); err == nil && c.Flags().Lookup(name) != nil {
			found = true
		}
	})
	return found
}

// Each usual way to ask for the version works.
func TestVersion(t *testing.T) {
	told := func(args ...string) string {
		s := command(t, nil, "")
		if status := s.a.run(t.Context(), args); status != 0 {
			t.Errorf("%v: status %d, want 0", args, status)
		}
		return s.out.String()
	}
	if a, b := told("version"), told("--version"); a != b || !strings.HasPrefix(a, "locus ") {
		t.Errorf("version tells %q, --version %q", a, b)
	}
}

// A group of commands prints its help for people. With --json that is an error, because there
// is no answer.
func TestAGroupOfCommandsHasNoJSONAnswer(t *testing.T) {
	for _, args := range [][]string{{"chaos"}, {}} {
		s := command(t, nil, "")
		if status := s.a.run(t.Context(), args); status != 0 || !strings.Contains(s.out.String(), "Available Commands") {
			t.Errorf("%v: status %d, want 0: %s", args, status, s.out.String())
		}
		s = command(t, nil, "")
		if status := s.a.run(t.Context(), append(args, "--json")); status != 2 || !strings.HasPrefix(s.out.String(), "{") || !strings.Contains(s.out.String(), `"code":"invalid_argument"`) {
			t.Errorf("%v --json: status %d, want 2: %s", args, status, s.out.String())
		}
	}
}

// Only running calls are completed for steering, newest first.
func TestCompletionOfCalls(t *testing.T) {
	const running = `{"executions":[{"call_id":"c9","status":"running","language":"python"},{"call_id":"c2","status":"running","language":"bash"}]}`
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"calls", "stop", ""}, "c9\tpython, running\nc2\tbash, running\n:36\n"},
		{[]string{"calls", "answer", ""}, "c9\tpython, running\nc2\tbash, running\n:36\n"},
		{[]string{"calls", "show", ""}, "c2\tpython, paused\nc1\tbash, timeout\n:36\n"},
	} {
		n := &fakeNode{answers: answers()}
		n.answers["GET /v1/executions?status=running"] = answer{200, running}
		s := command(t, n, "")
		if status := s.a.run(t.Context(), append([]string{"__complete"}, row.args...)); status != 0 || s.out.String() != row.want {
			t.Errorf("%v: status %d, want 0: %q", row.args, status, s.out.String())
		}
	}
}

// The backquotes that mark a flag's value in the help do not appear in completions.
func TestCompletionOfFlagsIsPlain(t *testing.T) {
	s := command(t, nil, "")
	if status := s.a.run(t.Context(), []string{"__complete", "exec", "--"}); status != 0 || !strings.Contains(s.out.String(), "--session\tsession by NAME") || strings.Contains(s.out.String(), "`") {
		t.Errorf("status %d, want 0: %q", status, s.out.String())
	}
}

// Completion works in bash without the package bash-completion.
func TestCompletionWithoutBashCompletion(t *testing.T) {
	script := command(t, nil, "")
	if status := script.a.run(t.Context(), []string{"completion", "bash"}); status != 0 {
		t.Fatalf("status %d, want 0", status)
	}
	cmd := exec.Command("bash", "--norc", "-c", script.out.String()+`
locus() { [ "$*" = "__complete exec -s no" ] && printf 'notes\tpython, live\n:4\n'; }
COMP_WORDS=(locus exec -s no) COMP_CWORD=3 COMP_LINE="locus exec -s no" COMP_POINT=16 COMP_TYPE=9
__start_locus; echo "got ${COMPREPLY[*]}"`)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "got notes") || strings.Contains(string(out), "not found") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		s := command(t, nil, "")
		if status := s.a.run(t.Context(), []string{"completion", shell}); status != 0 || !strings.Contains(s.out.String(), "__complete") {
			t.Errorf("%s: status %d, want 0, %d bytes", shell, status, len(s.out.String()))
		}
	}
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"exec", "-s", ""}, "build\tbash, busy"},
		{[]string{"sessions", "close", "b"}, "build\tbash, busy"},
		{[]string{"calls", "stop", ""}, "c2\tpython, paused"},
		{[]string{"nodes", "drain", ""}, "node-2a\tfollower, up, 2 sessions"},
		{[]string{"token", "revoke", ""}, "aaaa\tjoin token, good for 13m"},
		{[]string{"token", "create", "--role", ""}, "admin"},
		{[]string{"authority", "rotate", ""}, "rollback"},
		{[]string{"audit", "tail", "--what", "call_e"}, "call_ended"},
		{[]string{"audit", "verify", "--node", ""}, "node-2a"},
		{[]string{"exec", "-m", ""}, "read_only"},
		{[]string{"top", "--sort", ""}, "load"},
		{[]string{"exec", "--venv", ""}, "1\tml"},
		{[]string{"venv", "show", ""}, "2\tweb"},
		{[]string{"fn", "add", "--venv", ""}, "1\tml"},
		{[]string{"fn", "run", ""}, "forecast\t(days: int = 7)"},
		{[]string{"primitives", "rm", ""}, "files\trunning"},
		{[]string{"primitives", "add", "--actor", ""}, "planner"},
		{[]string{"exec", "--language", "p"}, "powershell"},
		{[]string{"sess"}, "sessions"},
		{[]string{"chaos", ""}, "report"},
		{[]string{"chaos", "run", "--faults", "k"}, "kill"},
	} {
		s := command(t, &fakeNode{answers: answers()}, "")
		status := s.a.run(t.Context(), append([]string{"__complete"}, row.args...))
		if status != 0 || !strings.Contains(s.out.String(), row.want) {
			t.Errorf("%v: status %d, want 0: %q", row.args, status, s.out.String())
		}
	}
	// Without a node there are no completions, and no error is printed.
	s := command(t, nil, "")
	if status := s.a.run(t.Context(), []string{"__complete", "exec", "-s", ""}); status != 0 || !strings.HasPrefix(s.out.String(), ":4") {
		t.Errorf("without a node: status %d, want 0: %q", status, s.out.String())
	}
}
