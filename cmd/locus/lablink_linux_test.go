package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/locusrun/locus/mesh/netlab"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

// A machine behind a NAT works like any other, also after the NAT has forgotten its mapping.
func TestAMachineBehindANAT(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	n := labNode(t, lab.Host())
	laptop, router := lab.HostBehindNAT()
	l := labLink(t, n, laptop)
	if res, status := n.result("--surface", "user_machine", "6 * 7"); status != 0 || string(res.Result) != "42" {
		t.Fatalf("got %d %s, want status 0, Result \"42\"", status, say(res))
	}
	if res, status := n.result("--surface", "user_machine", "-l", "bash", "for i in 1 2 3; do echo $i; done; exit 3"); status != 0 || res.Stdout != "1\n2\n3\n" || *res.Exit.Code != 3 {
		t.Fatalf("got %d %s, want status 0, Stdout \"1\\n2\\n3\\n\", Exit.Code 3", status, say(res))
	}

	// Its output is shown while it runs, also what it prints after its machine has got
	// another port as well.
	before := router.Ports()
	h := newHeld(t)
	call := n.types("exec", "--surface", "user_machine", "-t", "100", h.code)
	eventually(t, "what the program has printed is seen", func() bool { return call.shown() == "before\n" })
	router.Rebind()
	h.letGo()
	if shown := call.ends(); shown != "before\nafter\n'the end'\n" || h.times() != 1 {
		t.Fatalf("it ran %d times, and %q was shown", h.times(), shown)
	}
	if after := router.Ports(); len(before) == 0 || len(after) == 0 || before[0] == after[0] {
		t.Fatalf("the machine was at port %v and is at %v", before, after)
	}

	// No node knows its new port yet.
	router.Rebind()
	if res, status := n.result("--surface", "user_machine", "'again'"); status != 0 || string(res.Result) != `"again"` {
		t.Fatalf("got %d %s, want status 0, Result \"again\"", status, say(res))
	}
	if l.said("not connected") {
		t.Error("the machine lost its connection to a new port")
	}
}

// A machine that changes its network during a call, and between two, stays connected.
func TestAMachineMoves(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	n := labNode(t, lab.Host())
	laptop := lab.Host()
	labLink(t, n, laptop)
	h := newHeld(t)
	ended := h.begins(n, 100)
	from := laptop.Addr()
	laptop.Move()
	h.letGo()
	h.endedWell(<-ended)
	if laptop.Addr() == from {
		t.Fatal("it has not moved")
	}
	laptop.Move()
	if res, status := n.result("--surface", "user_machine", "'again'"); status != 0 || string(res.Result) != `"again"` {
		t.Fatalf("got %d %s, want status 0, Result \"again\"", status, say(res))
	}
}

// A short network outage has no effect, a longer one is reported. In both cases a program's
// result is delivered once.
func TestANetworkIsPulled(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	n := labNode(t, lab.Host())
	laptop := lab.Host()
	l := labLink(t, n, laptop)

	h, meanwhile := newHeld(t), newHeld(t)
	ended := h.begins(n, 100)
	laptop.Unplug()
	h.letGo()
	meanwhile.letGo()
	asked := meanwhile.asked(n, 100) // while the machine still counts as connected
	time.Sleep(3 * time.Second)      // the length of the outage
	laptop.Plug()
	h.endedWell(<-ended)
	meanwhile.endedTruly(<-asked)

	patient, hasty := newHeld(t), newHeld(t)
	ended, early := patient.begins(n, 100), hasty.begins(n, 4)
	back := time.Now().Add(15 * time.Second) // the end of the outage
	laptop.Unplug()
	patient.letGo()
	hasty.letGo()
	unknown := <-early
	if unknown.Code == nil || *unknown.Code != surfaces.CodeOutcomeUnknown {
		t.Fatalf("got %s, want unknown.Code %v", say(unknown), surfaces.CodeOutcomeUnknown)
	}
	l.awaits("the mesh knows that the machine is away", func() bool { return l.is(gateway.MachineAway) })
	// With a deadline of an hour, any answer in the test's time came at once.
	if res, status := n.result("--surface", "user_machine", "-t", "3600", "1"); status != surfaces.ExitUnavailable || *res.Code != surfaces.CodeMachineUnreachable || res.RetryAfterS == nil {
		t.Fatalf("got %d %s, want status %v, Code %v, a RetryAfterS", status, say(res), surfaces.ExitUnavailable, surfaces.CodeMachineUnreachable)
	}
	time.Sleep(time.Until(back))
	laptop.Plug()
	patient.endedWell(<-ended)
	var late surfaces.Result
	l.awaits("the late result is shown", func() bool {
		late = shown(n, unknown.CallID)
		return late.Code == nil
	})
	hasty.endedWell(late)
}

// A machine that can only send, or only receive, is reported as away, as is one that can do
// neither.
func TestAMachineIsHalfCutOff(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	n := labNode(t, lab.Host())
	laptop := lab.Host()
	l := labLink(t, n, laptop)
	for name, cut := range map[string]func(*netlab.Host){"deaf": (*netlab.Host).BlockInbound, "mute": (*netlab.Host).BlockOutbound} {
		h, meanwhile := newHeld(t), newHeld(t)
		ended := h.begins(n, 100)
		cut(laptop)
		h.letGo()
		meanwhile.letGo()
		asked := meanwhile.asked(n, 100)
		l.awaits("the mesh knows that the machine is away: "+name, func() bool { return l.is(gateway.MachineAway) })
		if res, status := n.result("--surface", "user_machine", "-t", "3600", "1"); status != surfaces.ExitUnavailable || *res.Code != surfaces.CodeMachineUnreachable {
			t.Fatalf("%s: got %d %s, want status %v, Code %v", name, status, say(res), surfaces.ExitUnavailable, surfaces.CodeMachineUnreachable)
		}
		laptop.Heal()
		h.endedWell(<-ended)
		meanwhile.endedTruly(<-asked)
		l.awaits("the machine is back: "+name, func() bool { return l.is(gateway.MachineConnected) })
	}
}

