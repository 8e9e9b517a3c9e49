package sandbox

import (
	"os"
	"testing"
)

func TestProbe(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	checks := Probe(t.Context())
	byName := map[string]Check{}
	for _, c := range checks {
		t.Logf("%-24s %-5v %s %s", c.Name, c.OK, c.Detail, c.Advice)
		if c.Name == "" || c.Detail == "" || c.OK && c.Advice != "" {
			t.Errorf("%+v", c)
		}
		byName[c.Name] = c
	}
	if len(byName) != len(checks) {
		t.Error("a name comes twice")
	}
	for _, must := range []string{"freeze and kill", "nothing left behind"} {
		if !byName[must].OK {
			t.Errorf("%+v", byName[must])
		}
	}
	// What the probe says must be what containers get.
	c := open(t)
	if e := c.Enforced(); byName["pid namespace"].OK != e.PIDNamespace || byName["overlay views"].OK != e.Views ||
		byName["process limit"].OK != (e.GroupProcesses != "") || byName["memory limit"].OK != (e.Memory != BySampling) {
		t.Errorf("the probe and a container do not agree: %+v", e)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 1 { // the container of this test
		t.Errorf("left behind: %v, %v", left, err)
	}
}
