package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"testing"
	"time"
)

// What one agent keeps in shared memory no other sees, and nothing is left of it.
func TestSharedMemoryIsAContainersOwn(t *testing.T) {
	name := fmt.Sprintf("/dev/shm/locus-test-own-%d", os.Getpid())
	says := func(c *Container, script string) string {
		t.Helper()
		p, out := shell(t, c, newGroup(t, c, Limits{}), script)
		if err := out.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, p.Done(), "the script's end")
		return line
	}
	alice, bob := open(t), open(t)
	if !alice.Enforced().OwnShm {
		t.Skip("not on this machine: ", alice.Enforced().Notes)
	}
	if got := says(alice, "echo secret > "+name+" && cat "+name); got != "secret\n" {
		t.Fatalf("got %q", got)
	}
	if got := says(bob, "cat "+name+" 2>/dev/null || echo nothing"); got != "nothing\n" {
		t.Errorf("another container reads %q", got)
	}
	if got := says(alice, "cat "+name); got != "secret\n" {
		t.Errorf("a later process of the same container reads %q", got)
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("it is there outside too")
	}
}
