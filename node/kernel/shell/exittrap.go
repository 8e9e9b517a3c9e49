package shell

import (
	"regexp"
	"strings"
)

// exitTrap matches what looks like setting a trap on the shell's end.
var exitTrap = regexp.MustCompile(`\btrap\b(?s:.*)\b(?i:EXIT|SIGEXIT|0)\b`)

// setsExitTrap says whether a program seems to set an EXIT trap. A wrong yes
// costs nothing but a function named trap in the session; after a wrong no, the
// caller's trap takes the place of ours, and code that then leaves the shell
// loses the session, which is told.
func setsExitTrap(code string) bool { return exitTrap.MatchString(code) }

// setsTraps says whether a program may set traps. After one that may, a pure shell
// sees before each call whether a SIGINT would still end the call and not the shell.
func setsTraps(code string) bool { return strings.Contains(code, "trap") }
