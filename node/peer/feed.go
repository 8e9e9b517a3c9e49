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

// feed receives the output, events and result of a call, over one or more streams.
type feed struct {
	sink surfaces.Sink
	// whole fetches the complete output. It is used if some of it was skipped.
	whole func() (surfaces.Result, error)
	heard func()           // is called for each message; may be nil
	at    calls.Mark       // the position after the last item, from which a next stream continues
	seen  map[string]int64 // bytes of each output stream that were received or skipped
	gap   bool             // output was skipped on the way
}

// gapSink is a sink that can be told of skipped output.
type gapSink interface {
	Skip(stream string, n int64)
	Complete(res surfaces.Result)
}

// read processes one stream, until the end of the call.
func (f *feed) read(s *mesh.Stream) (*end, error) {
	for {
		message, err := receive(s)
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: a feed without an end", mesh.ErrProtocol)
		}
		if err != nil {
			return nil, err
		}
		if f.heard != nil {
			f.heard()
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
				// Everything has arrived. Receiving the end closes the stream normally.
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

// skip reports a gap in an output stream before an offset.
func (f *feed) skip(stream string, to int64) {
	gap := to - f.seen[stream]
	if gap <= 0 {
		return
	}
	f.gap = true
	f.seen[stream] = to
	if m, ok := f.sink.(gapSink); ok {
		m.Skip(stream, gap)
	}
}

// complete fetches the whole output if some of it was skipped.
func (f *feed) complete(e *end) error {
	f.skip(surfaces.StreamStdout, e.Stdout)
	f.skip(surfaces.StreamStderr, e.Stderr)
	m, ok := f.sink.(gapSink)
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
