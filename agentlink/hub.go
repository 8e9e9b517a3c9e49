package agentlink

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// Machine is a linked machine as the mesh knows it.
type Machine struct {
	ID, Name, Actor string
	Place           surfaces.Place
	Languages       []string
	// Node holds its connection; empty for none.
	Node string
	// SeenAt is when it came or went last.
	SeenAt time.Time
}

// Directory is what the whole mesh knows of machines. Its methods may be called at the
// same time.
type Directory interface {
	// Known gives the machine of an identity, by a view that is surely not behind.
	Known(ctx context.Context, id certs.Identity) (Machine, bool, error)
	// Find gives an actor's machine by its name, by the present view; Fresh makes sure
	// that the view is not behind.
	Find(actor string, place surfaces.Place, name string) (Machine, bool)
	Fresh(ctx context.Context) error
	// Changed gives a channel that is closed when there is another view.
	Changed() <-chan struct{}
	// Met says that this node holds a machine's connection, Parted that it does no more.
	Met(ctx context.Context, id string, facts Facts) error
	Parted(ctx context.Context, id string) error
	// Unlink takes a machine out of the mesh.
	Unlink(ctx context.Context, id certs.Identity) error
	// Renew certifies another key for a machine.
	Renew(ctx context.Context, id certs.Identity, spki []byte) ([][]byte, certs.Trust, error)
	// Nodes tells where nodes can be dialled.
	Nodes() []mesh.NodeAddr
	// Gone reports whether a node is surely not one of the mesh any more.
	Gone(node string) bool
}

// HubConfig says what a hub needs. All fields are required.
type HubConfig struct {
	Node      string
	Mesh      func() *mesh.Mesh
	Directory Directory
	// Ready waits until the directory can be asked.
	Ready func(ctx context.Context) error
	// Late takes the result of a call that nobody waits for any more; false when the
	// call is not kept any more.
	Late func(callID string, res surfaces.Result) bool
	// Told is told of machines that come and go here, in the order in which they do. It
	// must return quickly, and not come back to the hub.
	Told func(kind string, m Machine)
	Log  *slog.Logger
}

// The kinds of what HubConfig.Told is told.
const (
	MachineUp   = "machine_up"
	MachineDown = "machine_down"
)

// Hub is a node's part of the link. Its methods may be called at the same time.
type Hub struct {
	cfg HubConfig

	mu         sync.Mutex
	attached   map[string]*attachment // by machine id
	calls      map[string]*hubCall    // by call id
	detached   []*hubCall             // given up, and kept for a late result; oldest first
	draining   bool
	unreported map[string]bool // machines whose coming or going is not noted yet
	large      map[string]int  // large messages that are being taken, by machine id
	wake       chan struct{}
}

// NewHub makes a hub. Run must be called for it to note who is there.
func NewHub(cfg HubConfig) *Hub {
	return &Hub{
		cfg: cfg, attached: map[string]*attachment{}, calls: map[string]*hubCall{}, unreported: map[string]bool{}, large: map[string]int{}, wake: make(chan struct{}, 1),
	}
}

// Methods gives what the hub serves. Machines may call those of the link, and nothing
// else in the mesh.
func (h *Hub) Methods() map[string]mesh.Method {
	machines, nodes := []certs.Role{certs.RoleLink, certs.RoleVM}, []certs.Role{certs.RoleNode}
	return map[string]mesh.Method{
		// A node that drains takes no new machine, and still hears what runs on those it has.
		methodAttach: {Roles: machines, Class: mesh.Data, Handle: h.attach},
		methodCall:   {Roles: machines, Class: mesh.Control, Handle: h.call},
		methodRenew:  {Roles: machines, Class: mesh.Control, Handle: h.renew},
		methodLeave:  {Roles: machines, Class: mesh.Control, Handle: h.leave},
		methodOffer:  {Roles: nodes, Class: mesh.Control, Handle: h.serveOffer},
		methodRelay:  {Roles: nodes, Class: mesh.Control, Handle: h.serveRelay},
	}
}

var (
	errUnlinked = &mesh.Error{Code: codeUnlinked, Message: "this machine is not linked with the mesh any more"}
	errReplaced = &mesh.Error{Code: codeReplaced, Message: "the machine has come back on another connection"}
	errSilent   = &mesh.Error{Code: codeSilent, Message: "the machine has given no sign of life for too long"}
	errDraining = &mesh.Error{Code: codeDraining, Message: "this node holds no machines any more"}
)

// known gives the machine of an identity.
func (h *Hub) known(ctx context.Context, id certs.Identity) (Machine, error) {
	if err := h.cfg.Ready(ctx); err != nil {
		return Machine{}, err
	}
	m, ok, err := h.cfg.Directory.Known(ctx, id)
	switch {
	case err != nil:
		return m, &mesh.Error{Code: codeLater, Message: "it cannot be told now whether the machine is linked"}
	case !ok:
		return m, errUnlinked
	}
	return m, nil
}

func (h *Hub) renew(ctx context.Context, s *mesh.Stream) error {
	var q renewRequest
	if err := receiveFirst(s, maxFirst, &q); err != nil {
		return err
	}
	if _, err := h.known(ctx, s.Peer()); err != nil {
		return err
	}
	chain, trust, err := h.cfg.Directory.Renew(ctx, s.Peer(), q.SPKI)
	if err != nil {
		h.cfg.Log.Warn("a machine's certificate could not be renewed", "machine", s.Peer(), "error", err)
		return &mesh.Error{Code: codeLater, Message: "the certificate cannot be renewed now"}
	}
	return sendJSON(s, renewReply{Chain: chain, Trust: trust, Nodes: h.cfg.Directory.Nodes()})
}

// leave unlinks the machine that asks for it.
func (h *Hub) leave(ctx context.Context, s *mesh.Stream) error {
	var none empty
	if err := receiveFirst(s, maxFirst, &none); err != nil {
		return err
	}
	m, err := h.known(ctx, s.Peer())
	if err != nil {
		return err
	}
	h.cfg.Log.Info("a machine unlinks itself", "machine", m.Name, "actor", m.Actor)
	if err := sendJSON(s, empty{}); err != nil {
		return err
	}
	return h.cfg.Directory.Unlink(context.WithoutCancel(ctx), s.Peer())
}
