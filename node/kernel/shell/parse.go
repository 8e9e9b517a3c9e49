package shell

import (
	"bytes"
	"errors"
	"strings"
)

// ours is the prefix of all names that the kernel defines in a shell.
const ours = "__locus_"

// errDump is the error of a malformed dump of the state, which happens if the code has
// replaced a builtin.
var errDump = errors.New("the shell's account of its state cannot be read")

// sections splits a dump at its NUL bytes, which no value in a shell can contain.
func sections(dump []byte, n int) ([][]byte, error) {
	parts := bytes.Split(dump, []byte{0})
	if len(parts) != n+1 || len(parts[n]) != 0 {
		return nil, errDump
	}
	return parts[:n], nil
}

// bashInternal are variables that bash changes itself or that describe the call and not
// the session.
var bashInternal = set(`_ BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS
	BASH_COMMAND BASH_EXECUTION_STRING BASH_LINENO BASH_REMATCH BASH_SOURCE BASH_SUBSHELL
	BASH_VERSINFO BASH_VERSION COMP_WORDBREAKS DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME
	GROUPS HISTCMD HOSTNAME HOSTTYPE LINENO MACHTYPE OLDPWD OPTERR OPTIND OSTYPE PIPESTATUS
	PPID PWD RANDOM SECONDS SHELLOPTS SHLVL SRANDOM UID`)

func set(words string) map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

// parseBash parses the sections of a bash's dump: the working directory, declare -p,
// declare -F, declare -f and alias -p.
func parseBash(dump []byte) (*snapshot, error) {
	part, err := sections(dump, 5)
	if err != nil {
		return nil, err
	}
	return &snapshot{
		cwd:       strings.TrimSuffix(string(part[0]), "\n"),
		variables: assignments(part[1], "declare", bashInternal),
		functions: bashBodies(part[2], part[3]),
		aliases:   assignments(part[4], "alias", nil),
	}, nil
}

// assignments parses lines such as `declare -x name="value"`: a command, options, and an
// assignment or only a name.
func assignments(text []byte, command string, internal map[string]bool) map[string][]byte {
	found := make(map[string][]byte)
	for i := 0; i < len(text); {
		start := i
		var words [][]byte
		for i < len(text) && text[i] != '\n' {
			end := wordEnd(text, i)
			if end > i {
				words = append(words, text[i:end])
			}
			i = end
			for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
				i++
			}
		}
		i++
		if len(words) < 2 || string(words[0]) != command {
			continue
		}
		last := words[len(words)-1]
		name, value, assigned := bytes.Cut(last, []byte{'='})
		if !assigned {
			// A name without a value is represented by its attributes.
			value = bytes.Join(words[1:len(words)-1], []byte{' '})
		}
		n := string(name)
		if text, ok := unquote(name); ok {
			n = text
		}
		if strings.HasPrefix(n, ours) || internal[n] || start == i {
			continue
		}
		found[n] = value
	}
	return found
}

// bashBodies splits the output of declare -f by the names in declare -F, which are in the
// same order.
func bashBodies(names, bodies []byte) map[string][]byte {
	found := make(map[string][]byte)
	var last string
	keep := func(body []byte) {
		if last != "" && !strings.HasPrefix(last, ours) {
			found[last] = body
		}
	}
	for line := range bytes.Lines(names) {
		f := bytes.Fields(line)
		if len(f) != 3 {
			continue
		}
		name := string(f[2])
		at := functionStart(bodies, name)
		if at < 0 {
			continue
		}
		keep(bodies[:at])
		bodies = bodies[at:]
		last = name
	}
	keep(bodies)
	// A function trap can be the kernel's own wrapper.
	if bytes.Contains(found["trap"], []byte("__locus_user_exit")) {
		delete(found, "trap")
	}
	return found
}

// functionStart returns where the function starts in the output of declare -f, or -1.
func functionStart(bodies []byte, name string) int {
	for _, form := range []string{name + " () \n", "function " + name + " () \n"} {
		if bytes.HasPrefix(bodies, []byte(form)) {
			return 0
		}
		if at := bytes.Index(bodies, []byte("\n"+form)); at >= 0 {
			return at + 1
		}
	}
	return -1
}
