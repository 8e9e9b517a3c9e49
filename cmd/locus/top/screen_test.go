package top

import (
	"context"
	"errors"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

// scripted is a mesh that says what it is told to, and keeps what it was asked.
type scripted struct {
	snapshot Snapshot
	err      error
	asked    []string
}

func (m *scripted) Take(context.Context) (Snapshot, error) {
	m.asked = append(m.asked, "look")
	return m.snapshot, m.err
}

func (m *scripted) Steer(_ context.Context, action, callID string) error {
	m.asked = append(m.asked, action+" "+callID)
	return m.err
}

func (m *scripted) said() string {
	said := strings.Join(m.asked, ", ")
	m.asked = nil
	return said
}

func shown(m *scripted) *screen {
	s := &screen{ctx: context.Background(), mesh: m, snapshot: m.snapshot, view: view{order: ByTime}}
	s.arrange()
	s.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	return s
}

// press types keys, and does what each leads to at once.
func press(s *screen, keys ...string) (quit bool) {
	for _, k := range keys {
		msg := tea.KeyPressMsg{Text: k, Code: []rune(k)[0]}
		switch k {
		case "down":
			msg = tea.KeyPressMsg{Code: tea.KeyDown}
		case "up":
			msg = tea.KeyPressMsg{Code: tea.KeyUp}
		case "esc":
			msg = tea.KeyPressMsg{Code: tea.KeyEscape}
		case "ctrl+c":
			msg = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		}
		_, do := s.Update(msg)
		if do == nil {
			continue
		}
		switch came := do().(type) {
		case tea.QuitMsg:
			quit = true
		case steered:
			s.Update(came)
		}
	}
	return quit
}

// second is the line under the title.
func second(s *screen) string { return strings.Split(s.View().Content, "\n")[1] }

// Keys steer the call that is chosen, after a yes and never without.
func TestKeysSteerAfterAQuestion(t *testing.T) {
	for name, row := range map[string]struct {
		keys       []string
		does, says string
	}{
		"pause":             {[]string{"p", "y"}, "pause call_3", "paused call_3"},
		"the second":        {[]string{"down", "p", "y"}, "pause call_1", "paused call_1"},
		"resume":            {[]string{"down", "down", "down", "p", "y"}, "resume call_2", "resumed call_2"},
		"up again":          {[]string{"j", "k", "up", "x", "y"}, "stop call_3", "stopping call_3"},
		"asked":             {[]string{"x"}, "", "stop call_3? y confirms, any other key cancels"},
		"no":                {[]string{"x", "n"}, "", "cancelled: call_3"},
		"another key is no": {[]string{"x", "x"}, "", "cancelled: call_3"},
		"quit is no":        {[]string{"x", "q"}, "", "cancelled: call_3"},
		"yes to nothing":    {[]string{"y"}, "", keys},
		"sorted":            {[]string{"s"}, "", "sorted by load"},
		// What was chosen stays chosen when its row moves.
		"sorted, then stopped": {[]string{"down", "down", "s", "x", "y"}, "stop call_2", "stopping call_2"},
	} {
		m := &scripted{snapshot: busy()}
		s := shown(m)
		if press(s, row.keys...) {
			t.Errorf("%s: it quits", name)
		}
		if got := m.said(); got != row.does {
			t.Errorf("%s: did %q, want %q", name, got, row.does)
		}
		if got := second(s); !strings.Contains(got, row.says) {
			t.Errorf("%s: says %q, want %q", name, got, row.says)
		}
	}
	for _, leaves := range [][]string{{"q"}, {"esc"}, {"ctrl+c"}, {"x", "ctrl+c"}} {
		if m := (&scripted{snapshot: busy()}); !press(shown(m), leaves...) || m.said() != "" {
			t.Errorf("%q does not quit", leaves)
		}
	}
	if m := (&scripted{snapshot: busy(), err: errors.New("it has ended")}); true {
		s := shown(m)
		if press(s, "x", "y"); !strings.Contains(second(s), "cannot stop call_3: it has ended") {
			t.Errorf("a call that cannot be stopped: %q", second(s))
		}
	}
	if s := shown(&scripted{}); press(s, "x") || !strings.Contains(second(s), "no running calls") {
		t.Errorf("without a call: %q", second(s))
	}
}

// What the question is about may end meanwhile: then a yes is for nothing else.
func TestAQuestionEndsWithItsCall(t *testing.T) {
	m := &scripted{snapshot: busy()}
	s := shown(m)
	press(s, "x")
	left := busy()
	left.Calls = left.Calls[:2]
	s.Update(taken{snapshot: left})
	if got := second(s); !strings.Contains(got, "call_3 has ended") {
		t.Errorf("says %q", got)
	}
	press(s, "y")
	if got, want := m.said(), ""; got != want {
		t.Errorf("did %q, want %q", got, want)
	}
	// Another call that comes in between does not take the place of the chosen one.
	s = shown(m)
	press(s, "down", "x")
	more := busy()
	more.Calls = append(more.Calls, gateway.CallSummary{CallID: "call_4", Status: "running", StartedAt: noon})
	s.Update(taken{snapshot: more})
	if press(s, "y"); m.said() != "stop call_1" {
		t.Error("another call than the chosen one was stopped")
	}
}

// Events lead to one look for all that happen, however many they are, and a look that
// failed leaves on the screen what was there.
func TestLooks(t *testing.T) {
	m := &scripted{snapshot: busy()}
	s := shown(m)
	if s.Init() == nil {
		t.Fatal("nothing is waited for")
	}
	waits := 0
	for range 100 {
		if _, wait := s.Update(happened{}); wait != nil {
			waits++
		}
	}
	if waits != 1 {
		t.Errorf("%d looks are waited for", waits)
	}
	if _, do := s.Update(due{s.look - 1}); do != nil {
		t.Error("the look that the one after the event has replaced is taken")
	}
	_, do := s.Update(due{s.look})
	if do == nil {
		t.Fatal("no look is taken")
	}
	// What happens while the look is under way leads to one more after it.
	if _, wait := s.Update(happened{}); wait != nil {
		t.Error("two looks at once")
	}
	m.err = errors.New("nobody is there\x1b[2J")
	came := do()
	if _, wait := s.Update(came); wait == nil || !s.soon {
		t.Error("what happened during a look leads to none")
	}
	text := s.View().Content
	if !strings.Contains(text, "not reached; retrying: nobody is there [2J") || !strings.Contains(text, "call_3") {
		t.Errorf("after a look that failed:\n%s", text)
	}
	m.err = nil
	_, do = s.Update(due{s.look})
	s.Update(do())
	if got := second(s); !strings.Contains(got, keys) {
		t.Errorf("after one that did not: %q", got)
	}
	said := "The token is not known."
	if s.Update(taken{err: &client.RefusedError{HTTPStatus: 401, Result: surfaces.Result{Error: &said}}}); !strings.Contains(second(s), "refuses; retrying: "+said) {
		t.Errorf("after a refusal: %q", second(s))
	}
	s.Update(listening(true))
	if s.Update(listening(false)); s.live {
		t.Error("events that broke count as heard")
	}
}

// Without colours there are only attributes; both are off at the end of each line.
func TestColoursOnlyWhereWanted(t *testing.T) {
	for _, color := range []bool{true, false} {
		m := &scripted{snapshot: busy()}
		s := shown(m)
		s.color = color
		text := s.View().Content
		if strings.Contains(text, "\x1b[31m") != color {
			t.Errorf("colour %v: %q", color, text)
		}
		for _, l := range strings.Split(text, "\n") {
			if strings.Contains(l, "\x1b[") && !strings.HasSuffix(l, "\x1b[m") {
				t.Errorf("left on: %q", l)
			}
		}
	}
}
