package oneshot

import (
	"crypto/rand"
	"strings"
)

// markName is the variable by which what a program has started is known for its own.
const markName = "LOCUS_ONESHOT"

func newMark() string { return markName + "=" + rand.Text() }

// environment takes away what is the agent's own, and what would make a shell read files
// at its start or behave in another way.
func environment(env []string) []string {
	kept := make([]string, 0, len(env)+2)
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "BASH_ENV", "ENV", "ZDOTDIR", "POSIXLY_CORRECT", "SHELLOPTS", "BASHOPTS":
			continue
		}
		if !strings.HasPrefix(name, "LOCUS_") && !strings.HasPrefix(name, "__locus_") && !strings.HasPrefix(name, "BASH_FUNC_") {
			kept = append(kept, e)
		}
	}
	return kept
}
