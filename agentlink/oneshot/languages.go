package oneshot

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// minMinor is the minor version of the oldest supported Python 3.
const minMinor = 9

// probeLimit bounds how long a Python may take to print its version.
const probeLimit = 10 * time.Second

// find returns the paths of the languages that this machine has.
func find(ctx context.Context) map[surfaces.Language]string {
	found := make(map[surfaces.Language]string)
	for _, name := range []string{"python3", "python"} {
		path, err := exec.LookPath(name)
		if err != nil || isPlaceholder(ctx, path) {
			continue
		}
		if path, err = askPython(ctx, path); err == nil {
			found[surfaces.Python] = path
			break
		}
	}
	for language, names := range map[surfaces.Language][]string{
		surfaces.Bash: {"bash"}, surfaces.Sh: {"sh"}, surfaces.Zsh: {"zsh"}, surfaces.PowerShell: {"pwsh", "powershell"},
	} {
		if runtime.GOOS == "windows" && language != surfaces.PowerShell {
			continue // bash on Windows is that of another system, with other files
		}
		for _, name := range names {
			path, err := exec.LookPath(name)
			if err == nil {
				path, err = filepath.Abs(path)
			}
			if err == nil {
				found[language] = path
				break
			}
		}
	}
	return found
}

// isPlaceholder reports whether a python only offers to install Python, in a window.
func isPlaceholder(ctx context.Context, path string) bool {
	switch {
	case runtime.GOOS == "darwin" && path == "/usr/bin/python3":
		return exec.CommandContext(ctx, "/usr/bin/xcode-select", "-p").Run() != nil
	case runtime.GOOS == "windows":
		return strings.Contains(strings.ToLower(path), `\microsoft\windowsapps\`)
	}
	return false
}

var errOldPython = errors.New("the Python found is too old")

// askPython returns the real interpreter behind shims and links, which start more slowly.
func askPython(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-I", "-S", "-c", "import sys; print(sys.version_info[0], sys.version_info[1], sys.executable)").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", path, err)
	}
	var major, minor int
	if _, err := fmt.Sscan(string(out), &major, &minor); err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", path, err)
	}
	if major != 3 || minor < minMinor {
		return "", errOldPython
	}
	_, rest, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	_, executable, _ := strings.Cut(rest, " ")
	return executable, nil
}
