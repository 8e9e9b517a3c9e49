package agentlink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/locusrun/locus/mesh"
)

const (
	// A connection that could not be made is tried again after a random time up to a
	// bound that doubles from firstWait to longestWait.
	firstWait   = 40 * time.Millisecond
	longestWait = 5 * time.Second
	// steadyAfter is how long a connection must have held for the bound to begin anew.
	steadyAfter = 10 * time.Second
)

// stay keeps the machine attached to one node after the other. It returns nil when ctx
// ends.
func (a *Agent) stay(ctx context.Context) error {
	fails, at := 0, 0
	for ctx.Err() == nil {
		addr := a.place.addresses[at%len(a.place.addresses)]
		began := time.Now()
		err := a.attach(ctx, addr)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > steadyAfter {
			fails = 0
		}
		again, cause := a.judge(ctx, addr, err)
		switch again {
		case never:
			return cause
		case atOnce:
			fails = min(fails, 2)
		case elsewhere:
			at++
		}
		a.cfg.Log.Info("not connected; trying again", "node", addr, "error", cause)
		sleep(ctx, rand.N(min(firstWait<<min(fails, 10), longestWait)))
		fails++
	}
	return nil
}

// retry says what follows the end of a connection.
type retry int

const (
	atOnce retry = iota
	elsewhere
	never
)

// judge tells what the end of a connection means. A certificate that is not accepted
// any more is renewed at the node's door.
func (a *Agent) judge(ctx context.Context, addr string, err error) (retry, error) {
	switch {
	case isCode(err, codeUnlinked), errors.Is(err, mesh.ErrRevoked):
		return never, ErrUnlinked
	case isCode(err, codeVersion):
		return elsewhere, err
	case errors.Is(err, mesh.ErrSlept), isCode(err, codeReplaced), isCode(err, codeSilent):
		return atOnce, err
	case errors.Is(err, mesh.ErrRejected):
		again := a.place.recovered(ctx, addr)
		if errors.Is(again, mesh.ErrRefused) {
			return never, fmt.Errorf("%w: the mesh refuses its certificate, and a new one", ErrUnlinked)
		}
		if again == nil {
			return atOnce, err
		}
		return elsewhere, errors.Join(err, again)
	}
	return elsewhere, err
}

// attach holds one connection until it ends.
func (a *Agent) attach(ctx context.Context, addr string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := a.mesh.StreamAt(ctx, addr, methodAttach)
	if err != nil {
		return err
	}
	defer s.Cancel()
	facts := a.facts(ctx)
	if err := sendJSON(s, hello{Protocol: protocol, Facts: facts}); err != nil {
		return lastWord(s, err)
	}
	var hi welcome
	if err := receiveJSON(s, maxSmall, &hi); err != nil {
		return err
	}
	if err := a.place.note(hi.Nodes); err != nil {
		a.cfg.Log.Warn("the addresses of the nodes could not be kept", "error", err)
	}
	a.move(addr, hi)
	defer a.move("", hi)
	pulse := newPulse(time.Now())
	telling := make(chan struct{})
	go func() {
		defer close(telling)
		a.tell(ctx, s, pulse, facts)
	}()
	defer func() { cancel(); s.Cancel(); <-telling }()
	for {
		var o offer
		if err := receiveJSON(s, maxMessage, &o); err != nil {
			return err
		}
		if !pulse.beat(time.Now()) {
			o.Program = nil // its home says whether anybody waits for it still
		}
		a.take(o)
	}
}

// lastWord gives what the node has said, where it has, instead of the failure to speak
// to it.
func lastWord(s *mesh.Stream, err error) error {
	var e *mesh.Error
	if _, said := s.Receive(); errors.As(said, &e) {
		return said
	}
	return err
}

// move notes where the machine is attached; "" for nowhere.
func (a *Agent) move(addr string, hi welcome) {
	a.mu.Lock()
	a.at = addr
	close(a.attached)
	a.attached = make(chan struct{})
	a.mu.Unlock()
	if addr != "" {
		a.cfg.Say(fmt.Sprintf("connected to %s as %s, for %s", addr, hi.Name, hi.Actor))
	} else {
		a.cfg.Say("not connected")
	}
}

func (a *Agent) facts(ctx context.Context) Facts {
	languages := a.cfg.Runner.Languages(ctx)
	if allowed := a.cfg.Policy.Languages; len(allowed) > 0 {
		languages = slices.DeleteFunc(slices.Clone(languages), func(l string) bool { return !slices.Contains(allowed, l) })
	}
	return Facts{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Version: a.cfg.Version, Languages: languages,
		Consent: a.cfg.Policy.describe(Paused(a.cfg.Dir)),
	}
}

// tell gives the node signs of life, and what the owner changes.
func (a *Agent) tell(ctx context.Context, s *mesh.Stream, pulse *pulse, was Facts) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	said := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		pulse.beat(time.Now())
		var err error
		now := was
		now.Consent = a.cfg.Policy.describe(Paused(a.cfg.Dir))
		switch {
		case now.Consent != was.Consent:
			was = now
			err = sendJSON(s, now)
		case time.Since(said) >= signEvery:
			err = send(s, nil)
		default:
			continue
		}
		if err != nil {
			return // the reader finds the same
		}
		said = time.Now()
	}
}

// where gives the address of the node that the machine is attached to, and a channel
// that is closed when that changes.
func (a *Agent) where() (string, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at, a.attached
}
