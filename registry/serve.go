package registry

import "context"

// Serve is the receiving side of Config.Forward: it performs what another node of
// this mesh asks of the leader. from must be proven. A request to a node that does
// not lead is passed on, up to two times. An error means that the request is none
// of ours, and that nothing was done.
func (r *Registry) Serve(ctx context.Context, from NodeID, request []byte) ([]byte, error) {
	c, err := decodeCall(request)
	if err != nil {
		return nil, err
	}
	return r.serve(ctx, from, c).encode(), nil
}

func (r *Registry) serve(ctx context.Context, from NodeID, c call) answer {
	if c.op == opProbe {
		return r.probed()
	}
	if r.lead.is() {
		return r.perform(ctx, from, c)
	}
	// A renewal is not passed on: who sent it could not be proven any more.
	leader := r.otherLeader()
	if c.hops >= maxHops-1 || leader == "" || leader == from || c.op == opRenew {
		return elsewhere(leader)
	}
	c.hops++
	return r.send(ctx, leader, c)
}

// perform does what only the leader does. When it turns out that this node does
// not lead, the answer says so and nothing was done.
func (r *Registry) perform(ctx context.Context, from NodeID, c call) answer {
	switch c.op {
	case opCommand:
		return r.performCommand(ctx, from, c.body)
	case opMember:
		return r.performMember(ctx, c.body)
	case opReadIndex:
		return r.performReadIndex(ctx)
	case opRenew:
		return r.performRenew(ctx, from, c.body)
	}
	return refuse(refusedUnsupported)
}

// ownKinds are the commands that come from the registry itself, on the leader.
var ownKinds = map[kind]bool{kindInitCluster: true, kindMarkNode: true, kindRecoverMesh: true}

func (r *Registry) performCommand(ctx context.Context, from NodeID, body []byte) answer {
	s, err := decodeSending(body)
	if err != nil {
		return refuse(refusedMalformed)
	}
	e, err := decodeEnvelope(s.command)
	if err != nil {
		return refuse(refusedMalformed)
	}
	if ownKinds[e.kind] {
		return refuse(refusedForbidden)
	}
	got, a := r.applyHere(ctx, s)
	if a.status != statusDone {
		return a
	}
	if a.body, err = got.encode(); err != nil {
		return unsure(err)
	}
	return a
}
