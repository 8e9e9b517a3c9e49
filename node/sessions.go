package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/locusrun/locus/node/engine"
	"github.com/locusrun/locus/node/gateway"
	"github.com/locusrun/locus/node/kernel"
	"github.com/locusrun/locus/node/peer"
	"github.com/locusrun/locus/registry"
	"github.com/locusrun/locus/surfaces"
)

// view returns what one actor can see of the mesh.
func (n *Node) view(actor string) surfaces.View {
	v := surfaces.View{Actor: actor, Languages: n.languages(), Places: surfaces.Places()}
	stored := n.registry.View()
	for _, e := range stored.Venvs() {
		v.Venvs = append(v.Venvs, surfaces.VenvItem{ID: e.ID, Name: e.Name})
	}
	for _, m := range stored.MachinesOf(actor) {
		v.Machines = append(v.Machines, surfaces.MachineItem{Name: m.Name, Place: placeOf(m), Online: n.connected(stored, m), Languages: languagesOf(m)})
	}
	for _, s := range stored.SessionsOf(actor) {
		used := s.LastUsedAt.Time()
		if at := n.engine.LastUsed(s.Key); at.After(used) {
			used = at
		}
		v.Sessions = append(v.Sessions, surfaces.SessionItem{
			Key: s.Key, Name: s.Name, State: surfaces.SessionState(s.State), Epoch: uint64(s.Epoch),
			LastUsed: used, Counts: s.Counted(),
		})
	}
	return v
}

// languages lists the languages of all nodes that are up, in the contract's order.
func (n *Node) languages() []surfaces.Language {
	list := n.runtimes.languages()
	for _, node := range n.registry.View().Nodes() {
		if node.State != registry.NodeUp || node.ID == n.id {
			continue
		}
		for _, name := range node.Languages {
			if l := surfaces.Language(name); !slices.Contains(list, l) {
				list = append(list, l)
			}
		}
	}
	order := surfaces.Languages()
	slices.SortFunc(list, func(a, b surfaces.Language) int { return slices.Index(order, a) - slices.Index(order, b) })
	return list
}

func (n *Node) selection(ctx context.Context, who gateway.Caller, tool string, body []byte) (surfaces.Selection, error) {
	sel, refusal := resolveFresh(ctx, n, func() (surfaces.Selection, *surfaces.Refusal) {
		return surfaces.ResolveSelector(body, tool, n.view(who.Actor))
	})
	if refusal != nil {
		return sel, refusal
	}
	return sel, nil
}

// ListSessions lists the actor's sessions.
func (n *Node) ListSessions(ctx context.Context, who gateway.Caller, body []byte) (gateway.SessionList, error) {
	if _, err := n.selection(ctx, who, surfaces.ToolList, body); err != nil {
		return gateway.SessionList{}, err
	}
	n.refresh(ctx) // the view may be behind
	list := gateway.SessionList{Sessions: []gateway.SessionInfo{}, Limit: surfaces.MaxSessions}
	sessions := n.registry.View().SessionsOf(who.Actor)
	status := n.sessionStatuses(ctx, who.Actor, sessions)
	for _, s := range sessions {
		list.Sessions = append(list.Sessions, info(s, status[s.Key]))
	}
	return list, nil
}

// info combines what the registry and the engine know of a session.
func info(s registry.Session, st engine.SessionStatus) gateway.SessionInfo {
	i := gateway.SessionInfo{
		Language: s.Key.Language, SessionID: s.Key.ID, Node: string(s.Owner), State: string(s.State), Epoch: uint64(s.Epoch),
		CreatedAt: s.CreatedAt.Time(), LastUsedAt: s.LastUsedAt.Time(), Calls: int64(s.Calls),
	}
	if s.Name != "" {
		i.SessionName = &s.Name
	}
	if s.Key.Venv != 0 {
		i.VenvID = &s.Key.Venv
	}
	if !s.Loss.IsZero() && (s.State == registry.SessionLost || !s.Loss.Told) {
		i.StateLost = surfaces.StateLost{Loss: &surfaces.Loss{
			Reason: string(s.Loss.Reason), At: s.Loss.At.Time().Format(time.RFC3339Nano), Epoch: uint64(s.Loss.Epoch),
		}}
	}
	if st.Epoch == uint64(s.Epoch) && s.State == registry.SessionLive {
		if st.Busy {
			i.State = "busy"
		}
		i.Calls += st.Calls
		i.MemoryBytes = st.MemoryBytes
		if st.LastUsed.After(i.LastUsedAt) {
			i.LastUsedAt = st.LastUsed.UTC()
		}
	}
	i.Summary = fmt.Sprintf("%s session %d, %s, %s", i.Language, i.SessionID, i.State, surfaces.Count(i.Calls, "call", "calls"))
	return i
}

