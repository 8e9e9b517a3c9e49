package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every command explains itself: with a sentence, an example that names it, and
// flags that say what they take.
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

// Examples are read by people who copy them: their flags must exist.
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

// What people try first tells the version, too.
func TestVersion(t *testing.T) {
	told := func(args ...string) string {
		s := command(t, nil, "")
		if status := s.a.run(t.Context(), args); status != 0 {
			t.Errorf("%v: status %d", args, status)
		}
		return s.out.String()
	}
	if a, b := told("version"), told("--version"); a != b || !strings.HasPrefix(a, "locus ") {
		t.Errorf("version tells %q, --version %q", a, b)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		s := command(t, nil, "")
		if status := s.a.run(t.Context(), []string{"completion", shell}); status != 0 || !strings.Contains(s.out.String(), "__complete") {
			t.Errorf("%s: status %d, %d bytes", shell, status, len(s.out.String()))
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
			t.Errorf("%v: status %d: %q", row.args, status, s.out.String())
		}
	}
	// Without a node there is nothing to offer, and no noise.
	s := command(t, nil, "")
	if status := s.a.run(t.Context(), []string{"__complete", "exec", "-s", ""}); status != 0 || !strings.HasPrefix(s.out.String(), ":4") {
		t.Errorf("without a node: status %d: %q", status, s.out.String())
	}
}
