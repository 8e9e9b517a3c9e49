package prompt

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func cells(t *testing.T, language surfaces.Language, text string) []string {
	t.Helper()
	s := NewScript(language, strings.NewReader(text))
	var all []string
	for {
		cell, err := s.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, cell)
	}
}

func TestScriptCells(t *testing.T) {
	for _, row := range []struct {
		name     string
		language surfaces.Language
		in       string
		want     []string
	}{
		{"nothing", surfaces.Python, "\n \n", nil},
		{"statements", surfaces.Python, "x = 1\nx\n", []string{"x = 1", "x"}},
		{"no end of line", surfaces.Python, "x", []string{"x"}},
		{"blank lines in a function", surfaces.Python, "def f():\n    a\n\n    b\n\nf()\n", []string{"def f():\n    a\n\n    b", "f()"}},
		{"else after a blank line", surfaces.Python, "if x:\n    a\n\nelse:\n    b\nc", []string{"if x:\n    a\n\nelse:\n    b", "c"}},
		{"decorators", surfaces.Python, "@a\n@b\nclass C:\n  x = 1\ny", []string{"@a\n@b\nclass C:\n  x = 1", "y"}},
		{"text at the margin", surfaces.Python, "x = '''\nif\n'''\ny", []string{"x = '''\nif\n'''", "y"}},
		{"comments go with what stands before", surfaces.Python, "# one\nx\n# two\ny", []string{"# one\nx\n# two", "y"}},
		{"commands", surfaces.Python, ":mode read_only\nx\n:state\n", []string{":mode read_only", "x", ":state"}},
		{"shell", surfaces.Bash, "a\nif b\nthen c\nfi\ncat <<E\nd\n\nE\ne\n", []string{"a", "if b\nthen c\nfi", "cat <<E\nd\n\nE", "e"}},
		{"never whole", surfaces.Bash, "if a\n", []string{"if a"}},
		{"powershell else", surfaces.PowerShell, "if (1) {\n2\n}\nelse {\n3\n}\n4", []string{"if (1) {\n2\n}\nelse {\n3\n}", "4"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := cells(t, row.language, row.in); !slices.Equal(got, row.want) {
				t.Errorf("%q\nwant %q", got, row.want)
			}
		})
	}
}

func TestScriptBounds(t *testing.T) {
	s := NewScript(surfaces.Python, io.LimitReader(endless{}, MaxCell+10))
	if _, err := s.Next(); !errors.Is(err, ErrTooLong) {
		t.Errorf("%v, want ErrTooLong", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// Python itself says whether the cells of real modules are whole statements, and
// that there are none in excess.
const judge = `
import ast, json, sys
for path, cells in json.load(sys.stdin).items():
    whole = open(path, encoding="utf-8").read()
    want = [ast.dump(n) for n in ast.parse(whole).body]
    got = []
    for c in cells:
        try:
            body = ast.parse(c).body
        except SyntaxError as e:
            sys.exit(f"{path}: {e}: cell {c[:200]!r}")
        if len(body) > 1 and ";" not in c:
            sys.exit(f"{path}: two statements in one cell: {c[:200]!r}")
        got += [ast.dump(n) for n in body]
    if got != want:
        sys.exit(f"{path}: {len(got)} statements, want {len(want)}")
`

func TestScriptCellsOfRealPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on this machine")
	}
	out, err := exec.Command(python, "-c", "import os; print(os.path.dirname(os.__file__))").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*.py"))
	if err != nil || len(files) < 20 {
		t.Skip("no Python library on this machine")
	}
	all := map[string][]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[f] = cells(t, surfaces.Python, string(text))
	}
	cmd := exec.Command(python, "-W", "ignore", "-c", judge)
	cmd.Stdin = jsonReader(t, all)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// Bash itself says whether the cells of real scripts are whole.
func TestScriptCellsOfRealShell(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash on this machine")
	}
	var judged int
	for _, f := range realScripts(t) {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, cell := range cells(t, surfaces.Bash, string(text)) {
			if strings.TrimSpace(cell) == "" {
				continue
			}
			judged++
			check := exec.Command(bash, "-O", "extglob", "-n")
			check.Stdin = strings.NewReader(cell + "\n")
			if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s: %v %s: cell %.300q", f, err, out, cell)
				break
			}
		}
	}
	if judged == 0 {
		t.Skip("no shell scripts on this machine")
	}
	t.Logf("%d cells judged", judged)
}
