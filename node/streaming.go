package node

import (
	"context"
	"encoding/json"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/registry"
)

// streamOf calls a streaming method of another node; each frame holds one JSON object.
func streamOf[T any](ctx context.Context, m *mesh.Mesh, id registry.NodeID, method string, ask any, emit func(T) error) error {
	s, err := m.Stream(ctx, string(id), method)
	if err != nil {
		return err
	}
	defer s.Cancel()
	if ask != nil {
		if err := sender[any](s)(ask); err != nil {
			return err
		}
	}
	for {
		item, err := receive[T](s)
		if err != nil {
			return err
		}
		if err := emit(item); err != nil {
			return err
		}
	}
}

func receive[T any](s *mesh.Stream) (item T, err error) {
	b, err := s.Receive()
	if err == nil {
		err = json.Unmarshal(b, &item)
	}
	return item, err
}

func sender[T any](s *mesh.Stream) func(T) error {
	return func(item T) error {
		b, err := json.Marshal(item)
		if err != nil {
			return err
		}
		return s.Send(b)
	}
}
