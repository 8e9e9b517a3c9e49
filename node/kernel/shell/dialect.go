package shell

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/locusrun/locus/node/kernel/shell/command"
	"github.com/locusrun/locus/surfaces"
)

var (
	//go:embed boot/session.bash
	bashFunctions string
	//go:embed boot/session.sh
	shFunctions string
	//go:embed boot/session.zsh
	zshFunctions string
)

// dialect describes how one kind of shell differs from the others.
type dialect struct {
	name string
	// functions is the script that defines a session's own functions.
	functions string
	// argv returns the command line of a session's root, which forks the session; once
	// that of a one-shot.
	argv func(dir string) []string
	once func(dir string) []string
	// codeInFile is set if the shell cannot read a given number of bytes from a pipe.
	// The code is then put into a file.
	codeInFile bool
	// parse reads a dump of the shell's state.
	parse func(dump []byte) (*snapshot, error)
}

// bootScript returns the script that the root of a session reads first: the functions,
// and the control directories and tokens of the root and of the session. It is passed in
// a file that is removed at once, because every process can read a command line.
func (d *dialect) bootScript(root, session *control) string {
	return fmt.Sprintf(`%s
__locus_dir=%s __locus_token=%s
__locus_enter() {
	unset -f __locus_enter
	__locus_dir=%s __locus_token=%s
}
`, d.functions, quote(root.dir.path), root.token, quote(session.dir.path), session.token)
}

// quote quotes a text as one word for any shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Each script is a single line. The caller's code is evaluated in line 1, so the line
// numbers in the shell's messages are those of the caller's code.
const (
	bashRoot = `. "$1/boot"; set --; shopt -s expand_aliases; __locus_watch; ` +
		`( :; ( trap - $__locus_signals; __locus_enter; __locus_adopt; eval "$__locus_loop" ); : ); __locus_park`
	bashOnce = `shopt -s expand_aliases; { builtin read -r -N 64 __locus_head; __locus_code=; ` +
		`if [[ ${__locus_head:24:8} == *w* ]]; then LC_ALL=C builtin read -r -N "$((10#${__locus_head:13:10}))" __locus_code; ` +
		`else builtin read -r -N "$((10#${__locus_head:13:10}))" __locus_code; fi; } <"$1/req"; ` +
		`if [[ ${__locus_head:24:8} == *i* ]]; then exec <"$1/i0"; fi; exec >"$1/o0" 2>"$1/e0"; ` +
		`export __locus_caller=${__locus_head:45:18}; set --; unset __locus_head; eval "$__locus_code"`
	zshRoot = `. "$1/boot"; set --; __locus_watch; ` +
		`( :; ( __locus_enter; eval "$__locus_serve" ); : ); __locus_park`
	zshOnce = `zmodload zsh/system; sysopen -r -u __locus_fd -- "$1/req"; ` +
		`() { emulate -L zsh; unsetopt multibyte; local part; ` +
		`sysread -i $__locus_fd -s 64 __locus_head; integer n="10#${__locus_head[14,23]}"; __locus_code=; ` +
		`while (( n > 0 )); do sysread -i $__locus_fd -s $n part || exit 1; __locus_code+=$part; (( n -= $#part )); done; ` +
		`exec {__locus_fd}<&-; }; ` +
		`if [[ $__locus_head[25,32] == *i* ]]; then exec <"$1/i0"; fi; exec >"$1/o0" 2>"$1/e0"; ` +
		`export __locus_caller=$__locus_head[46,63]; set --; unset __locus_head __locus_fd; eval "$__locus_code"`
	shRoot = `. "$1/boot"; set --; __locus_watch; ` +
		`( :; ( __locus_enter; __locus_adopt; eval "$__locus_loop" ); : ); __locus_park`
	shOnce = `read -r __locus_head <"$1/req"; __locus_head=${__locus_head%?}; __locus_dir=$1; set --; ` +
		`case $__locus_head in *i*) exec <"$__locus_dir/i0";; esac; export __locus_caller="${__locus_head##* }"; ` +
		`exec >"$__locus_dir/o0" 2>"$__locus_dir/e0"; __locus_code=$(command -p cat "$__locus_dir/c0"); ` +
		`unset __locus_head __locus_dir; eval "$__locus_code"`
)

// dialectOf returns the dialect for a language.
func dialectOf(language surfaces.Language) (*dialect, error) {
	switch language {
	case surfaces.Bash:
		return &dialect{
			name: "bash", functions: bashFunctions,
			argv: func(dir string) []string {
				return []string{"bash", "--noprofile", "--norc", "-c", bashRoot, "bash", dir}
			},
			once: func(dir string) []string {
				return []string{"bash", "--noprofile", "--norc", "-c", bashOnce, "bash", dir}
			},
			parse: parseBash,
		}, nil
	case surfaces.Zsh:
		return &dialect{
			name: "zsh", functions: zshFunctions,
			argv: func(dir string) []string {
				return []string{"zsh", "-f", "-c", zshRoot, "zsh", dir}
			},
			once:  func(dir string) []string { return []string{"zsh", "-f", "-c", zshOnce, "zsh", dir} },
			parse: parseZsh,
		}, nil
	case surfaces.Sh:
		return &dialect{
			name: "sh", functions: shFunctions,
			argv: func(dir string) []string {
				return []string{"sh", "-c", shRoot, "sh", dir}
			},
			once:       func(dir string) []string { return []string{"sh", "-c", shOnce, "sh", dir} },
			codeInFile: true,
			parse:      parseSh,
		}, nil
	}
	return nil, fmt.Errorf("shell: no kernel speaks %q", language)
}

// environment removes the variables that make a shell read files at its start or change
// its behaviour, and appends the door, the directory of the command "primitives", to PATH.
func environment(env []string, door string) []string {
	kept := make([]string, 0, len(env)+1)
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "PATH":
			e = "PATH=" + value + ":" + door
		case "BASH_ENV", "ENV", "ZDOTDIR", "POSIXLY_CORRECT", "SHELLOPTS", "BASHOPTS":
			continue
		}
		if strings.HasPrefix(name, "__locus_") || strings.HasPrefix(name, "BASH_FUNC_") {
			continue
		}
		kept = append(kept, e)
	}
	return append(kept, command.DoorVariable+"="+door)
}
