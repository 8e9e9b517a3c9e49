package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// heartbeat is an SSE comment, which clients skip.
const heartbeat = ": still here\n\n"

// eventStream writes server-sent events and flushes each. It is safe for concurrent use.
// After the first error it writes nothing more.
type eventStream struct {
	out *answer

	mu     sync.Mutex
	err    error // the first failed write; nothing is written after it
	ended  bool  // the result was written
	offset int64 // id of the last event of the call
}

// startStream sends the header. From here on an error can only be sent as an event.
// Heartbeats are sent until release is called. ctx ends when writing fails.
func (x *exchange) startStream() (s *eventStream, ctx context.Context, release func()) {
	h := x.out.header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no")
	s = &eventStream{out: x.out}
	x.stream = s
	x.out.start(http.StatusOK)
	ctx, cancel := context.WithCancel(x.ctx)
	if s.err = x.out.flush(); s.err != nil {
		cancel()
	}
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		s.beat(ctx, cancel, x.g.cfg.Heartbeat)
	}()
	return s, ctx, func() {
		cancel()
		<-beating
	}
}

// beat writes a comment at each interval, so that proxies keep the connection open and a
// client that disconnected silently is noticed.
func (s *eventStream) beat(ctx context.Context, cancel context.CancelFunc, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		s.write([]byte(heartbeat))
		err := s.err
		s.mu.Unlock()
		if err != nil {
			cancel()
			return
		}
	}
}

// emit writes an event of a call; its id is an offset in the output.
func (s *eventStream) emit(id int64, name string, data json.RawMessage) error {
	if err := s.event(strconv.FormatInt(id, 10), name, data); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset = id
	s.ended = s.ended || name == "result"
	return nil
}

// object writes an event with a JSON object as data.
func (s *eventStream) object(id, name string, data any) error {
	b, err := encode(data)
	if err != nil {
		return err
	}
	return s.event(id, name, bytes.TrimRight(b, "\n"))
}

// mark sends only an id, as a position to resume from.
func (s *eventStream) mark(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write([]byte("id: " + id + "\n\n"))
	if s.err != nil {
		return errGone
	}
	return nil
}

// event writes one event. Name and id must be single lines, data JSON. An empty id is left
// out.
func (s *eventStream) event(id, name string, data json.RawMessage) error {
	if bytes.ContainsAny(data, "\r\n") {
		var line bytes.Buffer
		if err := json.Compact(&line, data); err != nil {
			return fmt.Errorf("data of event %q: %w", name, err)
		}
		data = line.Bytes()
	}
	if strings.ContainsAny(name, "\r\n") {
		return fmt.Errorf("event %q has a name of several lines", name)
	}
	b := make([]byte, 0, len(data)+len(name)+len(id)+32)
	if id != "" {
		b = append(b, "id: "...)
		b = append(b, id...)
		b = append(b, '\n')
	}
	b = append(b, "event: "...)
	b = append(b, name...)
	b = append(b, "\ndata: "...)
	b = append(b, data...)
	b = append(b, "\n\n"...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(b)
	if s.err != nil {
		return errGone
	}
	return nil
}

// result writes the Result of a call as the last event.
func (s *eventStream) result(r surfaces.Result) error {
	data, err := encode(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	at := s.offset
	s.mu.Unlock()
	return s.emit(at, "result", bytes.TrimRight(data, "\n"))
}

// write writes and flushes. s.mu is held.
func (s *eventStream) write(b []byte) {
	if s.err != nil {
		return
	}
	if _, s.err = s.out.Write(b); s.err == nil {
		s.err = s.out.flush()
	}
}

// broken reports whether writing has failed.
func (s *eventStream) broken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// complete reports whether the result was written.
func (s *eventStream) complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended && s.err == nil
}

// wantsStream reports whether the client accepts server-sent events.
func wantsStream(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept") {
		for item := range strings.SplitSeq(header, ",") {
			kind, params, _ := strings.Cut(item, ";")
			if strings.EqualFold(strings.TrimSpace(kind), "text/event-stream") && !refusedQuality(params) {
				return true
			}
		}
	}
	return false
}

// refusedQuality reports whether an Accept item has q=0.
func refusedQuality(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(value, 64)
			return err == nil && q == 0
		}
	}
	return false
}

// resumeFrom returns the output offset from which a client wants a call's events.
// Last-Event-ID overrides the query, as a reconnecting client repeats its first URL.
func resumeFrom(r *http.Request) (from int64, given bool, err error) {
	query := r.URL.Query()
	name, text := "from", query.Get("from")
	given = query.Has("from")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		name, text, given = "Last-Event-ID", last, true
	}
	if !given {
		return 0, false, nil
	}
	n, perr := strconv.ParseInt(text, 10, 64)
	if perr != nil || n < 0 {
		return 0, true, invalid(http.StatusUnprocessableEntity,
			fmt.Sprintf("%s must be a number of bytes, 0 or more, but %q was given", name, clip(text, 50)),
			fmt.Sprintf("Set %s to 0, or to the id of the last event that was received.", name))
	}
	return n, true, nil
}
