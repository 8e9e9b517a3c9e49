package peer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
)

// JSONMethod makes a method with one JSON request and one JSON reply, for nodes to call. If
// handle returns a *surfaces.Refusal, Ask returns the same refusal.
func JSONMethod[Q, A any](class mesh.Class, handle func(ctx context.Context, from certs.Identity, q Q) (A, error)) mesh.Method {
	return mesh.Method{Roles: []certs.Role{certs.RoleNode}, Class: class, Handle: func(ctx context.Context, s *mesh.Stream) error {
		var q Q
		if err := receiveJSON(s, &q); err != nil {
			return err
		}
		a, err := handle(ctx, s.Peer(), q)
		if err != nil {
			return encodeRefusal(err)
		}
		return sendJSON(s, a)
	}}
}

// CallJSON calls such a method of another node. The error is the refusal of the other node, a
// *mesh.Error, or a *mesh.UnreachableError.
func CallJSON[A, Q any](ctx context.Context, m *mesh.Mesh, node, method string, q Q) (A, error) {
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
	if err := sendOnly(s, b); err != nil {
		return a, err
	}
	if b, err = receive(s); err != nil {
		return a, decodeRefusal(err)
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("%w: the answer of %s to %s: %w", mesh.ErrProtocol, node, method, err)
	}
	return a, nil
}
