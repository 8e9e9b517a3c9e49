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

// Intervals of reading everything: with events only for what has no event, such as memory;
// without events for everything. After an event no sooner than settle.
const (
	slowTick = 5 * time.Second
	tick     = 2 * time.Second
	settle   = 300 * time.Millisecond
	// within bounds one reading or one steering action.
	within = 30 * time.Second
)

// mesh is what the screen needs of a node.
type mesh interface {
	Take(ctx context.Context) (Snapshot, error)
	// Steer pauses, resumes or stops a call.
	Steer(ctx context.Context, action, callID string) error
}

// The messages of the screen besides keys and sizes.
type (
	taken struct {
		snapshot Snapshot
		err      error
	}
	steered struct {
		action, callID string
		err            error
	}
	// listening says whether events work; happened says that one came.
	listening bool
	happened  struct{}
	// due says that a reading is due, unless another one was made since.
	due struct{ look int }
)

// question is the confirmation before a call is steered.
type question struct{ action, callID string }

// screen is the state of the display.
type screen struct {
	ctx   context.Context
	mesh  mesh
	color bool

	snapshot Snapshot
	view     view
	said     string // result of the last key
	failed   error  // of the last reading
	asked    *question

	live    bool // events work
	looking bool // a reading is in progress
	again   bool // an event came since it began
	look    int  // number of the reading that is scheduled
	soon    bool // it was scheduled by an event
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

// hear schedules a reading soon, one for all events until then.
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

// wait schedules a reading after d, in place of the one scheduled before.
func (s *screen) wait(d time.Duration) tea.Cmd {
	s.look++
	look := s.look
	return tea.Tick(d, func(time.Time) tea.Msg { return due{look} })
}

// begin starts a reading.
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

// arrange sorts the rows and makes sure that a call is selected, if there is one.
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

// at is the index of the selected call; -1 if none is.
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

// key handles a key.
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

// ask asks for confirmation. It applies to the call selected now, even if the rows change.
func (s *screen) ask(action string) {
	if s.view.chosen == "" {
		s.said = "no running calls"
		return
	}
	s.asked = &question{action, s.view.chosen}
}

func (s *screen) answered(name string) tea.Cmd {
	q := *s.asked
	s.asked = nil
	if name != "y" {
		s.said = "cancelled: " + q.callID
		return nil
	}
	s.said = ""
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(s.ctx, within)
		defer cancel()
		return steered{q.action, q.callID, s.mesh.Steer(ctx, q.action, q.callID)}
	}
}

const keys = "q quit   ↑↓ select a call   p pause or resume   x stop   s sort"

// note is the line under the title.
func (s *screen) note() string {
	var refused *client.RefusedError
	switch {
	case s.asked != nil:
		return fmt.Sprintf("%s %s? y confirms, any other key cancels", s.asked.action, s.asked.callID)
	case s.said != "":
		return present.Sanitise(s.said)
	case errors.As(s.failed, &refused):
		return "the node refuses; retrying: " + present.Sanitise(s.failed.Error())
	case s.failed != nil:
		return "not reached; retrying: " + present.Sanitise(s.failed.Error())
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

// styled renders a line in the style of its kind; loud marks an error.
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
