package sandbox

import (
	"os"
	"strings"
	"testing"

	"github.com/locusrun/locus/node/sandbox/sandboxtest"
)

// asNobody runs this package's tests as an ordinary user.
func asNobody(t *testing.T, first string) {
	out := sandboxtest.AsNobody(t, first, "-test.short")
	for _, name := range []string{"TestKillLeavesNothing", "TestViewsAreAMatterOfMounts"} {
		if !strings.Contains(out, "--- PASS: "+name) {
			t.Errorf("the test %s did not pass:\n%s", name, out)
		}
	}
}

// Whoever has mounts of its own can give copies their own view of the disk. Ordinary users
// could not.
func TestViewsAreAMatterOfMounts(t *testing.T) {
	if e := open(t).Enforced(); e.MountNamespace && !e.Views {
		t.Errorf("got no views of the disk: %q", e.Notes)
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
		if err := os.Chown(path, sandboxtest.Nobody, sandboxtest.Nobody); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(t, "echo $$ > "+dir+"/cgroup.procs")
}