// sessionInfo describes a single session.
func (n *Node) sessionInfo(ctx context.Context, key surfaces.SessionKey) (gateway.SessionInfo, error) {
	s, ok := n.registry.View().Session(key)
	if !ok {
		return gateway.SessionInfo{}, &surfaces.Refusal{Code: surfaces.CodeSessionNotFound, Message: "the session was closed meanwhile"}
	}
	return info(s, n.sessionStatuses(ctx, key.Actor, []registry.Session{s})[key]), nil
}

// usableSession returns the record of a session whose state exists. An actor's default session is
// created on first use.
func (n *Node) usableSession(ctx context.Context, ref *surfaces.SessionRef) (registry.Session, error) {
	s, ok := n.registry.View().Session(ref.Key)
	if !ok && ref.Key.IsPlan() {
		out, err := n.registry.ClaimSession(ctx, registry.ClaimSession{Key: ref.Key, Owner: n.id, Incarnation: n.life()})
		if err != nil {
			return s, n.fault(err)
		}
		s, ok = out.Session, out.Result == registry.Claimed || out.Result == registry.AlreadyOwned
	}
	switch {
	case !ok:
		return s, &surfaces.Refusal{Code: surfaces.CodeSessionNotFound, Message: "there is no such session"}
	case s.State == registry.SessionLost:
		return s, &surfaces.Refusal{
			Code: surfaces.CodeSessionLost, Message: fmt.Sprintf("the state of the session is gone (%s)", s.Loss.Reason),
			Suggestion: "Run a stateful call in it to build its state again, or reset it.",
		}
	case s.State == registry.SessionUnreachable || s.Owner == n.id && !n.mayServe():
		return s, &surfaces.Refusal{Code: surfaces.CodeOwnerUnreachable, Message: "the session is owned by node " + string(s.Owner) + ", which cannot be reached", RetryAfterS: 1}
	}
	return s, nil
}

// InspectState describes the state of a session.
func (n *Node) InspectState(ctx context.Context, who gateway.Caller, body []byte) (gateway.Inspection, error) {
	sel, err := n.selection(ctx, who, surfaces.ToolInspect, body)
	if err != nil {
		return gateway.Inspection{}, err
	}
	s, err := n.usableSession(ctx, sel.Session)
	if err != nil {
		return gateway.Inspection{}, err
	}
	ask := sessionAsk{Key: wireKeyOf(s.Key), Epoch: uint64(s.Epoch), Detail: string(sel.Detail)}
	state, err := n.atOwner(ctx, s.Owner, methodInspect, ask, func() (json.RawMessage, error) {
		return n.inspectHere(ctx, s.Key, ask.Epoch, kernel.Detail(sel.Detail))
	})
	if err != nil {
		return gateway.Inspection{}, n.fault(err)
	}
	i, err := n.sessionInfo(ctx, s.Key)
	return gateway.Inspection{Session: i, State: state}, err
}

// atOwner runs an operation on a session's owner.
func (n *Node) atOwner(ctx context.Context, owner registry.NodeID, method string, ask sessionAsk, here func() (json.RawMessage, error)) (json.RawMessage, error) {
	if owner == n.id {
		return here()
	}
	return askOwner[json.RawMessage](ctx, n, 0, owner, method, ask)
}

