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
	// After a failed connection the agent waits for a random time, up to a bound that
	// doubles from minBackoff to maxBackoff.
	minBackoff = 40 * time.Millisecond
	maxBackoff = 5 * time.Second
	// stableAfter is how long a connection must last to reset the backoff.
	stableAfter = 10 * time.Second
	// goodbyeWithin bounds the end of a connection after the machine's goodbye, on both sides.
	goodbyeWithin = time.Second
)

// keepAttached connects to one node after another. It returns nil when ctx ends, and an
// error when the machine is no longer linked.
func (a *Agent) keepAttached(ctx context.Context) error {
	fails, at := 0, 0
	for ctx.Err() == nil {
		addr := a.membership.addresses[at%len(a.membership.addresses)]
		began := time.Now()
		err := a.attach(ctx, addr)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > stableAfter {
			fails = 0
		}
		again, cause := a.retryAfter(ctx, addr, err)
		switch again {
		case giveUp:
			return cause
		case retrySameNode:
			fails = min(fails, 2)
		case retryNextNode:
			at = a.next(at, err)
		}
		a.cfg.Log.Info("not connected; trying again", "node", addr, "error", cause)
		sleep(ctx, rand.N(min(minBackoff<<min(fails, 10), maxBackoff)))
		fails++
	}
	return nil
}

// next returns the index of the address to try after the one at index at, whose connection has
// ended with err.
func (a *Agent) next(at int, err error) int {
	nodes := nodesElsewhere(err)
	if len(nodes) == 0 {
		return at + 1
	}
	if err := a.membership.saveAddresses(nodes); err != nil {
		a.cfg.Log.Warn("the addresses of the nodes could not be saved", "error", err)
	}
	if named := slices.Index(a.membership.addresses, nodes[0].Addr); named >= 0 {
		return named
	}
	return at + 1
}

// retry says what to do after a connection has ended.
type retry int

const (
	retrySameNode retry = iota
	retryNextNode
	giveUp
)

// retryAfter decides what to do after a connection has ended with err. If the certificate
// was rejected it asks the node for a new one.
func (a *Agent) retryAfter(ctx context.Context, addr string, err error) (retry, error) {
	switch {
	case isCode(err, codeUnlinked), errors.Is(err, mesh.ErrRevoked):
		return giveUp, ErrUnlinked
	case isCode(err, codeVersion):
		return retryNextNode, err
	case errors.Is(err, mesh.ErrSuspended), isCode(err, codeReplaced), isCode(err, codeSilent):
		return retrySameNode, err
	case errors.Is(err, mesh.ErrRejected):
		again := a.membership.recoverCertificate(ctx, addr)
		if errors.Is(again, mesh.ErrRefused) {
			return giveUp, fmt.Errorf("%w: the mesh refuses its certificate, and a new one", ErrUnlinked)
		}
		if again == nil {
			return retrySameNode, err
		}
		return retryNextNode, errors.Join(err, again)
	}
	return retryNextNode, err
}

// attach connects to a node and serves the connection until it ends. When live ends it says
// goodbye, and accepts what the node has offered until then: an offer that nobody reads
// would leave its caller waiting.
func (a *Agent) attach(live context.Context, addr string) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(live))
	defer cancel()
	connecting := context.AfterFunc(live, cancel)
	defer connecting()
	s, err := a.mesh.StreamAt(ctx, addr, methodAttach)
	if err != nil {
		return err
	}
	defer s.Cancel()
	facts := a.facts(ctx)
	if connecting() { // once the node has the hello, it may offer calls
		defer context.AfterFunc(live, func() {
			_ = s.CloseSend() // an error means that the stream is cancelled
			sleep(ctx, goodbyeWithin)
			cancel()
		})()
	}
	if err := sendJSON(s, hello{Protocol: protocol, Facts: facts}); err != nil {
		return remoteError(s, err)
	}
	var hi welcome
	if err := receiveJSON(s, maxSmall, &hi); err != nil {
		return err
	}
	if err := a.membership.saveAddresses(hi.Nodes); err != nil {
		a.cfg.Log.Warn("the addresses of the nodes could not be saved", "error", err)
	}
	a.setAttached(addr, hi)
	defer func() {
		if live.Err() == nil { // an agent that shuts down still delivers over the connection
			a.setAttached("", hi)
		}
	}()
	detector := newSleepDetector(time.Now())
	telling := make(chan struct{})
	go func() {
		defer close(telling)
		a.sendHeartbeats(ctx, s, detector, facts)
	}()
	defer func() { cancel(); s.Cancel(); <-telling }()
	for {
		var o offer
		if err := receiveJSON(s, maxMessage, &o); err != nil {
			return err
		}
		if !detector.awake(time.Now()) {
			o.Program = nil // ask its home for the program, and so whether the call is still wanted
		}
		a.accept(o)
	}
}

// remoteError returns the error that the node has sent, if there is one, instead of the
// local send error.
func remoteError(s *mesh.Stream, err error) error {
	var e *mesh.Error
	if _, said := s.Receive(); errors.As(said, &e) {
		return said
	}
	return err
}

// setAttached records the node to which the machine is attached; addr is empty when it is
// not.
func (a *Agent) setAttached(addr string, hi welcome) {
	a.mu.Lock()
	a.at = addr
	close(a.attached)
	a.attached = make(chan struct{})
	a.mu.Unlock()
	if addr != "" {
		a.cfg.Progress(fmt.Sprintf("connected to %s as %s, for %s", addr, hi.Name, hi.Actor))
	} else {
		a.cfg.Progress("not connected")
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

// sendHeartbeats sends heartbeats, and the facts when the owner changes them.
func (a *Agent) sendHeartbeats(ctx context.Context, s *mesh.Stream, detector *sleepDetector, was Facts) {
	tick := time.NewTicker(awakeCheckEvery)
	defer tick.Stop()
	said := time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		detector.awake(time.Now())
		var err error
		now := was
		now.Consent = a.cfg.Policy.describe(Paused(a.cfg.Dir))
		switch {
		case now.Consent != was.Consent:
			was = now
			err = sendJSON(s, now)
		case heartbeatDue(time.Since(said)):
			err = send(s, nil)
		default:
			continue
		}
		if err != nil {
			return // the goroutine that reads gets the error too
		}
		said = time.Now()
	}
}

// heartbeatDue reports whether a heartbeat is sent at this check, so long after the last
// message. The checks come a moment early or late.
func heartbeatDue(quiet time.Duration) bool { return quiet > heartbeatEvery-awakeCheckEvery/2 }

// where returns the address of the node to which the machine is attached, or "", and a
// channel that is closed when that changes.
func (a *Agent) where() (string, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at, a.attached
}
