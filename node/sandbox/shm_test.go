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
	if got, want := says(alice, "echo secret > "+name+" && cat "+name), "secret\n"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	if got, want := says(bob, "cat "+name+" 2>/dev/null || echo nothing"), "nothing\n"; got != want {
		t.Errorf("another container reads %q, want %q", got, want)
	}
	if got, want := says(alice, "cat "+name), "secret\n"; got != want {
		t.Errorf("a later process of the same container reads %q, want %q", got, want)
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("it is there outside too")
	}
}
