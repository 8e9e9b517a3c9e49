package shell

import (
	"bytes"
	"regexp"
	"strings"
)

// shInternal are variables that a POSIX shell changes itself.
var shInternal = set("_ LINENO OLDPWD OPTIND PPID PWD")

// parseSh parses the sections of a POSIX shell's dump: the working directory, set, alias,
// and command -V for each name that may be a function.
func parseSh(dump []byte) (*snapshot, error) {
	part, err := sections(dump, 4)
	if err != nil {
		return nil, err
	}
	s := &snapshot{
		cwd:       strings.TrimSuffix(string(part[0]), "\n"),
		variables: bare(part[1], shInternal),
		functions: make(map[string][]byte),
		aliases:   bare(part[2], nil),
	}
	for name, value := range s.aliases {
		if bytes.Contains(value, []byte(ours)) {
			delete(s.aliases, name)
		}
	}
	for line := range bytes.Lines(part[3]) {
		if name, ok := strings.CutSuffix(strings.TrimSuffix(string(line), "\n"), " is a shell function"); ok {
			s.functions[name] = nil
		}
	}
	return s, nil
}

// bare parses lines of assignments without a command in front.
func bare(text []byte, internal map[string]bool) map[string][]byte {
	found := make(map[string][]byte)
	for i := 0; i < len(text); {
		end := wordEnd(text, i)
		name, value, ok := bytes.Cut(text[i:end], []byte{'='})
		i = end + 1
		if n := string(name); ok && n != "" && !strings.HasPrefix(n, ours) && !internal[n] {
			found[n] = value
		}
	}
	return found
}

// functionLike matches what looks like the head of a function definition.
var functionLike = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)[ \t]*\([ \t]*\)`)

// maxFunctions bounds the number of names in definitions.
const maxFunctions = 4096

// definitions are the names of functions that programs seem to have defined, with the
// number of the last call that did, for shells that cannot list their functions.
type definitions map[string]uint64

// note records the names in a program and reports whether one of them was new.
func (d definitions) note(code string, seq uint64) (grown bool) {
	for _, m := range functionLike.FindAllStringSubmatch(code, -1) {
		_, had := d[m[1]]
		if !had && len(d) >= maxFunctions {
			continue
		}
		d[m[1]] = seq
		grown = grown || !had
	}
	return grown
}
