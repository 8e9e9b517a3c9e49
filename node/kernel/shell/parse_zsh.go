package shell

import (
	"bytes"
	"strings"
)

// zshInternal are variables that zsh changes itself and that their type does not show as
// such.
var zshInternal = set(`_ 0 PWD OLDPWD SHLVL PPID zshexit_functions signals watch WATCH WATCHFMT
	LOGCHECK ZSH_EXECUTION_STRING TTY`)

// parseZsh parses a zsh's dump, in which an empty item ends each section: the working
// directory, the types of the parameters, typeset -p, functions, aliases.
func parseZsh(dump []byte) (*snapshot, error) {
	items := bytes.Split(dump, []byte{0})
	next := func() (section [][]byte, ok bool) {
		for i, item := range items {
			if len(item) == 0 {
				section, items = items[:i], items[i+1:]
				return section, true
			}
		}
		return nil, false
	}
	var part [5][][]byte
	for i := range part {
		var ok bool
		if part[i], ok = next(); !ok {
			return nil, errDump
		}
	}
	if len(items) != 1 || len(items[0]) != 0 || len(part[0]) != 1 || len(part[2]) > 1 {
		return nil, errDump
	}
	s := &snapshot{
		cwd:       strings.TrimSuffix(string(part[0][0]), "\n"),
		variables: make(map[string][]byte),
		functions: pairs(part[3]),
		aliases:   pairs(part[4]),
	}
	types := pairs(part[1])
	for _, text := range part[2] {
		for name, value := range tied(text) {
			if strings.Contains(string(types[name]), "export") {
				s.variables[name] = value
			}
		}
		for _, command := range []string{"typeset", "export", "readonly"} {
			for name, value := range assignments(text, command, zshInternal) {
				kind := string(types[name])
				if strings.Contains(kind, "hideval") || strings.Contains(kind, "special") && !strings.Contains(kind, "export") {
					continue
				}
				s.variables[name] = value
			}
		}
	}
	return s, nil
}

// pairs makes a map from alternating names and values, without the kernel's own names.
// Each item has a character in front, so that none is empty.
func pairs(items [][]byte) map[string][]byte {
	m := make(map[string][]byte, len(items)/2)
	for i := 0; i+1 < len(items); i += 2 {
		if len(items[i]) == 0 || len(items[i+1]) == 0 {
			continue
		}
		if name := string(items[i][1:]); !strings.HasPrefix(name, ours) {
			m[name] = items[i+1][1:]
		}
	}
	return m
}

// tied parses lines such as `export -T PATH path=( /bin /usr/bin )`, in which the scalar's
// name comes before the array's.
func tied(text []byte) map[string][]byte {
	m := make(map[string][]byte)
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte("export -T "))
		if !ok {
			continue
		}
		name, array, _ := bytes.Cut(rest, []byte{' '})
		_, list, _ := bytes.Cut(array, []byte("=("))
		list = bytes.TrimSuffix(bytes.TrimSpace(list), []byte{')'})
		m[string(name)] = bytes.Join(bytes.Fields(list), []byte{':'})
	}
	return m
}
