package venv

import (
	"errors"
	"strings"
	"testing"
)

func TestWhatUvIsGiven(t *testing.T) {
	p, err := parseProject(`
[build-system]
requires = ["evil"]
build-backend = "evil"
[project]
dynamic = ["version", "readme"]
readme = "README.md"
dependencies = ["six"]
optional-dependencies = {x = ["idna"]}
[project.scripts]
run = "a:b"
[dependency-groups]
dev = ["idna", {include-group = "more"}]
more = []
[tool.black]
line-length = 1
[tool.uv]
package = true
cache-dir = "/elsewhere"
[tool.uv.sources]
six = [{index = "mine", marker = "python_version > '3'"}]
[[tool.uv.index]]
name = "mine"
url = "https://localhost/simple"
`)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.render(">=3.10")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, there := range []string{`name = "environment"`, `version = "0"`, `"six"`, "package = false", "[[tool.uv.index]]", "include-group", `requires-python = ">=3.10"`} {
		if !strings.Contains(text, there) {
			t.Errorf("no %s in\n%s", there, text)
		}
	}
	for _, gone := range []string{"evil", "dynamic", "readme", "cache-dir", "scripts", "black"} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is in\n%s", gone, text)
		}
	}
	again, err := parseProject(text)
	if err != nil {
		t.Fatal(err)
	}
	if again.requires != ">=3.10" || p.requires != "" {
		t.Errorf("requires-python is %q, and was %q", again.requires, p.requires)
	}
}

func TestInvalidProjectsAreRefused(t *testing.T) {
	for text, why := range map[string]string{
		"[project\n":                  "line 2",
		"a = 1\nb = = 2\n":            "line 2",
		"":                            "[project]",
		"[tool.poetry]\nname = 'x'\n": "[project]",
		"project = 3\n":               "[project]",
		"[project]\ndynamic = ['dependencies']\n":                         "dynamic",
		"[project]\nrequires-python = 3.11\n":                             "requires-python",
		"[project]\n[tool.uv.workspace]\nmembers = ['x']\n":               "workspace",
		"[project]\n[tool.uv.sources]\na = {path = '/x'}\n":               "source of a",
		"[project]\n[tool.uv.sources]\na = [{path = '../x'}]\n":           "source of a",
		"[project]\n[tool.uv.sources]\na = {workspace = true}\n":          "source of a",
		"[project]\n[[tool.uv.sources.a]]\npath = 'x'\neditable = true":   "source of a",
		"[project]\n[tool.uv.sources]\na={path='x.whl', editable=true}\n": "source of a",
		"[project]\nname = 'a b'\n":                                       "a b",
		"[project]\nrequires-python = '^3.9'\n":                           "^3.9",
		"[project]\ndependencies = ['sixes and sevens']\n":                "sixes and sevens",
		"[project]\ndependencies = ['six=>1']\n":                          "six=>1",
		"[project]\ndependencies = ['six>=banana']\n":                     "six>=banana",
		"[project]\ndependencies = ['six>=1.banana']\n":                   "six>=1.banana",
		"[project]\ndependencies = 'six'\n":                               `"six" stands where a list`,
		"[project]\ndependencies = [1]\n":                                 "1",
		"[dependency-groups]\ndev = ['-e .']\n":                           "-e .",
		"[dependency-groups]\ndev = 'six'\n":                              "dev",
		"[project.optional-dependencies]\nx = ['']\n":                     `""`,
		"[project]\n# " + strings.Repeat("x", MaxText):                    "65536",
	} {
		err := Check(text)
		bad := (*BuildError)(nil)
		if !errors.As(err, &bad) || bad.Reason != Invalid || !strings.Contains(bad.Message, why) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	for _, requirement := range []string{
		"six", " six ", "a.b-c_d", "six>=1", "six >= 1.0 , < 2", "six[x, y]~=1.2", "six (>=1)", "six==1.*", "six==1.0.*", "six>=v1", "six<2dev",
		"six>=1.0.dev0", "six==1.0.post1", "six==1.0-1", "six>2.0RC1", "six~=1.4.2a", "six==1.0_beta.2", "six==1.0+ab.1", "six===1.0+local",
		"six; python_version<'3'", "six>=1!2.0rc1; extra == 'x'", "six @ https://localhost/six.whl", "six[x]@git+https://localhost/six@v1",
	} {
		if err := Check("[project]\ndependencies = [\"" + requirement + "\"]\n"); err != nil {
			t.Errorf("%q: %v", requirement, err)
		}
	}
	for _, good := range []string{"[project]\n", "[dependency-groups]\ndev = ['six']\n", "[project]\n[tool.uv.sources]\na = {path = '/x/a-1-py3-none-any.whl'}\n"} {
		if err := Check(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}
