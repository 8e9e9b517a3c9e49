package oneshot

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestLanguages(t *testing.T) {
	r := newRunner(t)
	found := r.Languages(context.Background())
	if !slices.Contains(found, "sh") {
		t.Errorf("got the languages %v, want sh among them", found)
	}
	t.Setenv("PATH", t.TempDir())
	if found := r.Languages(context.Background()); len(found) != 0 {
		t.Errorf("on a machine without programs: %v", found)
	}
	res := r.Run(context.Background(), Request{CallID: "c", Language: "bash", Code: "echo", Timeout: limit}, nil, nil)
	if res.Status != surfaces.StatusRefused || code(res) != "unsupported_language" {
		t.Errorf("got %s with code %s, want unsupported_language refused", res.Status, code(res))
	}
}

func TestShells(t *testing.T) {
	for _, language := range []surfaces.Language{surfaces.Bash, surfaces.Sh, surfaces.Zsh} {
		eachWay(t, string(language), language, func(t *testing.T, r *Runner) {
			for text, want := range map[string]string{
				"echo hello":                          "hello\n",
				"x='a b'\necho \"$x\" | tr a-z A-Z":   "A B\n",
				"cat <<'EOF'\n$not 'quoted'\nEOF":     "$not 'quoted'\n",
				"echo \"$#\"":                         "0\n",
				"cat; echo end":                       "end\n",
				"env | grep -c LOCUS_ONESHOT=":        "1\n",
				"alias hi='echo aliased'\nhi":         "aliased\n",
				"ls":                                  "out\n",
				"printf 'last line without an end'":   "last line without an end",
				"echo 'é' \"$(printf '\\303\\251')\"": "é é\n",
			} {
				res, out := run(t, r, language, text)
				if res.Status != surfaces.StatusDone || out.stdout() != want || res.Exit == nil || *res.Exit.Code != 0 {
					t.Errorf("%s: got code %s, output %q, errors %q; want the output %q and status 0", text, code(res), out.stdout(), out.stderr(), want)
				}
			}
			res, out := run(t, r, language, "echo lost >&2\nexit 3")
			if res.Status != surfaces.StatusDone || *res.Exit.Code != 3 || out.stderr() != "lost\n" || res.Exception != nil {
				t.Errorf("got code %s, exit %+v, errors %q; want status 3, the errors \"lost\"", code(res), res.Exit, out.stderr())
			}
			res, out = run(t, r, language, "read a; read b; echo \"$b$a\"", func(r *Request) { r.Stdin = "1\n2\n" })
			if out.stdout() != "21\n" {
				t.Errorf("got %q, want 21; %+v", out.stdout(), res)
			}
			if _, out := run(t, r, language, "true\n\nno_such_command"); !strings.Contains(out.stderr(), "3") || !strings.Contains(out.stderr(), "program") {
				t.Errorf("the line is not the caller's: %q", out.stderr())
			}
			res, _ = run(t, r, language, "kill -9 $$")
			if code(res) != "killed" || res.Exit.Signal != "SIGKILL" {
				t.Errorf("got code %s, exit %+v; want killed by SIGKILL", code(res), res.Exit)
			}
		})
	}
}

// The arguments and the environment of a process can be read by others.
func TestCodeIsNotInCommandLinesOrEnvironments(t *testing.T) {
	for language, text := range map[surfaces.Language]string{
		surfaces.Bash:   "# a secret word: plum\ntr '\\0' ' ' </proc/$$/cmdline /proc/$$/environ; cat /proc/$PPID/cmdline",
		surfaces.Python: "# a secret word: plum\nprint(open('/proc/self/cmdline').read(), open('/proc/self/environ').read())",
	} {
		r := needs(t, language)
		if _, out := run(t, r, language, text); strings.Contains(out.stdout(), "plum") || out.stdout() == "" {
			t.Errorf("%s: got %q, want text without the code's secret word", language, out.stdout())
		}
	}
}

func TestAgentVariablesAreNotInherited(t *testing.T) {
	r := needs(t, surfaces.Sh)
	t.Setenv("LOCUS_TOKEN", "secret")
	t.Setenv("ENV", "/no/such/file")
	t.Setenv("ONE_OF_THE_PERSONS", "kept")
	if _, out := run(t, r, surfaces.Sh, `echo "$LOCUS_TOKEN$ENV$ONE_OF_THE_PERSONS"`); out.stdout() != "kept\n" {
		t.Errorf("got %q, want only the person's own variable, \"kept\"", out.stdout())
	}
}
