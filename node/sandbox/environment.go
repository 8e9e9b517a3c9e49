package sandbox

import (
	"os"
	"strings"
)

// inherited lists the variables that a kernel gets from the node's own environment. Any
// other may contain a secret.
var inherited = []string{"PATH", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "SHELL"}

// threadVariables keep numeric libraries from starting threads, which do not survive a fork.
var threadVariables = []string{
	"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
	"NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "BLIS_NUM_THREADS",
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environment returns the environment of kernels: the inherited variables of the node's own
// environment, and what every kernel needs. HOME and PWD are the workspace. The caller may
// change the slice.
func Environment(workspace string) []string {
	var env []string
	path := false
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if !isInherited(name) || value == "" {
			continue
		}
		path = path || name == "PATH"
		env = append(env, v)
	}
	if !path {
		env = append(env, "PATH="+defaultPath)
	}
	env = append(env, "HOME="+workspace, "PWD="+workspace, "TERM=dumb")
	for _, name := range threadVariables {
		env = append(env, name+"=1")
	}
	return env
}

func isInherited(name string) bool {
	if strings.HasPrefix(name, "LC_") {
		return true
	}
	for _, n := range inherited {
		if n == name {
			return true
		}
	}
	return false
}
