package peer

import (
	"errors"
	"fmt"
	"io"

	fastjson "github.com/segmentio/encoding/json"

	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/node/calls"
	"github.com/locusrun/locus/surfaces"
)

// feed is the receiving side of what a call says, over however many streams it
// takes.
type feed struct {
	sink surfaces.Sink
	// whole asks for the output when some of it was skipped on the way.
	whole func() (surfaces.Result, error)
	at    calls.Mark
	seen  map[string]int64 // bytes of each stream that came or were skipped
	gap   bool
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
				if err := fastjson.Unmarshal(part[1:], &e); err != nil {
					return nil, fmt.Errorf("%w: %w", mesh.ErrProtocol, err)
				}
				if err := f.complete(&e); err != nil {
					return nil, err
				}
				// All is here. What follows is only the orderly end, which came with it.
				_, _ = s.Receive()
				return &e, nil
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

// complete asks for the whole output when some of it was skipped on the way.
func (f *feed) complete(e *end) error {
	f.skip(surfaces.StreamStdout, e.Stdout)
	f.skip(surfaces.StreamStderr, e.Stderr)
	m, ok := f.sink.(mender)
	if !f.gap || !ok {
		return nil
	}
	whole, err := f.whole()
	if err != nil {
		return err
	}
	m.Complete(whole)
	return nil
}
