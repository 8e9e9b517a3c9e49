package mcp

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/locusrun/locus/surfaces"
)

// Bounds limits MCP sessions; zero fields take the defaults.
type Bounds struct {
	// Sessions bounds all sessions, default 1024, and PerActor those of one actor, default
	// 64. At either bound an actor's least recently used session without an open request is
	// ended for a new one.
	Sessions, PerActor int
	// Idle is how long a session without an open request is kept; default 4 hours.
	Idle time.Duration
}

// sessions are the MCP sessions. They are unrelated to those of execute_code: they only
// hold what a client declared about itself, so losing one loses no state.
type sessions struct {
	server *sdk.Server
	bounds Bounds

	mu      sync.Mutex
	byID    map[string]*session
	pending map[string]int // sessions being started, by actor
	closed  bool
}

type session struct {
	actor string
	// open are the running requests, with the function that ends each.
	open map[*int]context.CancelFunc
	used time.Time
	idle *time.Timer
}

func newSessions(server *sdk.Server, b Bounds) *sessions {
	b.Sessions, b.PerActor, b.Idle = cmp.Or(b.Sessions, 1024), cmp.Or(b.PerActor, 64), cmp.Or(b.Idle, 4*time.Hour)
	return &sessions{server: server, bounds: b, byID: map[string]*session{}, pending: map[string]int{}}
}

// beginning is a session being started. It counts towards the bounds until it is named or
// has failed.
type beginning struct {
	sessions *sessions
	actor    string
	id       string
}

// begin reserves a session for an actor.
func (s *sessions) begin(actor string) (*beginning, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, all := s.pending[actor], 0
	var oldest string
	for _, n := range s.pending {
		all += n
	}
	for id, session := range s.byID {
		all++
		if session.actor != actor {
			continue
		}
		of++
		if len(session.open) == 0 && (oldest == "" || session.used.Before(s.byID[oldest].used)) {
			oldest = id
		}
	}
	if s.closed || of >= s.bounds.PerActor && oldest == "" || all >= s.bounds.Sessions && oldest == "" {
		return nil, &surfaces.Refusal{
			Code: surfaces.CodeNoCapacity, Message: "there is no room for another session of the Model Context Protocol",
			Suggestion: "End sessions by DELETE, or send requests without a session.", RetryAfterS: 10,
		}
	}
	if of >= s.bounds.PerActor || all >= s.bounds.Sessions {
		s.drop(oldest)
	}
	s.pending[actor]++
	return &beginning{sessions: s, actor: actor}, nil
}

// named registers the session before the client learns its id. Only the first call with an
// id has an effect.
func (b *beginning) named(id string) {
	s := b.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "" || b.id != "" {
		return
	}
	b.id = id
	s.release(b.actor)
	session := &session{actor: b.actor, open: map[*int]context.CancelFunc{}, used: time.Now()}
	session.idle = time.AfterFunc(s.bounds.Idle, func() { s.expire(id) })
	s.byID[id] = session
}

// end is called when the initialize request has been answered. If initialize failed, the
// library has no such session, and it is dropped.
func (b *beginning) end() {
	s := b.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.id == "" {
		s.release(b.actor)
		return
	}
	if session := s.byID[b.id]; session != nil && len(session.open) == 0 && (s.closed || s.find(b.id) == nil) {
		s.drop(b.id)
	}
}

// release ends a reservation. s.mu is held.
func (s *sessions) release(actor string) {
	if s.pending[actor]--; s.pending[actor] == 0 {
		delete(s.pending, actor)
	}
}

// enter registers a request of a session. end ends the request; leave must be called after
// its end.
func (s *sessions) enter(id, actor string, end context.CancelFunc) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.byID[id]
	if session == nil || session.actor != actor {
		return nil, &surfaces.Refusal{
			Code: surfaces.CodeInvalidArgument, HTTP: http.StatusNotFound, Message: "there is no such session of the Model Context Protocol",
			Suggestion: "Begin a new one by initialize, without the header " + headerSession + ".",
		}
	}
	session.idle.Stop()
	request := new(int)
	session.open[request] = end
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(session.open, request)
		session.used = time.Now()
		switch {
		case s.byID[id] != session || len(session.open) > 0:
		case s.closed || s.find(id) == nil:
			s.drop(id)
		default:
			session.idle.Reset(s.bounds.Idle)
		}
	}, nil
}

// stop ends the requests of a session.
func (s *sessions) stop(id, actor string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.byID[id]; session != nil && session.actor == actor {
		for _, end := range session.open {
			end()
		}
	}
}

func (s *sessions) expire(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if session := s.byID[id]; session != nil && len(session.open) == 0 {
		s.drop(id)
	}
}

func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for id, session := range s.byID {
		if len(session.open) == 0 {
			s.drop(id)
		}
	}
}

// drop ends and forgets a session without open requests. s.mu is held.
func (s *sessions) drop(id string) {
	s.byID[id].idle.Stop()
	delete(s.byID, id)
	if session := s.find(id); session != nil {
		// Close waits for calls of ended requests, which are being stopped.
		go func() { _ = session.Close() }()
	}
}

// find returns the library's session; nil if it has ended.
func (s *sessions) find(id string) *sdk.ServerSession {
	for session := range s.server.Sessions() {
		if session.ID() == id {
			return session
		}
	}
	return nil
}