// inspectHere describes the state of a session on this node.
func (n *Node) inspectHere(ctx context.Context, key surfaces.SessionKey, epoch uint64, detail kernel.Detail) (json.RawMessage, error) {
	state, err := n.engine.Inspect(ctx, key, epoch, detail)
	if err != nil {
		return nil, err
	}
	if state.Shell != nil {
		return json.Marshal(state.Shell)
	}
	return json.Marshal(state.Python)
}

// CloseSession ends a session and everything that it started.
func (n *Node) CloseSession(ctx context.Context, who gateway.Caller, body []byte) (gateway.Closed, error) {
	sel, err := n.selection(ctx, who, surfaces.ToolClose, body)
	if err != nil {
		return gateway.Closed{}, err
	}
	if !sel.Session.Exists {
		asking, cancel := context.WithTimeout(ctx, freshTimeout)
		_, err := n.registry.Fresh(asking)
		cancel()
		if err != nil {
			return gateway.Closed{}, n.fault(err)
		}
		if sel, err = n.selection(ctx, who, surfaces.ToolClose, body); err != nil {
			return gateway.Closed{}, err
		}
	}
	if !sel.Session.Exists {
		return gateway.Closed{Reason: "not_found"}, nil
	}
	out, err := n.registry.CloseSession(ctx, registry.CloseSession{Key: sel.Session.Key})
	if err != nil {
		return gateway.Closed{}, n.fault(err)
	}
	if out.Result != registry.Closed {
		return gateway.Closed{Reason: "not_found"}, nil
	}
	n.endAtOwner(ctx, out.Session)
	n.events.publish("session_closed", map[string]any{"actor": who.Actor, "language": out.Session.Key.Language, "session_id": out.Session.Key.ID})
	return gateway.Closed{Closed: true, Reason: "success"}, nil
}

// endAtOwner makes the owner drop a closed session at once, so that callers with an older
// view cannot use it. An owner that does not answer learns it from the registry.
func (n *Node) endAtOwner(ctx context.Context, closed registry.Session) {
	if closed.Owner == n.id {
		n.engine.CloseSession(closed.Key, uint64(closed.Epoch))
		return
	}
	if closed.Loss.Epoch == closed.Epoch {
		return // lost before: its owner has nothing left
	}
	ctx, cancel := context.WithTimeout(ctx, othersTimeout)
	defer cancel()
	ask := sessionAsk{Key: wireKeyOf(closed.Key), Epoch: uint64(closed.Epoch)}
	if _, err := peer.CallJSON[nothing](ctx, n.mesh, string(closed.Owner), methodEnd, ask); err != nil {
		n.cfg.Log.Info("the owner of a closed session could not be told", "node", closed.Owner, "error", err)
	}
}

// ResetSession clears a session's state and keeps its name.
func (n *Node) ResetSession(ctx context.Context, who gateway.Caller, body []byte) (gateway.SessionInfo, error) {
	sel, err := n.selection(ctx, who, surfaces.ToolReset, body)
	if err != nil {
		return gateway.SessionInfo{}, err
	}
	key := sel.Session.Key
	s, ok := n.registry.View().Session(key)
	if ok && s.State == registry.SessionLost {
		// The state is lost already. By the reset the caller shows that it knows, so the
		// loss is acknowledged too.
		out, err := n.registry.RebuildSession(ctx, registry.RebuildSession{Key: key, Expected: s.Epoch, Owner: n.id, Incarnation: n.life()})
		if err != nil {
			return gateway.SessionInfo{}, n.fault(err)
		}
		if out.Result == registry.Rebuilt {
			_, err := n.registry.AckLoss(ctx, registry.AckLoss{Key: key, Grant: out.Session.Grant(), Lost: out.Session.Loss.Epoch})
			if err != nil {
				return gateway.SessionInfo{}, n.fault(err)
			}
		}
		return n.sessionInfo(ctx, key)
	}
	if s, err = n.usableSession(ctx, sel.Session); err != nil {
		return gateway.SessionInfo{}, err
	}
	ask := sessionAsk{Key: wireKeyOf(key), Epoch: uint64(s.Epoch)}
	_, err = n.atOwner(ctx, s.Owner, methodReset, ask, func() (json.RawMessage, error) {
		return nil, n.engine.ResetSession(ctx, key, ask.Epoch)
	})
	if err != nil {
		return gateway.SessionInfo{}, n.fault(err)
	}
	return n.sessionInfo(ctx, key)
}

