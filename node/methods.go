package node

import (
	"context"
	"encoding/json"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/audit"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// The methods that nodes call on each other, so that every API works through any node.
const (
	methodSteer          = "calls/steer"     // steer a call that runs here or has its record here
	methodPrimitive      = "calls/primitive" // answer a primitive of a call with its record here
	methodUses           = "calls/uses"      // list the uses of primitives of such a call
	methodFind           = "calls/find"      // look for the record of a call
	methodList           = "calls/list"      // list an actor's calls with records here
	methodStatus         = "sessions/status" // state of an actor's sessions here
	methodInspect        = "sessions/inspect"
	methodReset          = "sessions/reset"
	methodFork           = "sessions/fork"
	methodEnd            = "sessions/end" // drop a session that was closed
	methodEvents         = "events/follow"
	methodEventsAfter    = "events/after"
	methodAuditRead      = "audit/read"
	methodAuditFollow    = "audit/follow"
	methodAuditVerify    = "audit/verify"    // verify the log of this node
	methodAuditWitness   = "audit/witness"   // record the head of the caller's log
	methodAuditWitnessed = "audit/witnessed" // list the recorded heads of a node's log
	methodAdmit          = "nodes/admit"     // admit the caller to the registry
)

type (
	steerAsk struct {
		Actor  string          `json:"actor"`
		CallID string          `json:"call_id"`
		Action string          `json:"action"`
		Body   json.RawMessage `json:"body,omitempty"`
	}
	primitiveAsk struct {
		Actor  string          `json:"actor"`
		CallID string          `json:"call_id"`
		Seq    string          `json:"seq"`
		Body   json.RawMessage `json:"body"`
	}
	callAsk struct {
		Actor  string `json:"actor"`
		CallID string `json:"call_id"`
		// ActorID is empty where any actor of the name is meant, as for a call found before.
		ActorID string `json:"actor_id,omitempty"`
		// Key is the idempotency key that stands for the call, if its kept result is wanted too.
		Key string `json:"key,omitempty"`
	}
	findReply struct {
		Here bool `json:"here"`
		// Guest says that the node has only an attempt of the call, not its record.
		Guest bool `json:"guest,omitempty"`
		// Kept says that the node has only the call's result, under its idempotency key.
		Kept   bool            `json:"kept,omitempty"`
		Result surfaces.Result `json:"result"`
	}
	actorAsk struct {
		Actor   string `json:"actor"`
		ActorID string `json:"actor_id,omitempty"`
	}
	// sessionAsk names a session. Its owner checks the epoch.
	sessionAsk struct {
		Key    wireKey `json:"key"`
		Epoch  uint64  `json:"epoch"`
		Detail string  `json:"detail,omitempty"`
		// To and ToEpoch name the copy that a fork makes.
		To      wireKey `json:"to,omitzero"`
		ToEpoch uint64  `json:"to_epoch,omitempty"`
	}
	// wireKey is a session's key with JSON names of its own, which are part of the protocol.
	wireKey struct {
		Actor    string            `json:"actor"`
		Language surfaces.Language `json:"language"`
		Venv     int               `json:"venv,omitempty"`
		ID       int               `json:"id"`
	}
	sessionStatus struct {
		Key         wireKey   `json:"key"`
		Epoch       uint64    `json:"epoch"`
		Busy        bool      `json:"busy"`
		Calls       int64     `json:"calls"`
		LastUsed    time.Time `json:"last_used"`
		MemoryBytes int64     `json:"memory_bytes"`
	}
	nothing struct{}
)

func wireKeyOf(k surfaces.SessionKey) wireKey { return wireKey{k.Actor, k.Language, k.Venv, k.ID} }

func (k wireKey) key() surfaces.SessionKey {
	return surfaces.SessionKey{Actor: k.Actor, Language: k.Language, Venv: k.Venv, ID: k.ID}
}

// toolMethods returns the methods that this node serves.
func (n *Node) toolMethods() map[string]mesh.Method {
	return map[string]mesh.Method{
		methodSteer: handler(n, func(ctx context.Context, q steerAsk) (json.RawMessage, error) {
			e, err := n.mustHaveRecord(q.Actor, q.CallID)
			if err != nil {
				return nil, err
			}
			return e.Steer(ctx, q.Action, q.Body)
		}),
		methodPrimitive: handler(n, func(ctx context.Context, q primitiveAsk) (nothing, error) {
			e, err := n.mustHaveRecord(q.Actor, q.CallID)
			if err != nil {
				return nothing{}, err
			}
			return nothing{}, e.AnswerPrimitive(ctx, q.Seq, q.Body)
		}),
		methodUses: handler(n, func(ctx context.Context, q callAsk) ([]surfaces.UseRecord, error) {
			e, err := n.mustHaveRecord(q.Actor, q.CallID)
			if err != nil {
				return nil, err
			}
			return e.Primitives(ctx)
		}),
		methodFind: handler(n, func(ctx context.Context, q callAsk) (findReply, error) {
			r := n.heldRecord(q.Actor, q.CallID)
			switch {
			case r == nil && q.Key != "":
				return n.keptResult(ctx, q)
			case r == nil || !belongs(r, q.ActorID):
				return findReply{}, nil
			}
			return findReply{Here: true, Guest: n.calls.Get(q.Actor, q.CallID) == nil, Result: r.Result()}, nil
		}),
		methodList: handler(n, func(_ context.Context, q actorAsk) ([]gateway.CallSummary, error) { return n.callsHere(q), nil }),
		methodStatus: handler(n, func(_ context.Context, q actorAsk) ([]sessionStatus, error) {
			list := []sessionStatus{}
			for key, st := range n.engine.Sessions(q.Actor) {
				list = append(list, sessionStatus{wireKeyOf(key), st.Epoch, st.Busy, st.Calls, st.LastUsed, st.MemoryBytes})
			}
			return list, nil
		}),
		methodInspect: handler(n, func(ctx context.Context, q sessionAsk) (json.RawMessage, error) {
			return n.inspectHere(ctx, q.Key.key(), q.Epoch, kernel.Detail(q.Detail))
		}),
		methodReset: handler(n, func(ctx context.Context, q sessionAsk) (nothing, error) {
			return nothing{}, n.engine.ResetSession(ctx, q.Key.key(), q.Epoch)
		}),
		methodEnd: handler(n, func(_ context.Context, q sessionAsk) (nothing, error) {
			n.engine.CloseSession(q.Key.key(), q.Epoch)
			return nothing{}, nil
		}),
		methodFork: handler(n, n.forkHere),
		methodAdmit: peer.JSONMethod(mesh.Control, func(ctx context.Context, from certs.Identity, _ nothing) (nothing, error) {
			if err := n.awaitRegistry(ctx); err != nil {
				return nothing{}, err
			}
			return nothing{}, n.registry.AddMember(ctx, registry.NodeID(from.ID))
		}),
		methodEvents:         {Roles: []certs.Role{certs.RoleNode}, Class: mesh.Data, Handle: n.serveEvents},
		methodEventsAfter:    {Roles: []certs.Role{certs.RoleNode}, Class: mesh.Data, Handle: n.serveEventsAfter},
		methodAuditFollow:    {Roles: []certs.Role{certs.RoleNode}, Class: mesh.Data, Handle: n.serveAudit},
		methodAuditRead:      handler(n, func(ctx context.Context, f audit.Filter) (audit.Page, error) { return n.audit.Read(ctx, f) }),
		methodAuditVerify:    handler(n, n.verifyHere),
		methodAuditWitnessed: handler(n, func(ctx context.Context, q witnessedAsk) ([]audit.Head, error) { return n.witnessed(ctx, q.Node) }),
		methodAuditWitness: peer.JSONMethod(mesh.Control, func(ctx context.Context, from certs.Identity, head audit.Head) (nothing, error) {
			if err := n.awaitRegistry(ctx); err != nil {
				return nothing{}, err
			}
			n.witness(from.ID, head)
			return nothing{}, nil
		}),
	}
}

// handler makes a method that waits until the node is open. Its errors are refusals, like
// those of the gateway.
func handler[Q, A any](n *Node, handle func(context.Context, Q) (A, error)) mesh.Method {
	return peer.JSONMethod(mesh.Data, func(ctx context.Context, _ certs.Identity, q Q) (A, error) {
		var none A
		if err := n.awaitRegistry(ctx); err != nil {
			return none, err
		}
		a, err := handle(ctx, q)
		if err != nil {
			return none, n.fault(err)
		}
		return a, nil
	})
}
