// Package house checks the architecture: the directions of imports, the top-level folders,
// the package comments, the list of packages in docs/architecture.md, and the tests that
// documents name.
package house

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/locusrun/locus/"

type pkg struct {
	ImportPath string
	Doc        string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Doc,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if len(list) < 10 {
		t.Fatalf("found %d packages", len(list))
	}
	return list
}

// may lists, for each part of the module, the other parts that it may import. A part may
// always import the packages below it.
var may = map[string][]string{
	"surfaces":         {},
	"surfaces/tracing": {},
	"certs":            {},
	"registry":         {"surfaces", "certs"},
	"mesh":             {"surfaces", "certs"},
	"placement":        {"registry", "mesh", "surfaces", "certs", "surfaces/tracing"},
	// Fault injection and its checks are for tests and locus chaos only.
	"mesh/faultnet":     {},
	"mesh/cables":       {"mesh/faultnet"},
	"placement/history": {"surfaces"},
	// A linked machine uses the Python worker's modules, which are embedded data, and the
	// shells' command, but nothing else of a node.
	"agentlink":                 {"node/kernel/python/worker", "node/kernel/shell/command", "mesh", "surfaces", "certs"},
	"node/kernel/python/worker": {},
	"node/sandbox":              {},
	"node/venv":                 {},
	"node/kernel/shell/command": {},
	"node/kernel":               {"node/kernel/python/worker", "node/kernel/shell/command", "node/sandbox", "surfaces"},
	"node/engine":               {"node/kernel", "node/sandbox", "surfaces", "surfaces/tracing"},
	"node/primitives":           {"surfaces", "surfaces/tracing"},
	"node/calls":                {"node/primitives", "surfaces"},
	"node/audit":                {"surfaces"},
	"node/gateway":              {"node/audit", "surfaces", "surfaces/tracing"},
	"node/peer":                 {"node/calls", "mesh", "surfaces", "certs", "surfaces/tracing"},
	"node/member":               {"node/peer", "mesh", "registry", "certs"},
	"node":                      {"node/audit", "node/calls", "node/engine", "node/gateway", "node/kernel", "node/member", "node/peer", "node/primitives", "node/sandbox", "node/venv", "placement", "agentlink", "registry", "mesh", "surfaces", "certs", "surfaces/tracing"},
	"cmd":                       {"node", "surfaces", "agentlink", "mesh/cables", "mesh/faultnet", "placement/history"},
}

// partOf returns the most specific part that a package belongs to.
func partOf(path string) string {
	best := ""
	for part := range may {
		if (path == part || strings.HasPrefix(path, part+"/")) && len(part) > len(best) {
			best = part
		}
	}
	return best
}

// Everything belongs in one of these top-level folders.
func TestTopLevelFolders(t *testing.T) {
	given := []string{"agentlink", "bench", "certs", "cmd", "docs", "examples", "mesh", "node", "placement", "registry", "surfaces"}
	out, err := exec.Command("git", "ls-tree", "-d", "--name-only", "HEAD").Output()
	if err != nil {
		t.Skip("not a checkout")
	}
	for _, name := range strings.Fields(string(out)) {
		if !slices.Contains(given, name) && !strings.HasPrefix(name, ".") {
			t.Errorf("%s is not one of the top-level folders", name)
		}
	}
}

func TestImportsPointDownwards(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		part := partOf(path)
		if part == "" {
			if path != strings.TrimSuffix(module, "/") {
				t.Errorf("%s belongs to no part of the module", path)
			}
			continue
		}
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module)
			if !ours {
				continue
			}
			target := partOf(to)
			allowed := slices.Contains(may[part], target) || part == target ||
				part == "cmd" && strings.HasPrefix(target, "node/")
			if !allowed {
				t.Errorf("%s may not import %s", path, to)
			}
		}
	}
}

// docs/architecture.md must list every package: by its path, or by name in the row of the
// folder that it is in.
func TestArchitectureListsEveryPackage(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // by folder
	for row := range strings.Lines(string(text)) {
		if cells := strings.Split(row, "|"); len(cells) == 4 {
			rows[strings.Trim(cells[1], " `")] = cells[2]
		}
	}
	for _, p := range packages(t) {
		if p.ImportPath == strings.TrimSuffix(module, "/") {
			continue
		}
		at := strings.TrimPrefix(p.ImportPath, module)
		folder := at
		for rows[folder] == "" && folder != "." {
			folder = path.Dir(folder)
		}
		if rows[folder] == "" || folder != at && !strings.Contains(rows[folder], "`"+path.Base(at)+"/`") {
			t.Errorf("docs/architecture.md does not list %s", at)
		}
	}
}

// Consensus is an implementation detail of registry.
func TestOnlyRegistryImportsRaft(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, "github.com/hashicorp/raft") && path != "registry" {
				t.Errorf("%s imports %s", path, imported)
			}
		}
	}
}

func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.Doc) < 20 && p.ImportPath != strings.TrimSuffix(module, "/") {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
		name := p.ImportPath[strings.LastIndex(p.ImportPath, "/")+1:]
		if slices.Contains([]string{"util", "utils", "common", "helpers", "types"}, name) {
			t.Errorf("%s has a name that says nothing", p.ImportPath)
		}
	}
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)

// testsIn returns the names of the tests in a folder.
func testsIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// The tests that documents name must exist.
func TestDocumentsNameExistingTests(t *testing.T) {
	exist := map[string]bool{}
	var documents []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir():
			for _, name := range testsIn(t, path) {
				exist[name] = true
			}
		case strings.HasSuffix(path, ".md"):
			documents = append(documents, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")
	found := 0
	for _, document := range documents {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if found++; !exist[m[1]] {
				t.Errorf("%s names %s, which does not exist", document, m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("found %d names of tests in %d documents, want at least 50", found, len(documents))
	}
}
