package agentlink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// attachment is the connection of one machine to this node.
type attachment struct {
	machine  Machine
	facts    Facts
	queue    chan offer              // offers that wait to be sent
	offers   map[string]bool         // call ids that were offered on this connection
	end      context.CancelCauseFunc // closes the connection, with the reason
	reported bool                    // the directory knows the present facts
}

// Bounds on the offers of one machine.
const (
	queuedOffers     = 64
	rememberedOffers = 4096
)

// attach serves a machine's connection: it sends offers and receives the machine's facts
// and heartbeats.
func (h *Hub) attach(ctx context.Context, s *mesh.Stream) error {
	var hi hello
	if err := receiveFirst(s, maxFirst, &hi); err != nil {
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
	if !h.add(at) {
		return h.sentElsewhere()
	}
	defer func() { h.remove(at, context.Cause(ctx)) }()
	if err := sendJSON(s, welcome{Name: m.Name, Actor: m.Actor, Node: h.cfg.Node, Nodes: h.cfg.Directory.Nodes()}); err != nil {
		return err
	}
	silent := newSilence(func() { end(errSilent) })
	defer silent.stop()
	go func() { end(h.receiveFacts(s, at, silent)) }() // ends with the stream, which ends with this handler
	for {
		select {
		case o := <-at.queue:
			if err := sendJSON(s, o); err != nil {
				return err
			}
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if errors.Is(cause, errGoodbye) || errors.Is(cause, errDraining) {
				return h.parted(s, at, cause)
			}
			return cause
		}
	}
}

// errGoodbye: the machine has closed its side of the stream, because its agent ends.
var errGoodbye = errors.New("agentlink: the machine takes no further offers")

// parted ends the connection of a machine that has said goodbye, or is sent to another node.
// It still sends the offers that are queued: the machine reads up to the end of the stream,
// and answers each.
func (h *Hub) parted(s *mesh.Stream, at *attachment, cause error) error {
	h.remove(at, cause) // from here on nothing is queued
	late := time.AfterFunc(goodbyeWithin, s.Cancel)
	defer late.Stop()
	for {
		select {
		case o := <-at.queue:
			if err := sendJSON(s, o); err != nil {
				return err
			}
		default:
			if errors.Is(cause, errGoodbye) {
				return nil
			}
			return h.sentElsewhere()
		}
	}
}

// factsEvery is the minimum time between two messages that are read from a machine.
const factsEvery = time.Second

// receiveFacts reads the machine's facts until the stream ends, with errGoodbye if the
// machine has ended it. Every message, also an empty one, counts as a heartbeat.
func (h *Hub) receiveFacts(s *mesh.Stream, at *attachment, silent *silence) error {
	for {
		b, err := receive(s, maxSmall)
		if errors.Is(err, io.EOF) {
			return errGoodbye
		}
		if err != nil {
			return err
		}
		silent.heard()
		if len(b) > 0 {
			var f Facts
			if err := json.Unmarshal(b, &f); err != nil {
				return fmt.Errorf("%w: %w", mesh.ErrProtocol, err)
			}
			h.mu.Lock()
			at.facts, at.reported = f.bounded(), false
			h.mu.Unlock()
			h.reportSoon(at.machine.ID)
		}
		pause := time.NewTimer(factsEvery)
		select {
		case <-pause.C:
		case <-s.Context().Done():
			pause.Stop()
		}
	}
}

// Bounds on the texts in a machine's facts, in bytes. Longer ones are cut.
const (
	maxFact    = 64
	maxConsent = 200
)

// bounded returns the facts with bounded and valid text, and with known languages only.
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

// add makes at the machine's connection, and ends an earlier one. It returns false if the
// machine is to connect to another node.
func (h *Hub) add(at *attachment) bool {
	h.mu.Lock()
	before := h.attached[at.machine.ID]
	if h.draining || h.redirects(at.machine.ID) {
		h.mu.Unlock()
		return false
	}
	h.attached[at.machine.ID] = at
	h.expectNoMore(at.machine.ID)
	if before == nil {
		h.cfg.OnEvent(MachineUp, at.machine)
	}
	h.mu.Unlock()
	if before != nil {
		before.end(errReplaced)
	}
	h.reportSoon(at.machine.ID)
	return true
}

// remove removes a connection that was ended by cause, unless a newer one has replaced it.
func (h *Hub) remove(at *attachment, cause error) {
	expected := h.maybeBack(cause)
	h.mu.Lock()
	mine := h.attached[at.machine.ID] == at
	if mine {
		delete(h.attached, at.machine.ID)
		if expected {
			h.expect(at.machine.ID)
		}
		h.cfg.OnEvent(MachineDown, at.machine)
	}
	h.mu.Unlock()
	if mine && !expected {
		h.reportSoon(at.machine.ID)
	}
}

// Connected lists the machines that are connected to this node.
func (h *Hub) Connected() []string {
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

// Disconnect ends the connection of a machine that was unlinked.
func (h *Hub) Disconnect(id string) {
	h.mu.Lock()
	at := h.attached[id]
	h.mu.Unlock()
	if at != nil {
		at.end(errUnlinked)
	}
}

// Report reports a connected machine to the directory again.
func (h *Hub) Report(id string) {
	h.mu.Lock()
	if at := h.attached[id]; at != nil {
		at.reported = false
	}
	h.mu.Unlock()
	h.reportSoon(id)
}
