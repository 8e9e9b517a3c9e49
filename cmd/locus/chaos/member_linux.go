package chaos

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/locusrun/locus/cmd/locus/localnode"
	"github.com/locusrun/locus/mesh/cables"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/gateway/client"
)

const (
	// startsWithin bounds the start of a node, drainsWithin its end after SIGTERM, and
	// healsWithin the recovery of a mended mesh. They only detect hangs, so they allow for
	// loaded machines.
	startsWithin = 2 * time.Minute
	drainsWithin = time.Minute
	healsWithin  = 2 * time.Minute
	// asksWithin bounds a question about the mesh, and looksEvery is the interval between
	// them.
	asksWithin = 5 * time.Second
	looksEvery = 200 * time.Millisecond
)

// member is one node of the mesh, across restarts.
type member struct {
	number int
	cfg    localnode.Config
	id     string // set at its first start

	mu   sync.Mutex
	node *localnode.Node // nil while it is down
	door *client.Client  // nil while it is down
}

// start starts the node and makes a client for it.
func (m *member) start(ctx context.Context, token string, more ...string) error {
	ctx, cancel := context.WithTimeout(ctx, startsWithin)
	defer cancel()
	cfg := m.cfg
	cfg.Flags = append(append([]string{}, cfg.Flags...), more...)
	node, err := localnode.Start(ctx, cfg)
	if err != nil {
		return fmt.Errorf("node %d: %w", m.number, err)
	}
	m.mu.Lock()
	m.node = node
	m.mu.Unlock()
	if token == "" {
		if token, err = node.Token(); err != nil {
			return err
		}
	}
	door, err := client.New(client.Config{Server: node.HTTP, Token: token, RequestTimeout: asksWithin})
	if err != nil {
		return err
	}
	if m.id == "" {
		m.id = node.ID
	}
	if m.id != node.ID {
		return fmt.Errorf("node %d was %s and came back as %s", m.number, m.id, node.ID)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.door = door
	return nil
}

// client returns the node's client; nil while it is down.
func (m *member) client() *client.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.door
}

// process returns the node's process; nil while it is down.
func (m *member) process() *localnode.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node
}

// take closes the client and returns the process, which the caller ends.
func (m *member) take() *localnode.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.node
	m.node = nil
	if m.door != nil {
		m.door.Close()
		m.door = nil
	}
	return node
}

// kill kills the node's process.
func (m *member) kill() error {
	if node := m.take(); node != nil {
		return node.Kill()
	}
	return nil
}

// drain stops the node with SIGTERM and returns its exit status.
func (m *member) drain() (int, error) {
	if node := m.take(); node != nil {
		return node.Stop(drainsWithin)
	}
	return 0, nil
}

// signal sends a signal to a node that is up.
func (m *member) signal(s syscall.Signal) error {
	if node := m.process(); node != nil {
		return node.Signal(s)
	}
	return nil
}

// world is the run's own mesh.
type world struct {
	members []*member
	wires   *cables.Cables
	token   string // of the default actor, valid at all nodes
}

// build starts the nodes and waits until they are one mesh. After an error the caller must
// still call end.
func (w *world) build(ctx context.Context, o Options) error {
	var err error
	if w.wires, err = cables.New(o.Nodes, o.Seed); err != nil {
		return err
	}
	for i := 1; i <= o.Nodes; i++ {
		dir := filepath.Join(o.Dir, fmt.Sprintf("node-%d", i))
		m := &member{number: i, cfg: localnode.Config{
			Program: o.Program, Data: dir, Log: dir + ".log",
			Flags: []string{"--http", "127.0.0.1:0", "--listen", w.wires.Listen(i).String(), "--advertise", w.wires.Advertise(i).String(), "--log-level", "info"},
		}}
		if o.Fast {
			m.cfg.Flags = append(m.cfg.Flags, "--fast")
		}
		w.members = append(w.members, m)
		var join []string
		if i > 1 {
			made, err := w.members[0].client().CreateToken(ctx, gateway.NewToken{Role: "node"})
			if err != nil {
				return err
			}
			join = []string{"--join", w.wires.Advertise(1).String(), "--token", made.Token}
		}
		if err := m.start(ctx, w.token, join...); err != nil {
			return err
		}
		if i == 1 {
			if w.token, err = m.node.Token(); err != nil {
				return err
			}
		}
	}
	return w.whole(ctx, healsWithin)
}

// ErrMeshNotReady says that the mesh was not whole in time.
var ErrMeshNotReady = errors.New("not all nodes came up as members, with the expected number of voters")

// whole waits until every node sees all nodes up and the expected number of voters.
func (w *world) whole(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, ErrMeshNotReady)
	defer cancel()
	for _, m := range w.members {
		for !w.seesAll(ctx, m) {
			if err := pause(ctx, looksEvery); err != nil {
				return err
			}
		}
	}
	return nil
}

// seesAll reports whether a node sees the whole mesh.
func (w *world) seesAll(ctx context.Context, m *member) bool {
	door := m.client()
	if door == nil {
		return false
	}
	list, err := door.Nodes(ctx)
	if err != nil {
		return false
	}
	up, voters := 0, 0
	for _, n := range list.Nodes {
		if n.State == "up" {
			up++
			if n.Voter {
				voters++
			}
		}
	}
	want := min((len(w.members)-1)|1, 5)
	if len(w.members) < 3 {
		want = 1
	}
	return up == len(w.members) && voters == want
}

// numberOf returns the number of a node by id; 0 if it is not of this mesh.
func (w *world) numberOf(id string) int {
	for _, m := range w.members {
		if m.id == id {
			return m.number
		}
	}
	return 0
}

// leader returns the number of the leading node, as the first node that knows it says; 0 if
// none does.
func (w *world) leader(ctx context.Context) int {
	for _, m := range w.members {
		if door := m.client(); door != nil {
			if s, err := door.Status(ctx); err == nil && s.Leader != "" {
				return w.numberOf(s.Leader)
			}
		}
	}
	return 0
}

// end stops the mesh, whatever its state. In haste the nodes are killed.
func (w *world) end(haste bool) error {
	var work sync.WaitGroup
	errs := make([]error, len(w.members))
	for i, m := range w.members {
		work.Go(func() {
			if haste {
				errs[i] = m.kill()
				return
			}
			status, err := m.drain()
			if err == nil && status != 0 {
				err = fmt.Errorf("it ended with status %d", status)
			}
			if err != nil {
				errs[i] = fmt.Errorf("node %d: %w", m.number, err)
			}
		})
	}
	work.Wait()
	if w.wires != nil {
		errs = append(errs, w.wires.Close())
	}
	return errors.Join(errs...)
}

// pause waits, or returns the cause of the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
