package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/locusrun/locus/cmd/locus/present"
	"github.com/locusrun/locus/node/gateway/client"
)

// How often everything is asked for anew: with events only for what they do not tell, such
// as memory; without, for everything. After an event, no sooner than settle.
const (
	slowTick = 5 * time.Second
	tick     = 2 * time.Second
	settle   = 300 * time.Millisecond
	// within bounds one look, and one steering of a call.
	within = 30 * time.Second
)

// mesh is what the screen needs of a node.
type mesh interface {
	Take(ctx context.Context) (Snapshot, error)
	// Steer does an action, pause, resume or stop, to a call.
	Steer(ctx context.Context, action, callID string) error
}

// What comes to the screen beside keys and sizes.
type (
	taken struct {
		snapshot Snapshot
		err      error
	}
	steered struct {
		action, callID string
		err            error
	}
	// listening says whether events come, happened that one came.
	listening bool
	happened  struct{}
	// due says that it is time to look, unless another look came between.
	due struct{ look int }
)

// question is what a person is asked before a call is steered.
type question struct{ action, callID string }

// screen is the state of what is shown.
type screen struct {
	ctx   context.Context
	mesh  mesh
	color bool

	snapshot Snapshot
	view     view
	said     string // what came of the last key
	failed   error  // of the last look
	asked    *question

	live    bool // events come
	looking bool // a look is under way
	again   bool // something happened since it began
	look    int  // counts the looks that were waited for
	soon    bool // the one that is waited for is the one after an event
}

// Init implements tea.Model.
func (s *screen) Init() tea.Cmd { return s.wait(tick) }

// Update implements tea.Model.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.view.width, s.view.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return s, s.key(msg.String())
	case taken:
		return s, s.took(msg)
	case steered:
		s.said = map[string]string{"pause": "paused ", "resume": "resumed ", "stop": "stopping "}[msg.action] + msg.callID
		if msg.err != nil {
			s.said = fmt.Sprintf("cannot %s %s: %v", msg.action, msg.callID, msg.err)
		}
		return s, s.hear()
	case listening:
		s.live = bool(msg)
	case happened:
		return s, s.hear()
	case due:
		if msg.look == s.look {
			return s, s.begin()
		}
	}
	return s, nil
}

// hear has a look taken soon, once for all that happens until then.
func (s *screen) hear() tea.Cmd {
	switch {
	case s.looking:
		s.again = true
		return nil
	case s.soon:
		return nil
	}
	s.soon = true
	return s.wait(settle)
}

// wait has a look taken after a time, in place of the one that was waited for.
func (s *screen) wait(d time.Duration) tea.Cmd {
	s.look++
	look := s.look
	return tea.Tick(d, func(time.Time) tea.Msg { return due{look} })
}

// begin takes a look.
func (s *screen) begin() tea.Cmd {
	s.looking, s.soon, s.again = true, false, false
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(s.ctx, within)
		defer cancel()
		snapshot, err := s.mesh.Take(ctx)
		return taken{snapshot, err}
	}
}

func (s *screen) took(msg taken) tea.Cmd {
	s.looking, s.failed = false, msg.err
	if msg.err == nil {
		s.snapshot = msg.snapshot
		s.arrange()
	}
	switch {
	case s.again:
		s.soon = true
		return s.wait(settle)
	case s.live:
		return s.wait(slowTick)
	}
	return s.wait(tick)
}

// arrange sorts the rows and sees that a call is chosen where there is one.
func (s *screen) arrange() {
	s.snapshot.Sort(s.view.order)
	if s.at() < 0 {
		s.view.chosen = ""
		if len(s.snapshot.Calls) > 0 {
			s.view.chosen = s.snapshot.Calls[0].CallID
		}
	}
	if s.asked != nil && !s.runs(s.asked.callID) {
		s.said, s.asked = s.asked.callID+" has ended", nil
	}
}

// at is the row of the chosen call; -1 without one.
func (s *screen) at() int {
	for i, c := range s.snapshot.Calls {
		if c.CallID == s.view.chosen {
			return i
		}
	}
	return -1
}

func (s *screen) runs(callID string) bool {
	for _, c := range s.snapshot.Calls {
		if c.CallID == callID {
			return true
		}
	}
	return false
}

// key does what a key is for.
func (s *screen) key(name string) tea.Cmd {
	if name == "ctrl+c" {
		return tea.Quit
	}
	if s.asked != nil {
		return s.answered(name)
	}
	s.said = ""
	switch name {
	case "q", "esc":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "s":
		s.view.order = s.view.order.next()
		s.arrange()
		s.said = "sorted by " + string(s.view.order)
	case "up", "k":
		s.choose(-1)
	case "down", "j":
		s.choose(1)
	case "p":
		if at := s.at(); at >= 0 && s.snapshot.Calls[at].Paused {
			s.ask("resume")
		} else {
			s.ask("pause")
		}
	case "x":
		s.ask("stop")
	}
	return nil
}

func (s *screen) choose(step int) {
	if n := len(s.snapshot.Calls); n > 0 {
		s.view.chosen = s.snapshot.Calls[min(max(0, s.at()+step), n-1)].CallID
	}
}

// ask puts the question before an action. What was chosen then is what is meant, whatever
// the rows do meanwhile.
func (s *screen) ask(action string) {
	if s.view.chosen == "" {
		s.said = "no call runs"
		return
	}
	s.asked = &question{action, s.view.chosen}
}

func (s *screen) answered(name string) tea.Cmd {
	q := *s.asked
	s.asked = nil
	if name != "y" {
		s.said = "left alone: " + q.callID
		return nil
	}
	s.said = ""
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(s.ctx, within)
		defer cancel()
		return steered{q.action, q.callID, s.mesh.Steer(ctx, q.action, q.callID)}
	}
}

const keys = "q quit   ↑↓ choose a call   p pause or resume   x stop   s sort"

// note is the line under the title.
func (s *screen) note() string {
	var refused *client.Refused
	switch {
	case s.asked != nil:
		return fmt.Sprintf("%s %s? y does it, any other key does not", s.asked.action, s.asked.callID)
	case s.said != "":
		return present.Plain(s.said)
	case errors.As(s.failed, &refused):
		return "the node refuses, trying again: " + present.Plain(s.failed.Error())
	case s.failed != nil:
		return "not reached, trying again: " + present.Plain(s.failed.Error())
	}
	return keys
}

// View implements tea.Model.
func (s *screen) View() tea.View {
	v := s.view
	v.note = s.note()
	lines := frame(s.snapshot, v)
	text := make([]string, len(lines))
	for i, l := range lines {
		text[i] = s.styled(l, i == 1 && (s.asked != nil || s.failed != nil))
	}
	shown := tea.NewView(strings.Join(text, "\n"))
	shown.AltScreen = true
	return shown
}

// styled writes a line with the attributes of its kind; colours only where they are wanted.
func (s *screen) styled(l line, loud bool) string {
	var codes []string
	switch {
	case l.kind == heading || loud:
		codes = append(codes, "1") // bold
	case l.kind == chosen:
		codes = append(codes, "7") // reversed
	case l.kind == quiet:
		codes = append(codes, "2") // faint
	}
	if s.color && (l.kind == trouble || loud) {
		codes = append(codes, "31") // red
	}
	if len(codes) == 0 || l.text == "" {
		return l.text
	}
	return "\x1b[" + strings.Join(codes, ";") + "m" + l.text + "\x1b[m"
}
