package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
)

// feed is the receiving side of what a call says, over however many streams it
// takes.
type feed struct {
	sink surfaces.Sink
	at   calls.Mark
	seen map[string]int64 // bytes of each stream that came or were skipped
	gap  bool
}

// mender is a sink that can be told of output that was skipped.
type mender interface {
	Skip(stream string, n int64)
	Complete(res surfaces.Result)
}

// read takes what one stream brings, up to the end of the call.
func (f *feed) read(s *mesh.Stream) (*end, error) {
	for {
		message, err := receive(s)
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: a feed without an end", mesh.ErrProtocol)
		}
		if err != nil {
			return nil, err
		}
		for len(message) > 0 {
			var part []byte
			if part, message, err = cutPart(message); err != nil {
				return nil, err
			}
			if len(part) > 0 && part[0] == kindEnd {
				var e end
				if err := json.Unmarshal(part[1:], &e); err != nil {
					return nil, fmt.Errorf("%w: %w", mesh.ErrProtocol, err)
				}
				return &e, f.complete(s, &e)
			}
			it, err := decodeItem(part)
			if err != nil {
				return nil, err
			}
			f.take(it)
		}
	}
}

func (f *feed) take(it calls.Item) {
	f.at = it.Next
	if f.sink == nil {
		return
	}
	if it.Event != nil {
		f.sink.Event(*it.Event)
		return
	}
	f.skip(it.Stream, it.Offset)
	f.sink.Output(it.Stream, it.Text)
	f.seen[it.Stream] = it.Offset + int64(len(it.Text))
}

// skip counts what is missing of a stream before an offset.
func (f *feed) skip(stream string, to int64) {
	gap := to - f.seen[stream]
	if gap <= 0 {
		return
	}
	f.gap = true
	f.seen[stream] = to
	if m, ok := f.sink.(mender); ok {
		m.Skip(stream, gap)
	}
}

// complete asks for the whole output when some of it was skipped on the way, and
// says that all is here.
func (f *feed) complete(s *mesh.Stream, e *end) error {
	f.skip(surfaces.StreamStdout, e.Stdout)
	f.skip(surfaces.StreamStderr, e.Stderr)
	m, ok := f.sink.(mender)
	if !f.gap || !ok {
		return s.CloseSend()
	}
	if err := send(s, nil); err != nil {
		return err
	}
	message, err := receive(s)
	if err != nil {
		return err
	}
	part, _, err := cutPart(message)
	if err != nil || len(part) == 0 || part[0] != kindWhole {
		return fmt.Errorf("%w: not the whole output", mesh.ErrProtocol)
	}
	var whole surfaces.Result
	if err := json.Unmarshal(part[1:], &whole); err != nil {
		return fmt.Errorf("%w: %w", mesh.ErrProtocol, err)
	}
	m.Complete(whole)
	return s.CloseSend()
}
