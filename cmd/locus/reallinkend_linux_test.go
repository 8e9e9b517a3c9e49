package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// Who ends locus link ends what runs there, and whoever waits for that is told so: with a
// deadline of an hour, an answer is one that came at once.
func TestARealMachineIsEndedDuringACall(t *testing.T) {
	t.Parallel()
	l := linkedProcess(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		h := newHeld(t)
		ended := h.begins(l.n, 3600)
		if status := l.kill(sig); status != 0 {
			t.Errorf("%s: it ended with status %d, want 0", sig, status)
		}
		if res := <-ended; res.Code == nil || *res.Code != surfaces.CodeStopped || res.Exit == nil || res.Exit.Reason != surfaces.ReasonStopped {
			t.Errorf("%s: %s, want Code %v, Exit.Reason %v", sig, say(res), surfaces.CodeStopped, surfaces.ReasonStopped)
		}
		l.awaitsAway()
		l.up()
		l.awaits("the machine is back", func() bool { return l.is(gateway.MachineConnected) })
	}
}

// An agent that was started by nohup survives the end of its terminal.
func TestNohupIsRespected(t *testing.T) {
	t.Parallel()
	l := linkedProcess(t)
	l.kill(syscall.SIGTERM)
	l.awaitsAway()
	script := filepath.Join(t.TempDir(), "locus")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec nohup '"+l.path+"' \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.path = script
	l.up()
	l.awaits("the machine is back", func() bool { return l.is(gateway.MachineConnected) })
	h := newHeld(t)
	ended := h.begins(l.n, 100)
	if err := l.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	h.letGo()
	h.endedWell(<-ended)
	if res, status := l.n.result("--surface", "user_machine", "'again'"); status != 0 || string(res.Result) != `"again"` {
		t.Fatalf("got %d %s, want status 0, Result \"again\"", status, say(res))
	}
}
