package prompt

import (
	"slices"
	"strings"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

func TestComplete(t *testing.T) {
	const py, bash, ps = surfaces.Python, surfaces.Bash, surfaces.PowerShell
	for _, row := range []struct {
		language surfaces.Language
		text     string
		want     bool
	}{
		{py, "", true},
		{py, "x = 1", true},
		{py, "x = (1,", false},
		{py, "x = (1,\n2)", true},
		{py, "x = [1, # (\n", false},
		{py, "x = '('", true},
		{py, "x = \"\"\"a\n\nb", false},
		{py, "x = \"\"\"a\n\nb\"\"\"", true},
		{py, `x = r"\"`, true},
		{py, "x = 'no end", true},
		{py, "x = 'goes on\\", false},
		{py, "x = 1 + \\", false},
		{py, "x = 1 + \\\n2", true},
		{py, "# comment (", true},
		{py, "def f():", false},
		{py, "def f():\n    return 1", false},
		{py, "def f():\n    return 1\n", true},
		{py, "if x: y()", false},
		{py, "if x: y()\n", true},
		{py, "for i in x:  # all of them", false},
		{py, "@decorated", false},
		{py, "@decorated\ndef f(): pass\n", true},
		{py, "match x:\n    case 1:\n        y\n", true},
		{py, "async def f():\n  pass", false},
		{py, "x: int = 3", true},
		{py, "f(lambda: 1)", true},
		{py, "d = {'a':\n1}", true},
		{py, "x = 1)", true},
		{py, ":state", true},
		{py, ":mode read_only", true},

		{bash, "echo hi", true},
		{bash, "echo 'a", false},
		{bash, "echo 'a\nb'", true},
		{bash, `echo "a $(echo "b`, false},
		{bash, `echo "a $(echo "b")"`, true},
		{bash, `echo "it's"`, true},
		{bash, `echo \'`, true},
		{bash, `echo $'it\'s'`, true},
		{bash, "echo a \\", false},
		{bash, "echo a |", false},
		{bash, "echo a |\ncat", true},
		{bash, "true &&", false},
		{bash, "true ||\n\n", false},
		{bash, "sleep 1 &", true},
		{bash, "# a |", true},
		{bash, "if true; then", false},
		{bash, "if true; then echo; fi", true},
		{bash, "if true\nthen\necho fi\n", false},
		{bash, "echo if", true},
		{bash, "echo $(echo x) if", true},
		{bash, "for i in if then; do echo $i; done", true},
		{bash, "for ((i=0; i<3; i++)); do", false},
		{bash, "for ((i=0; i<3; i++)); do echo; done", true},
		{bash, "while read x; do echo $x; done < f", true},
		{bash, "while read x; do echo $x; done<f", true},
		{bash, "while read x", false},
		{bash, "case $x in", false},
		{bash, "case $x in a) echo;; (b) echo;;", false},
		{bash, "case $x in a) echo;; (b) echo;; esac", true},
		{bash, "case $x in a) echo esac\n", false},
		{bash, "case $x in a) echo\nesac", true},
		{bash, "f() {", false},
		{bash, "f()", false},
		{bash, "ls !(*.txt)", true},
		{bash, "f ()\n\n# what it does\n{ echo; }", true},
		{bash, "f() ( cd /; ls )", true},
		{bash, "f() { echo; }", true},
		{bash, "function f {", false},
		{bash, "function f {\necho\n}", true},
		{bash, "( cd /; ls", false},
		{bash, "( cd /; ls )", true},
		{bash, "a=(if then", false},
		{bash, "a=(if\nfi for)", true},
		{bash, "echo $((1 + (2 * 3)))", true},
		{bash, "((x = 1 + (2", false},
		{bash, "echo ${x:-\"}\"}", true},
		{bash, "echo ${x", false},
		{bash, "echo `date", false},
		{bash, "echo `date`", true},
		{bash, "cat <<EOF", false},
		{bash, "cat <<EOF\nif 'x\nEOF", true},
		{bash, "cat <<EOF\n EOF", false},
		{bash, "cat <<-'END' | sort\n\ta\n\tEND", true},
		{bash, "cat <<A <<B\nA\n", false},
		{bash, "cat <<A <<B\nA\nB", true},
		{bash, "cat <<< word", true},
		{bash, "diff <(a) <(b)", true},
		{bash, "[[ $x =~ ^(a|b)$ ]]", true},
		{bash, "fi", true},
		{bash, "echo a#b $# # 'c", true},

		{ps, "Get-Item .", true},
		{ps, "if ($x) {", false},
		{ps, "if ($x) {\n1\n}", true},
		{ps, "1..3 |", false},
		{ps, "1..3 |\nmeasure", true},
		{ps, "'{'", true},
		{ps, "\"a`\"{\"", true},
		{ps, "@'\n{\n'@", true},
		{ps, "@\"\n{\n", false},
		{ps, "<# {", false},
		{ps, "<# { #> 1", true},
		{ps, "a `", false},
		{ps, "1 # {", true},
	} {
		if got := Complete(row.language, row.text); got != row.want {
			t.Errorf("%s %q: complete %v, want %v", row.language, row.text, got, row.want)
		}
	}
}

// Whatever is read, no line of a program is lost, doubled or moved.
func FuzzCells(f *testing.F) {
	f.Add("if x; then\n'a\"$(`\n\n# c")
	f.Add("def f():\n  '''\\\n\nx\n:state\n@a")
	f.Fuzz(func(t *testing.T, text string) {
		for _, l := range surfaces.Languages() {
			Complete(l, text)
			want := bare(text)
			got := bare(strings.Join(cells(t, l, text), "\n"))
			if !slices.Equal(got, want) {
				t.Errorf("%s %q: cells hold %q", l, text, got)
			}
		}
	})
}

// bare gives the lines that are neither blank nor comments, without the space
// around them.
func bare(text string) []string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if !isBlank(line) && !isComment(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
