package checkup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// askWithin bounds the question for an interpreter's version.
const askWithin = 10 * time.Second

// interpreters has the program for each language, and the arguments that print its version.
// For shells without them only the program is looked up.
var interpreters = map[surfaces.Language]struct {
	program  string
	version  []string
	required bool
	advice   string
}{
	surfaces.Python:     {"python3", []string{"-I", "-c", "import platform; print(platform.python_version())"}, true, "install Python 3.10 or later"},
	surfaces.Bash:       {"bash", []string{"--norc", "--noprofile", "-c", `echo "$BASH_VERSION"`}, true, "install bash"},
	surfaces.Zsh:        {"zsh", []string{"-f", "-c", `echo "$ZSH_VERSION"`}, false, "install zsh if you want it"},
	surfaces.Sh:         {"sh", nil, true, "install a POSIX shell"},
	surfaces.PowerShell: {"pwsh", []string{"-NoProfile", "-NonInteractive", "-Command", "$PSVersionTable.PSVersion.ToString()"}, false, "install PowerShell if you want it"},
}

// Languages checks each language of the contract with a search path.
func Languages(ctx context.Context, path string) []Check {
	var checks []Check
	for _, language := range surfaces.Languages() {
		in := interpreters[language]
		check := Check{Name: "language " + string(language), Required: in.required, Advice: in.advice}
		program, ok := find(in.program, path)
		if !ok {
			check.Detail = fmt.Sprintf("no %s on the search path", in.program)
			checks = append(checks, check)
			continue
		}
		check.Detail, check.OK = program, true
		if in.version != nil {
			if version, err := ask(ctx, program, in.version); err != nil {
				check.OK, check.Detail = false, fmt.Sprintf("%s does not run: %v", program, err)
			} else {
				check.Detail = program + ", " + version
				check.OK = language != surfaces.Python || newEnough(version)
			}
		}
		if check.OK {
			check.Advice = ""
		}
		checks = append(checks, check)
	}
	return checks
}

func ask(ctx context.Context, program string, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// newEnough reports whether kernels support a version of Python.
func newEnough(version string) bool {
	var major, minor int
	if n, err := fmt.Sscanf(version, "%d.%d", &major, &minor); n != 2 || err != nil {
		return false
	}
	return major > 3 || major == 3 && minor >= 10
}

// find looks up an executable in a search path, which need not be this process's.
func find(program, path string) (string, bool) {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		name := filepath.Join(dir, program)
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return name, true
		}
	}
	return "", false
}
