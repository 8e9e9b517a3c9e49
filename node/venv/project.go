package venv

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// project is the part of a pyproject.toml that describes an environment. The rest, such as how
// to build the project's own package, is ignored: the project has no other files.
type project struct {
	requires string // requires-python; empty if it is missing
	document map[string]any
}

// Check checks that a text can describe an environment, without building it. The error is a
// *BuildError with the reason Invalid.
func Check(text string) error {
	_, err := parseProject(text)
	return err
}

func invalid(format string, args ...any) error {
	return &BuildError{Reason: Invalid, Message: "the pyproject.toml cannot be an environment: " + fmt.Sprintf(format, args...)}
}

// projectKeys are the keys of the project table that are used.
var projectKeys = []string{"name", "requires-python", "dependencies", "optional-dependencies"}

func parseProject(text string) (*project, error) {
	if len(text) > MaxText {
		return nil, invalid("it has %d bytes, and may have %d", len(text), MaxText)
	}
	var all map[string]any
	if _, err := toml.Decode(text, &all); err != nil {
		var bad toml.ParseError
		if errors.As(err, &bad) {
			return nil, invalid("line %d: %s", bad.Position.Line, bad.Message)
		}
		return nil, invalid("%v", err)
	}
	doc := map[string]any{}
	if groups, ok := all["dependency-groups"]; ok {
		if err := checkRequirements(groups); err != nil {
			return nil, err
		}
		doc["dependency-groups"] = groups
	}
	p := &project{document: doc}
	if err := p.takeProject(all); err != nil {
		return nil, err
	}
	return p, p.takeSettings(all)
}

// takeProject copies the project table, and adds the name and the version that uv requires.
func (p *project) takeProject(all map[string]any) error {
	given, ok := all["project"].(map[string]any)
	if !ok && (all["project"] != nil || all["dependency-groups"] == nil) {
		return invalid(`it has no [project] table; write at least:
[project]
dependencies = ["NAME"]`)
	}
	if dynamic, ok := given["dynamic"].([]any); ok && slices.Contains(dynamic, any("dependencies")) {
		return invalid("its dependencies are dynamic, which needs files that are not there; list them in project.dependencies")
	}
	table := map[string]any{"name": "environment", "version": "0"}
	for _, key := range projectKeys {
		if v, ok := given[key]; ok {
			table[key] = v
		}
	}
	if name, ok := table["name"].(string); !ok || !goodName.MatchString(name) {
		return invalid("%q is not a project's name; leave it out, or take letters, digits and - . _", table["name"])
	}
	if v, ok := table["requires-python"]; ok {
		if p.requires, ok = v.(string); !ok || !goodVersions.MatchString(p.requires) {
			return invalid(`requires-python is %v; write it as ">=3.10" or ">=3.8,<3.12"`, v)
		}
	}
	p.document["project"] = table
	return errors.Join(checkRequirements(table["dependencies"]), checkRequirements(table["optional-dependencies"]))
}

// The syntax of names, version bounds and requirements that uv accepts. For others uv treats
// the metadata as unknown and tries to build the project, with an error that does not name the
// cause.
var (
	goodName        = regexp.MustCompile(`^` + namePattern + `$`)
	goodVersions    = regexp.MustCompile(`^\s*` + versionsPattern + `\s*$`)
	goodRequirement = regexp.MustCompile(`^\s*` + namePattern + `\s*(\[[^\]]*\])?\s*(@.*|(` + versionsPattern + `|\(\s*` + versionsPattern + `\s*\))?\s*(;.*)?)$`)
)

const (
	namePattern     = `[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?`
	versionsPattern = versionPattern + `(\s*,\s*` + versionPattern + `)*(\s*,)?`
	versionPattern  = `(===\s*[A-Za-z0-9.*+!_-]+|(~=|==|!=|<=|>=|<|>)\s*` + numberPattern + `)`
	// numberPattern is a version by PEP 440, or the prefix of one.
	numberPattern = `(?i:v?([0-9]+!)?[0-9]+(\.[0-9]+)*([-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?[0-9]*)?` +
		`(-[0-9]+|[-_.]?(post|rev|r)[-_.]?[0-9]*)?([-_.]?dev[-_.]?[0-9]*)?(\.\*|\+[a-z0-9]+([-_.][a-z0-9]+)*)?)`
)

// checkRequirements checks all requirements in a list or in a table of lists.
func checkRequirements(v any) error {
	switch v := v.(type) {
	case map[string]any:
		for name, list := range v {
			if _, ok := list.([]any); !ok {
				return invalid("the requirements of %s are not a list", name)
			}
			if err := checkRequirements(list); err != nil {
				return err
			}
		}
	case []any:
		for _, one := range v {
			switch one := one.(type) {
			case string:
				if !goodRequirement.MatchString(one) {
					return invalid(`%q is not a requirement; write it as "NAME" or "NAME>=1.2,<2"`, one)
				}
			case map[string]any: // a group that is included
			default:
				return invalid("%v is not a requirement", one)
			}
		}
	case nil:
	default:
		return invalid("%#v stands where a list of requirements should", v)
	}
	return nil
}

// takeSettings copies the settings of uv, except those that would run a build on the node or
// need other files.
func (p *project) takeSettings(all map[string]any) error {
	tool, _ := all["tool"].(map[string]any)
	uv, _ := tool["uv"].(map[string]any)
	settings := map[string]any{}
	for key, v := range uv {
		switch key {
		case "workspace":
			return invalid("tool.uv.workspace needs files beside it, and there are none")
		case "cache-dir", "build-backend":
		case "sources":
			if err := checkSources(v); err != nil {
				return err
			}
			fallthrough
		default:
			settings[key] = v
		}
	}
	settings["package"] = false
	p.document["tool"] = map[string]any{"uv": settings}
	return nil
}

// checkSources refuses sources that are folders: building one would run its code on the node,
// and other nodes do not have it.
func checkSources(v any) error {
	sources, _ := v.(map[string]any)
	for name, source := range sources {
		var each []any
		switch s := source.(type) {
		case []map[string]any:
			for _, one := range s {
				each = append(each, one)
			}
		case []any:
			each = s
		default:
			each = []any{s}
		}
		for _, one := range each {
			table, _ := one.(map[string]any)
			path, isPath := table["path"].(string)
			if table["workspace"] != nil || table["editable"] != nil || isPath && !strings.HasSuffix(path, ".whl") {
				return invalid("the source of %s is a folder; only an index, a URL, git or the path of a wheel can be one", name)
			}
		}
	}
	return nil
}

// render returns the pyproject.toml for uv. requires is the default for requires-python.
func (p *project) render(requires string) ([]byte, error) {
	if p.requires == "" && requires != "" {
		table := p.document["project"].(map[string]any)
		table["requires-python"] = requires
		defer delete(table, "requires-python")
	}
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(p.document); err != nil {
		return nil, fmt.Errorf("venv: write the pyproject.toml: %w", err)
	}
	return b.Bytes(), nil
}

// requiresOf reads the requires-python of a lock; empty if it has none.
func requiresOf(lock []byte) string {
	var l struct {
		Requires string `toml:"requires-python"`
	}
	if _, err := toml.Decode(string(lock), &l); err != nil {
		return "" // uv reports what is wrong with it
	}
	return l.Requires
}
