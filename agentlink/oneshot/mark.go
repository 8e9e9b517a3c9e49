package oneshot

import (
	"crypto/rand"
	"strings"
)

// markName is the environment variable that marks the processes of one program.
const markName = "LOCUS_ONESHOT"

func newMark() string { return markName + "=" + rand.Text() }

// environment removes variables of the agent, and those that change how a shell starts or
// behaves.
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
