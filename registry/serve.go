package registry

import "context"

// Serve is the receiving side of Config.Forward: it performs a request of another node of
// this mesh. from must be authenticated. A node that does not lead forwards the request, up
// to two times. An error means that the request is malformed and nothing was performed.
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
	// A renewal is not forwarded, because its sender would no longer be authenticated.
	leader := r.otherLeader()
	if c.hops >= maxHops-1 || leader == "" || leader == from || c.op == opRenew {
		return notLeader(leader)
	}
	c.hops++
	return r.send(ctx, leader, c)
}

// perform performs a request that only the leader can. If it turns out that this node does
// not lead, the answer says so and nothing was performed.
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

// ownKinds are the commands that only the registry itself proposes, on the leader. Another
// node may not send them.
var ownKinds = map[kind]bool{kindInitCluster: true, kindMarkNode: true, kindRecoverMesh: true}

func (r *Registry) performCommand(ctx context.Context, from NodeID, body []byte) answer {
	s, err := decodeCommandRequest(body)
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
		return outcomeUnknown(err)
	}
	return a
}
