package peer

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// ErrNotThere: the node has no such call.
var ErrNotThere = errors.New("peer: there is no such call on that node")

// Follow passes the output and events of a call whose record another node holds to a sink,
// from the beginning to the end, and returns the result. The error is ErrNotThere or one of
// the mesh.
func Follow(ctx context.Context, m *mesh.Mesh, node, actor, callID string, sink surfaces.Sink) (surfaces.Result, error) {
	f := feed{sink: sink, seen: map[string]int64{}, whole: func() (surfaces.Result, error) {
		return Ask[surfaces.Result](ctx, m, node, methodWhole, outputRequest{Actor: actor, CallID: callID})
	}}
	b, err := json.Marshal(followRequest{Actor: actor, CallID: callID})
	if err != nil {
		return surfaces.Result{}, err
	}
	s, err := m.Stream(ctx, node, methodFollow)
	if err != nil {
		return surfaces.Result{}, err
	}
	defer s.Cancel()
	if err := sendOnly(s, b); err != nil {
		return surfaces.Result{}, err
	}
	e, err := f.read(s)
	switch {
	case isCode(err, codeForgotten):
		return surfaces.Result{}, ErrNotThere
	case err != nil:
		return surfaces.Result{}, err
	}
	return e.Result, nil
}
