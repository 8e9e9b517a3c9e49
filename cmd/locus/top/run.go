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

// againAfter is how soon events that broke are asked for again.
const againAfter = time.Second

// Terminal is where a person sits.
type Terminal struct {
	In  io.Reader
	Out io.Writer
	// Color says whether colours are wanted.
	Color bool
	// Interrupts are Ctrl-C's that come as signals; most come as keys.
	Interrupts <-chan os.Signal
}

// Run shows the mesh in a terminal, from a snapshot on, until the person leaves or ctx
// ends. The terminal is then as it was, whatever happened.
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

// listen tells that something happened in the mesh, until ctx ends.
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
		var refused *client.Refused
		if errors.As(err, &refused) {
			return // the slow tick is what is left
		}
		select {
		case <-time.After(againAfter):
		case <-ctx.Done():
		}
	}
}

// node is a mesh behind a client.
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
