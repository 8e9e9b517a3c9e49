package agentlink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
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

	mu       sync.Mutex
	attached map[string]*attachment // by machine id
	flights  map[string]*flight     // by call id
	over     []*flight              // given up, and kept for a late result; oldest first
	draining bool
	unsaid   map[string]bool // machines whose coming or going is not noted yet
	news     chan struct{}
}

// NewHub makes a hub. Run must be called for it to note who is there.
func NewHub(cfg HubConfig) *Hub {
	return &Hub{
		cfg: cfg, attached: map[string]*attachment{}, flights: map[string]*flight{}, unsaid: map[string]bool{}, news: make(chan struct{}, 1),
	}
}

// attachment is a machine's connection.
type attachment struct {
	machine Machine
	facts   Facts
	queue   chan offer
	offers  map[string]bool // call ids that were offered here
	end     context.CancelCauseFunc
	noted   bool // the directory knows
}

// Bounds on what waits for one machine.
const (
	queuedOffers     = 64
	rememberedOffers = 4096
)

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

// attach holds a machine's connection: what is offered to it goes out, what it says of
// itself comes in.
func (h *Hub) attach(ctx context.Context, s *mesh.Stream) error {
	var hi hello
	if err := first(s, &hi); err != nil {
		return err
	}
	if hi.Protocol != protocol {
		return &mesh.Error{Code: codeVersion, Message: "this node speaks another version of the link"}
	}
	m, err := h.known(ctx, s.Peer())
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	at := &attachment{machine: m, facts: hi.Facts.bounded(), queue: make(chan offer, queuedOffers), offers: map[string]bool{}, end: end}
	if !h.enter(at) {
		return errDraining
	}
	defer h.exit(at)
	if err := sendJSON(s, welcome{Name: m.Name, Actor: m.Actor, Node: h.cfg.Node, Nodes: h.cfg.Directory.Nodes()}); err != nil {
		return err
	}
	silent := time.AfterFunc(silentAfter, func() { end(errSilent) })
	defer silent.Stop()
	go func() { end(h.hear(s, at, silent)) }() // ends with the stream, which ends with this handler
	for {
		select {
		case o := <-at.queue:
			if err := sendJSON(s, o); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

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

// factsEvery is the least time between two things that a machine says of itself.
const factsEvery = time.Second

// hear takes what a machine says of itself, and each message as a sign of life, until its
// stream ends.
func (h *Hub) hear(s *mesh.Stream, at *attachment, silent *time.Timer) error {
	for {
		b, err := receive(s, maxSmall)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		silent.Reset(silentAfter)
		if len(b) > 0 {
			var f Facts
			if err := json.Unmarshal(b, &f); err != nil {
				return fmt.Errorf("%w: %w", mesh.ErrProtocol, err)
			}
			h.mu.Lock()
			at.facts, at.noted = f.bounded(), false
			h.mu.Unlock()
			h.say(at.machine.ID)
		}
		pause := time.NewTimer(factsEvery)
		select {
		case <-pause.C:
		case <-s.Context().Done():
			pause.Stop()
		}
	}
}

// Bounds on a machine's facts; what is longer is cut.
const (
	maxFact    = 64
	maxConsent = 200
)

func (f Facts) bounded() Facts {
	cut := func(s string, most int) string {
		if len(s) > most {
			s = s[:most]
		}
		return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
	}
	f.OS, f.Arch, f.Version, f.Consent = cut(f.OS, maxFact), cut(f.Arch, maxFact), cut(f.Version, maxFact), cut(f.Consent, maxConsent)
	known := surfaces.Languages()
	f.Languages = slices.DeleteFunc(slices.Clone(f.Languages), func(l string) bool { return !slices.Contains(known, surfaces.Language(l)) })
	slices.Sort(f.Languages)
	f.Languages = slices.Compact(f.Languages)
	return f
}

func (h *Hub) enter(at *attachment) bool {
	h.mu.Lock()
	before := h.attached[at.machine.ID]
	if h.draining {
		h.mu.Unlock()
		return false
	}
	h.attached[at.machine.ID] = at
	if before == nil {
		h.cfg.Told(MachineUp, at.machine)
	}
	h.mu.Unlock()
	if before != nil {
		before.end(errReplaced)
	}
	h.say(at.machine.ID)
	return true
}

func (h *Hub) exit(at *attachment) {
	h.mu.Lock()
	mine := h.attached[at.machine.ID] == at
	if mine {
		delete(h.attached, at.machine.ID)
		h.cfg.Told(MachineDown, at.machine)
	}
	h.mu.Unlock()
	if mine {
		h.say(at.machine.ID)
	}
}

// Attached tells which machines are connected to this node.
func (h *Hub) Attached() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for id := range h.attached {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Has reports whether a machine is connected to this node.
func (h *Hub) Has(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attached[id] != nil
}

// Cut ends the connection of a machine that is not linked any more.
func (h *Hub) Cut(id string) {
	h.mu.Lock()
	at := h.attached[id]
	h.mu.Unlock()
	if at != nil {
		at.end(errUnlinked)
	}
}

// Renote has the directory told once more that a machine is here.
func (h *Hub) Renote(id string) {
	h.mu.Lock()
	if at := h.attached[id]; at != nil {
		at.noted = false
	}
	h.mu.Unlock()
	h.say(id)
}

// Drain sends the machines to other nodes. Calls that run on them go on.
func (h *Hub) Drain() {
	h.mu.Lock()
	h.draining = true
	all := make([]*attachment, 0, len(h.attached))
	for _, at := range h.attached {
		all = append(all, at)
	}
	h.mu.Unlock()
	for _, at := range all {
		at.end(errDraining)
	}
}

func (h *Hub) say(id string) {
	h.mu.Lock()
	h.unsaid[id] = true
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

const (
	// sayEvery is the least time between two rounds of telling the directory, and
	// sayAgain the pause after one that failed.
	sayEvery = 50 * time.Millisecond
	sayAgain = time.Second
	saySoon  = 10 * time.Second
)

// Run tells the directory who comes and goes, until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	if h.cfg.Ready(ctx) != nil {
		return
	}
	for {
		select {
		case <-h.news:
		case <-ctx.Done():
			return
		}
		pause := sayEvery
		if !h.tell(ctx) {
			pause = sayAgain
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// tell notes every coming and going that is not noted yet; false when some could not be.
func (h *Hub) tell(ctx context.Context) bool {
	h.mu.Lock()
	ids := make([]string, 0, len(h.unsaid))
	for id := range h.unsaid {
		ids = append(ids, id)
	}
	clear(h.unsaid)
	h.mu.Unlock()
	ok := true
	for _, id := range ids {
		if err := h.note(ctx, id); err != nil {
			h.cfg.Log.Warn("the mesh could not be told of a machine; trying again", "machine", id, "error", err)
			h.say(id)
			ok = false
		}
	}
	return ok
}

func (h *Hub) note(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, saySoon)
	defer cancel()
	h.mu.Lock()
	at := h.attached[id]
	var facts Facts
	if at != nil {
		facts = at.facts
	}
	h.mu.Unlock()
	if at == nil {
		return h.cfg.Directory.Parted(ctx, id)
	}
	if err := h.cfg.Directory.Met(ctx, id, facts); err != nil {
		return err
	}
	h.mu.Lock()
	at.noted = true
	h.mu.Unlock()
	return nil
}

// offer puts a call before a machine whose connection is here.
func (h *Hub) offer(machine string, o offer) told {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.attached[machine]
	switch {
	case at == nil:
		return told{}
	case at.offers[o.CallID]:
		return told{Sent: true} // what is asked again is surely on its way
	case len(at.offers) >= rememberedOffers:
		clear(at.offers) // the machine remembers too
	}
	select {
	case at.queue <- o:
		at.offers[o.CallID] = true
		return told{Sent: true}
	default:
		return told{Busy: true}
	}
}

func (h *Hub) serveOffer(ctx context.Context, s *mesh.Stream) error {
	var q offered
	if err := first(s, &q); err != nil {
		return err
	}
	if err := h.cfg.Ready(ctx); err != nil {
		return err
	}
	return sendJSON(s, h.offer(q.Machine, q.Offer))
}

// call takes what a call says on a machine: for this node, if it is the call's home,
// else for the one that is.
func (h *Hub) call(ctx context.Context, s *mesh.Stream) error {
	var c claim
	if err := first(s, &c); err != nil {
		return err
	}
	if err := h.cfg.Ready(ctx); err != nil {
		return err
	}
	switch {
	case c.Home == h.cfg.Node:
		return h.land(ctx, s, s.Peer().ID, c)
	case h.cfg.Directory.Gone(c.Home):
		return errForgotten
	}
	return h.relay(ctx, s, c)
}

var errForgotten = &mesh.Error{Code: codeForgotten, Message: "nobody waits for the call any more"}

// relay carries frames between a machine and a call's home. It reads none of them.
func (h *Hub) relay(ctx context.Context, from *mesh.Stream, c claim) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to, err := h.cfg.Mesh().Stream(ctx, c.Home, methodRelay)
	if err != nil {
		return unreached(err)
	}
	defer to.Cancel()
	if err := sendJSON(to, relayed{Machine: from.Peer().ID, Claim: c}); err != nil {
		return unreached(err)
	}
	go func() { // ends with the machine's stream, which ends with this handler
		for {
			frame, err := from.Receive()
			if errors.Is(err, io.EOF) {
				_ = to.CloseSend() // what became of it is told to the other direction
				return
			}
			if err == nil {
				err = to.Send(frame)
			}
			if err != nil {
				cancel() // either end is gone, so there is nobody left to carry for
				return
			}
		}
	}()
	for {
		frame, err := to.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unreached(err)
		}
		if err := from.Send(frame); err != nil {
			return err
		}
	}
}

// unreached is what a machine is told when a call's home does not answer; what the home
// itself says is passed on.
func unreached(err error) error {
	var e *mesh.Error
	if errors.As(err, &e) {
		return e
	}
	return &mesh.Error{Code: codeLater, Message: "the call's home cannot be reached now"}
}

func (h *Hub) serveRelay(ctx context.Context, s *mesh.Stream) error {
	var r relayed
	if err := first(s, &r); err != nil {
		return err
	}
	return h.land(ctx, s, r.Machine, r.Claim)
}

func (h *Hub) renew(ctx context.Context, s *mesh.Stream) error {
	var q renewal
	if err := first(s, &q); err != nil {
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
	return sendJSON(s, renewed{Chain: chain, Trust: trust, Nodes: h.cfg.Directory.Nodes()})
}

// leave unlinks the machine that asks for it.
func (h *Hub) leave(ctx context.Context, s *mesh.Stream) error {
	var none nothing
	if err := first(s, &none); err != nil {
		return err
	}
	m, err := h.known(ctx, s.Peer())
	if err != nil {
		return err
	}
	h.cfg.Log.Info("a machine unlinks itself", "machine", m.Name, "actor", m.Actor)
	if err := sendJSON(s, nothing{}); err != nil {
		return err
	}
	return h.cfg.Directory.Unlink(context.WithoutCancel(ctx), s.Peer())
}

// ask puts a question to another node.
func ask[A, Q any](ctx context.Context, m *mesh.Mesh, node, method string, q Q) (A, error) {
	var a A
	b, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	s, err := m.Stream(ctx, node, method)
	if err != nil {
		return a, err
	}
	defer s.Cancel()
	if err := send(s, b); err != nil && !errors.Is(err, io.EOF) {
		return a, err
	}
	return a, receiveJSON(s, maxSmall, &a)
}