// ForkSession makes a new session that starts as a copy of another.
func (n *Node) ForkSession(ctx context.Context, who gateway.Caller, body []byte) (gateway.SessionInfo, error) {
	for range maxForkTries {
		sel, err := n.selection(ctx, who, surfaces.ToolFork, body)
		if err != nil {
			return gateway.SessionInfo{}, err
		}
		from, err := n.usableSession(ctx, sel.Session)
		if err != nil {
			return gateway.SessionInfo{}, err
		}
		out, err := n.registry.ClaimSession(ctx, registry.ClaimSession{Key: sel.Copy.Key, Name: sel.Copy.Name, Owner: from.Owner, Incarnation: from.Incarnation})
		if err != nil {
			return gateway.SessionInfo{}, n.fault(err)
		}
		if out.Result == registry.ClaimDraining {
			return gateway.SessionInfo{}, &surfaces.Refusal{
				Code: surfaces.CodeNoCapacity, RetryAfterS: 1,
				Message: "the session lives on node " + string(from.Owner) + ", which is draining and takes no new ones",
			}
		}
		if out.Result != registry.Claimed {
			continue // the sessions have changed: resolve the request again
		}
		to := out.Session
		ask := sessionAsk{Key: wireKeyOf(from.Key), Epoch: uint64(from.Epoch), To: wireKeyOf(to.Key), ToEpoch: uint64(to.Epoch)}
		var made forkReply
		if from.Owner == n.id {
			made, err = n.forkHere(ctx, ask)
		} else {
			made, err = askOwner[forkReply](ctx, n, 0, from.Owner, methodFork, ask)
		}
		if err != nil {
			_, closing := n.registry.CloseSession(context.WithoutCancel(ctx), registry.CloseSession{Key: to.Key, Expected: to.Epoch})
			if closing != nil {
				n.cfg.Log.Error("a session that could not be forked could not be closed", "error", closing)
			}
			n.engine.CloseSession(to.Key, uint64(to.Epoch))
			return gateway.SessionInfo{}, n.fault(err)
		}
		info, err := n.sessionInfo(ctx, to.Key)
		info.Notice = made.Notice
		return info, err
	}
	return gateway.SessionInfo{}, &surfaces.Refusal{Code: surfaces.CodeNoCapacity, Message: "the sessions change faster than one can be forked", RetryAfterS: 0.1}
}

const maxForkTries = 8

// forkReply is the reply of methodFork.
type forkReply struct {
	Notice []surfaces.Notice `json:"notice,omitempty"`
}

// forkHere copies a session on this node.
func (n *Node) forkHere(ctx context.Context, q sessionAsk) (forkReply, error) {
	notices, err := n.engine.ForkSession(ctx, q.Key.key(), q.Epoch, q.To.key(), q.ToEpoch)
	return forkReply{notices}, err
}

// sessionStatuses returns the engines' status of an actor's sessions on all nodes. Nodes
// that do not answer in time are left out.
func (n *Node) sessionStatuses(ctx context.Context, actor string, sessions []registry.Session) map[surfaces.SessionKey]engine.SessionStatus {
	status := n.engine.Sessions(actor)
	away := false
	for _, s := range sessions {
		away = away || s.Owner != n.id && s.State == registry.SessionLive
	}
	if !away {
		return status
	}
	for _, list := range askOthers[[]sessionStatus](ctx, n, methodStatus, actorAsk{Actor: actor}) {
		for _, st := range list {
			key := st.Key.key()
			if have, ok := status[key]; !ok || have.Epoch < st.Epoch {
				status[key] = engine.SessionStatus{Epoch: st.Epoch, Busy: st.Busy, Calls: st.Calls, LastUsed: st.LastUsed, MemoryBytes: st.MemoryBytes}
			}
		}
	}
	return status
}
