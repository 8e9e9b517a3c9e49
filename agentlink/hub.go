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
	// Node is the node that holds the machine's connection; empty if none does.
	Node string
	// SeenAt is when the machine last connected or disconnected.
	SeenAt time.Time
}

// Directory is the mesh-wide directory of machines. Its methods must be safe for concurrent
// use.
type Directory interface {
	// Known returns the machine of an identity, from an up-to-date view.
	Known(ctx context.Context, id certs.Identity) (Machine, bool, error)
	// Find returns an actor's machine by its name, from the local view, which may be behind.
	Find(actor string, place surfaces.Place, name string) (Machine, bool)
	// Sync waits until the local view has every change that was acknowledged before the call.
	Sync(ctx context.Context) error
	// Changed returns a channel that is closed when there is a newer view.
	Changed() <-chan struct{}
	// Connected records that this node holds a machine's connection.
	Connected(ctx context.Context, id string, facts Facts) error
	// Disconnected records that this node no longer holds a machine's connection. It does
	// nothing if another node holds it by now.
	Disconnected(ctx context.Context, id string) error
	// Unlink removes a machine from the mesh.
	Unlink(ctx context.Context, id certs.Identity) error
	// Renew issues a certificate for a new key of a machine.
	Renew(ctx context.Context, id certs.Identity, spki []byte) ([][]byte, certs.Trust, error)
	// Nodes lists the addresses of nodes.
	Nodes() []mesh.NodeAddr
	// Elsewhere lists the addresses of the other nodes that are up and accept machines.
	Elsewhere() []mesh.NodeAddr
	// Gone reports whether a node is certainly no longer part of the mesh.
	Gone(node string) bool
}

// HubConfig configures a Hub. All fields are required.
type HubConfig struct {
	// Node is the id of this node.
	Node string
	// Mesh returns the node's mesh; it is called only once AwaitReady has returned.
	Mesh      func() *mesh.Mesh
	Directory Directory
	// AwaitReady waits until the directory can be used.
	AwaitReady func(ctx context.Context) error
	// LateResult takes the result of a call after Execute has returned. It returns false if the
	// call's record is no longer kept.
	LateResult func(callID string, res surfaces.Result) bool
	// OnEvent is called when a machine connects to this node or disconnects, in that order. It
	// must return quickly and must not call the hub.
	OnEvent func(kind string, m Machine)
	Log     *slog.Logger
}

// The kinds of events for HubConfig.OnEvent.
const (
	MachineUp   = "machine_up"
	MachineDown = "machine_down"
)

// Hub is a node's side of the link. Its methods are safe for concurrent use.
type Hub struct {
	cfg HubConfig

	mu         sync.Mutex
	attached   map[string]*attachment // by machine id
	calls      map[string]*hubCall    // by call id
	detached   []*hubCall             // Execute has returned; kept for a late result, oldest first
	draining   bool                   // the node shuts down, and accepts no machines
	redirected map[string]time.Time   // when machines were sent to other nodes; nil while they are not
	unreported map[string]bool        // machines whose presence must be reported to the directory
	large      map[string]int         // large messages being received, by machine id
	wake       chan struct{}          // holds a token when unreported has changed

	expected     map[string]chan struct{} // machines that are expected back; closed when they are, or are not
	returnWithin time.Duration            // how long calls wait for an expected machine
	offerWithin  time.Duration
}

// NewHub returns a hub. Run must be called so that it reports machines to the directory.
func NewHub(cfg HubConfig) *Hub {
	return &Hub{
		cfg: cfg, attached: map[string]*attachment{}, calls: map[string]*hubCall{}, unreported: map[string]bool{}, large: map[string]int{}, wake: make(chan struct{}, 1),
		expected: map[string]chan struct{}{}, returnWithin: returnWithin, offerWithin: offerWithin,
	}
}

// Methods returns the methods that the hub serves. Machines may call only those of the
// link.
func (h *Hub) Methods() map[string]mesh.Method {
	machines, nodes := []certs.Role{certs.RoleLink, certs.RoleVM}, []certs.Role{certs.RoleNode}
	return map[string]mesh.Method{
		// While the node drains, it accepts no machines but still serves the calls that run
		// on them.
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
	errReplaced = &mesh.Error{Code: codeReplaced, Message: "the machine has connected again"}
	errSilent   = &mesh.Error{Code: codeSilent, Message: "the machine has sent no heartbeat for too long"}
	errDraining = &mesh.Error{Code: codeDraining, Message: "this node drains and accepts no machines"}
)

// known returns the machine of an identity.
func (h *Hub) known(ctx context.Context, id certs.Identity) (Machine, error) {
	if err := h.cfg.AwaitReady(ctx); err != nil {
		return Machine{}, err
	}
	m, ok, err := h.cfg.Directory.Known(ctx, id)
	switch {
	case err != nil:
		return m, &mesh.Error{Code: codeLater, Message: "whether the machine is linked cannot be checked now"}
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

// leave unlinks the machine that calls it.
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
