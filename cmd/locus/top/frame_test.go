package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/surfaces"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func name(s string) *string { return &s }

// busy is a mesh of three nodes in which much goes on.
func busy() Snapshot {
	seven := 7
	return Snapshot{
		At: noon, Limit: 20,
		Status: gateway.StatusInfo{Node: "node-a", Version: "1.0", Actor: "default", Operator: true, Leader: "node-b", MemoryAvailableBytes: 3 << 30},
		Nodes: []gateway.NodeInfo{
			{ID: "node-c", State: "unreachable", Sessions: 1},
			{ID: "node-a", State: "up", Voter: true, Draining: true, Sessions: 2, Running: 2, MemoryBytes: 50 << 20, Labels: map[string]string{"zone": "a", "disk": "fast"}},
			{ID: "node-b", State: "up", Voter: true, Leader: true, Running: 9, MemoryShort: true},
		},
		Sessions: []gateway.SessionInfo{
			{Language: "python", SessionID: 1, SessionName: name("sales"), VenvID: &seven, Node: "node-a", State: "busy", Epoch: 20, Calls: 3, MemoryBytes: 5 << 20, LastUsedAt: ago(time.Second)},
			{Language: "bash", SessionID: 2, Node: "node-c", State: "lost", Epoch: 4, Calls: 120, MemoryBytes: 9 << 20, LastUsedAt: ago(time.Hour), StateLost: surfaces.StateLost{Loss: &surfaces.Loss{Reason: "node_expired"}}},
		},
		Calls: []gateway.CallSummary{
			{CallID: "call_1", Status: "running", Language: "python", StateMode: "stateful", SessionName: name("sales"), StartedAt: ago(90 * time.Second), Thought: "walk over\nthe rows\x1b[31m"},
			{CallID: "call_2", Status: "running", Language: "bash", StateMode: "stateless", StartedAt: ago(2 * time.Hour), Paused: true},
			{CallID: "call_3", Status: "running", Language: "python", StateMode: "stateless", StartedAt: ago(time.Second), Function: "forecast", Parent: "call_1"},
		},
		Machines: []gateway.MachineInfo{
			{ID: "link-2", Name: "desk", Actor: "planner", Surface: "user_machine", State: "away", OS: "darwin", Arch: "arm64", Consent: "asks each time", LastSeenAt: ago(26 * time.Hour)},
			{ID: "link-1", Name: "box", Actor: "default", Surface: "assistant_vm", State: "connected", OS: "linux", Arch: "amd64", LastSeenAt: ago(time.Minute)},
		},
	}
}

const whole = `
locus top 12:00:00  ·  node-a 1.0  ·  as default, operator  ·  3 GiB free  ·  3 nodes, led by node-b

  NODE    STATE                ROLE      SESSIONS  RUNNING  MEMORY  LABELS
  node-a  up, draining         voter     2         2        50 MiB  disk=fast,zone=a
  node-b  up, short of memory  leader    0         9        -       -
  node-c  unreachable          follower  1         0        -       -

  CALL (3) FOR  STATE    LANGUAGE  MODE       SESSION  ID      WHY
  1s            running  python    stateless  -        call_3  function forecast
  1m            running  python    stateful   sales    call_1  walk over the rows [31m
  2h            paused   bash      stateless  -        call_2  -

  SESSION (2 of 20)  LANGUAGE               STATE                EPOCH  CALLS  MEMORY  USED    NODE
  sales              python, environment 7  busy                 20     3      5 MiB   1s ago  node-a
  #2                 bash                   lost (node_expired)  4      120    9 MiB   1h ago  node-c

  MACHINE (2)  ACTOR    SURFACE       STATE      SYSTEM        CONSENT         SEEN
  box          default  assistant_vm  connected  linux/amd64   -               now
  desk         planner  user_machine  away       darwin/arm64  asks each time  26h ago
`

// A reader that is no screen has everything, without control characters.
func TestTheWholeOfASnapshot(t *testing.T) {
	if got := "\n" + Text(busy(), ByTime); got != whole {
		t.Errorf("got:%s\nwant:%s", got, whole)
	}
}

func TestTheOrders(t *testing.T) {
	for by, want := range map[Order]string{
		ByTime: "node-a node-b node-c, call_3 call_1 call_2, sales #2",
		ByLoad: "node-b node-a node-c, call_2 call_1 call_3, #2 sales",
		ByName: "node-a node-b node-c, call_3 call_2 call_1, #2 sales",
	} {
		s := busy()
		s.Sort(by)
		var nodes, calls, sessions []string
		for _, n := range s.Nodes {
			nodes = append(nodes, n.ID)
		}
		for _, c := range s.Calls {
			calls = append(calls, c.CallID)
		}
		for _, e := range s.Sessions {
			sessions = append(sessions, sessionName(e))
		}
		if got := strings.Join([]string{strings.Join(nodes, " "), strings.Join(calls, " "), strings.Join(sessions, " ")}, ", "); got != want {
			t.Errorf("%s: %s, want %s", by, got, want)
		}
	}
	if ByTime.next() != ByLoad || ByName.next() != ByTime {
		t.Error("the key does not go through all orders")
	}
}

// On any screen the frame fits, the chosen call is on it as soon as there is room for a row
// of each table, and what is left out is counted.
func TestAFrameFitsItsScreen(t *testing.T) {
	s := busy()
	for i := range 40 {
		s.Calls = append(s.Calls, gateway.CallSummary{CallID: fmt.Sprintf("more_%02d", i), Status: "running", StartedAt: ago(time.Duration(i) * time.Minute), Thought: strings.Repeat("宽", 10)})
	}
	s.Sort(ByTime)
	for _, at := range []int{0, 1, 7, 20, 41, 42} {
		c := s.Calls[at]
		for _, width := range []int{1, 33, 140} {
			for height := 1; height < 70; height += 3 {
				lines := frame(s, view{width: width, height: height, chosen: c.CallID, order: ByTime, note: keys})
				if len(lines) > height {
					t.Fatalf("%d lines on a screen of %d", len(lines), height)
				}
				shown, marked, rows := false, 0, 0
				for _, l := range lines {
					if got := ansi.StringWidth(l.text); got > width {
						t.Fatalf("%d cells on a screen of %d: %q", got, width, l.text)
					}
					if l.kind == chosen {
						shown, marked = true, marked+1
					}
					if strings.Contains(l.text, "call_") || strings.Contains(l.text, "more_") {
						rows++
					}
				}
				if marked > 1 || height >= 2+4*2+8 && !shown {
					t.Fatalf("call %s is marked %d times on a screen of %d lines:\n%v", c.CallID, marked, height, lines)
				}
				if left := fmt.Sprintf("… %d more", len(s.Calls)-rows); height > 25 && height < 50 && width > 130 && !strings.Contains(fmt.Sprint(lines), left) {
					t.Fatalf("%d rows of %d calls on a screen of %d lines, and not %q:\n%v", rows, len(s.Calls), height, left, lines)
				}
			}
		}
	}
}
