// Package sandboxtest runs tests as another user.
package sandboxtest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Nobody is the ordinary user that AsNobody becomes.
const Nobody = 65534

// AsNobody runs the tests of the calling package once more, as an ordinary user, with the
// given flags of the test program. It skips t if this process cannot become another user. A
// shell runs first, a command line, before the tests. AsNobody fails t if the tests fail,
// and returns what they print.
func AsNobody(t *testing.T, first string, flags ...string) string {
	t.Helper()
	setpriv, err := exec.LookPath("setpriv")
	if os.Geteuid() != 0 || err != nil {
		t.Skipf("only root can become another user, and with setpriv: %v", err)
	}
	dir := t.TempDir()
	// The directory above it is closed to other users.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	tests, home := filepath.Join(dir, "tests"), filepath.Join(dir, "home")
	if err := copySelf(tests); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(home, 0o755), os.Chown(home, Nobody, Nobody)); err != nil {
		t.Fatal(err)
	}
	id := strconv.Itoa(Nobody)
	args := []string{"-c", first + `; exec "$@"`, "sh", setpriv, "--reuid", id, "--regid", id, "--clear-groups", "--", tests, "-test.v"}
	run := exec.CommandContext(t.Context(), "/bin/sh", append(args, flags...)...)
	run.Dir = home
	run.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=" + home, "HOME=" + home}
	out, err := run.CombinedOutput()
	text := string(out)
	if err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "--- SKIP") || strings.Contains(line, "namespaces for a container") {
			t.Log(strings.TrimSpace(line))
		}
	}
	return text
}

// copySelf copies this program to a path, so that another user can execute it.
func copySelf(to string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
