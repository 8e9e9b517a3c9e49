package top

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
)

// againAfter is the pause before broken events are requested again.
const againAfter = time.Second

// Terminal is the user's terminal.
type Terminal struct {
	In  io.Reader
	Out io.Writer
	// Color enables colours.
	Color bool
	// Interrupts delivers Ctrl-C that arrives as a signal; usually it is a key.
	Interrupts <-chan os.Signal
}

// Run shows the mesh in a terminal, starting with a snapshot, until the user quits or ctx
// ends. It always restores the terminal.
func Run(ctx context.Context, c *client.Client, now func() time.Time, first Snapshot, by Order, at Terminal) error {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	s := &screen{ctx: ctx, mesh: node{c, now}, color: at.Color, snapshot: first, view: view{order: by}}
	s.arrange()
	p := tea.NewProgram(s, tea.WithInput(at.In), tea.WithOutput(at.Out), tea.WithoutSignalHandler())
	beside.Go(func() {
		select {
		case <-at.Interrupts:
		case <-ctx.Done():
		}
		p.Quit()
	})
	if first.Status.Operator {
		beside.Go(func() { listen(ctx, c, p.Send) })
	}
	_, err := p.Run()
	return err
}

// listen reports events of the mesh until ctx ends.
func listen(ctx context.Context, c *client.Client, tell func(tea.Msg)) {
	after := ""
	for ctx.Err() == nil {
		err := c.EventsAfter(ctx, after, func(ev gateway.MeshEvent) error {
			after = ev.ID
			tell(listening(true))
			tell(happened{})
			return nil
		})
		tell(listening(false))
		var refused *client.RefusedError
		if errors.As(err, &refused) {
			return // the slow tick remains
		}
		select {
		case <-time.After(againAfter):
		case <-ctx.Done():
		}
	}
}

// node is the mesh behind a client.
type node struct {
	c   *client.Client
	now func() time.Time
}

func (n node) Take(ctx context.Context) (Snapshot, error) { return Take(ctx, n.c, n.now) }

func (n node) Steer(ctx context.Context, action, callID string) error {
	var err error
	switch action {
	case "pause":
		_, err = n.c.Pause(ctx, callID)
	case "resume":
		_, err = n.c.Resume(ctx, callID)
	case "stop":
		_, err = n.c.Stop(ctx, callID)
	}
	return err
}
