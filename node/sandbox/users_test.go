package sandbox

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// nobody is the ordinary user of these tests.
const nobody = 65534

// asNobody runs this package's tests as an ordinary user, started by a shell that
// runs first and may use "$@" for the rest.
func asNobody(t *testing.T, first string) {
	setpriv, err := exec.LookPath("setpriv")
	if os.Geteuid() != 0 || err != nil {
		t.Skipf("only root can become another user, and with setpriv: %v", err)
	}
	dir := t.TempDir()
	// The directory above it is closed to other users.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	copyOf := filepath.Join(dir, "tests")
	copySelf(t, copyOf)
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "/bin/sh", "-c", first+`; exec "$@"`, "sh", setpriv,
		"--reuid", itoa(nobody), "--regid", itoa(nobody), "--clear-groups", "--", copyOf, "-test.short", "-test.v")
	run.Dir = home
	run.Env = []string{"PATH=" + defaultPath, "TMPDIR=" + home, "HOME=" + home}
	out, err := run.CombinedOutput()
	text := string(out)
	if err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
	if !strings.Contains(text, "--- PASS: TestKillLeavesNothing") {
		t.Errorf("the tests did not run:\n%s", text)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "--- SKIP") || strings.Contains(line, "namespaces for a container") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

func copySelf(t *testing.T, to string) {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(f, from)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestOrdinaryUser(t *testing.T) { asNobody(t, ":") }

// TestOrdinaryUserWithDelegatedCgroup gives the user a v2 control group of its
// own, as a service manager does.
func TestOrdinaryUserWithDelegatedCgroup(t *testing.T) {
	base := findCgroupBase()
	if os.Geteuid() != 0 || base.unified == "" {
		t.Skip("no v2 control group can be made here")
	}
	dir, err := os.MkdirTemp(base.unified, "test-delegated-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeCgroup(dir); err != nil {
			t.Error(err)
		}
	})
	for _, path := range []string{dir, dir + "/cgroup.procs", dir + "/cgroup.subtree_control", dir + "/cgroup.threads"} {
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(t, "echo $$ > "+dir+"/cgroup.procs")
}
