package shell

import (
	"regexp"
	"strings"
)

// exitTrap matches code that looks like it sets an EXIT trap.
var exitTrap = regexp.MustCompile(`\btrap\b(?s:.*)\b(?i:EXIT|SIGEXIT|0)\b`)

// setsExitTrap reports whether a program seems to set an EXIT trap. A false positive only
// adds a function named trap to the session. After a false negative the caller's trap
// replaces ours; if code then leaves the shell, the session is lost, and the caller is
// told so.
func setsExitTrap(code string) bool { return exitTrap.MatchString(code) }

// setsTraps reports whether a program may set traps. After such a program, a shell without
// the loadable builtin checks before each call that SIGINT would still end only the call.
func setsTraps(code string) bool { return strings.Contains(code, "trap") }
