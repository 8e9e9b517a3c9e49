package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// What was typed before a question was asked is not taken as its answer.
func TestEarlierInputIsNoConsent(t *testing.T) {
	t.Parallel()
	l := linkedProcess(t)
	l.kill(syscall.SIGTERM)
	owner := onTerminal(t, exec.Command(l.path, "--data", l.data, "link"))
	owner.shows("connected to")
	l.awaits("the machine is connected", func() bool { return l.is(gateway.MachineConnected) })
	for i, answer := range []string{"n", "y"} {
		owner.keys("y\n")
		ended := make(chan surfaces.Result, 1)
		go func() {
			res, _ := l.n.result("--surface", "user_machine", "-t", "100", "6 * 7")
			ended <- res
		}()
		l.awaits("the owner is asked", func() bool { return strings.Count(owner.written(), "run it?") == i+1 })
		owner.keys(answer + "\n")
		switch res := <-ended; {
		case answer == "n" && (res.Code == nil || *res.Code != surfaces.CodeConsentDenied), answer == "y" && string(res.Result) != "42":
			t.Fatalf("after %q: got %s", answer, say(res))
		}
	}
}