// shown returns a call as it is shown now.
func shown(n *realNode, callID string) (res surfaces.Result) {
	n.t.Helper()
	out, errs, _ := n.locus("--json", "calls", "show", callID)
	if err := json.Unmarshal([]byte(out), &res); err != nil {
		n.t.Fatalf("%v in %q %q", err, out, errs)
	}
	return res
}

// The agent is killed while its network is away: once while a program runs, whose outcome is
// then unknown, and once with a result that was not delivered yet.
func TestAnAgentIsKilledOffline(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	n := labNode(t, lab.Host())
	laptop, _ := lab.HostBehindNAT()
	l := labLink(t, n, laptop)

	finished, running := newHeld(t), newHeld(t)
	ended, killed := finished.begins(n, 100), running.begins(n, 100)
	laptop.Unplug()
	finished.letGo()
	l.awaits("the result is on the machine's disk", func() bool { return l.holdsResults(1) })
	l.kill(syscall.SIGKILL)
	running.letGo() // if it still existed, it would run to its end
	l.up()
	laptop.Plug()
	finished.endedWell(<-ended)
	if res := <-killed; res.Code == nil || *res.Code != surfaces.CodeOutcomeUnknown || running.times() != 1 {
		t.Fatalf("it ran %d times: %s", running.times(), say(res))
	}
	l.awaits("the machine is back", func() bool { return l.is(gateway.MachineConnected) })
	log, _, _ := l.owner("link", "log")
	if n := strings.Count(log, " asked "); n != 2 {
		t.Fatalf("%d calls were requested, want 2: %s", n, log)
	}
}

// holdsResults reports whether the machine has noted that many results to hand over. A
// call that runs has a page too, which is short.
func (l *realLink) holdsResults(want int) bool {
	pages, _ := filepath.Glob(filepath.Join(l.data, "link", "calls", "*.json"))
	got := 0
	for _, page := range pages {
		text, _ := os.ReadFile(page) // a page that was removed holds nothing
		if strings.Contains(string(text), `"items"`) {
			got++
		}
	}
	return got == want
}

// One machine is unlinked by the mesh, another by its owner: their programs are ended, with an
// unknown outcome.
func TestAMachineIsUnlinkedDuringACall(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	n := labNode(t, lab.Host())
	for name, unlink := range map[string]func(*realLink) (string, string, int){
		"by the mesh":  func(l *realLink) (string, string, int) { return n.locus("machines", "unlink", "laptop") },
		"by its owner": func(l *realLink) (string, string, int) { return l.owner("link", "leave") },
	} {
		laptop, _ := lab.HostBehindNAT()
		l := labLink(t, n, laptop)
		h := newHeld(t)
		ended := h.begins(n, 100)
		working := l.data + "/link/work"
		if len(worksIn(working)) == 0 {
			t.Fatalf("%s: nothing runs below %s", name, working)
		}
		began := time.Now()
		if out, errs, status := unlink(l); status != 0 {
			t.Fatalf("%s: status %d, want 0: %s%s", name, status, out, errs)
		}
		told := time.Since(began)
		eventually(t, "what ran there is ended", func() bool { return len(worksIn(working)) == 0 })
		t.Logf("%s: the command took %s, and nothing ran any more after %s", name, told, time.Since(began))
		if status := l.kill(0); status != surfaces.ExitRefused {
			t.Errorf("%s: the agent ended with status %d, want %d", name, status, surfaces.ExitRefused)
		}
		if res := <-ended; res.Code == nil || *res.Code != surfaces.CodeOutcomeUnknown || h.times() != 1 {
			t.Errorf("%s: got %s and %d runs, want code outcome_unknown and one run", name, say(res), h.times())
		}
		if _, errs, status := l.owner("link", "--consent", "allow"); status != surfaces.ExitRefused || !strings.Contains(errs, "is not linked yet") {
			t.Errorf("%s: got %d %q, want status %v, stderr with \"is not linked yet\"", name, status, errs, surfaces.ExitRefused)
		}
	}
}

// The node that holds a machine's connection is killed during a call that came in at another
// node. The machine connects to a third by itself, and the call ends as if nothing had
// happened.
func TestTheNodeOfAMachineIsKilled(t *testing.T) {
	t.Parallel()
	lab := netlab.New(t)
	all := labMesh(t, lab)
	laptop, _ := lab.HostBehindNAT()
	l := labLink(t, all[0], laptop)
	l.n = all[1]
	h := newHeld(t)
	ended := h.begins(all[1], 100)
	all[0].kill(syscall.SIGKILL)
	l.awaits("the machine is at another node", func() bool {
		m := decoded[gateway.MachineList](all[2], "machines").Machines
		return len(m) == 1 && m[0].State == gateway.MachineConnected && m[0].Node != all[0].id
	})
	h.letGo()
	h.endedWell(<-ended)
	if res, status := all[2].result("--surface", "user_machine", "'again'"); status != 0 || string(res.Result) != `"again"` {
		t.Fatalf("got %d %s, want status 0, Result \"again\"", status, say(res))
	}
}
