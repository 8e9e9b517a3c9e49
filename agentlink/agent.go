package agentlink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// Config says what an agent needs. Dir, Role, Runner and Log are required, Ask where the
// policy asks.
type Config struct {
	// Dir holds the machine's key, its log, and the calls that it has not handed over. It
	// is made if it is not there.
	Dir string
	// Role is certs.RoleLink for a person's machine, certs.RoleVM for an agent's.
	Role certs.Role
	// Join is the mesh's address of any node, and Token what lets in. Both are needed only
	// the first time. Name is what the machine wants to be called.
	Join, Token, Name string
	Version           string
	Policy            Policy
	Ask               AskOwner
	// Folder is where programs run, for the owner to know.
	Folder string
	Runner Runner
	// Say tells the owner what happens, one plain line each; nil tells nobody.
	Say func(line string)
	// Log takes what an operator should know.
	Log *slog.Logger
	// MaxRunning is how many programs run at a time; 0 is 8.
	MaxRunning int
}

const defaultRunning = 8

// Agent is a linked machine's end of the link.
type Agent struct {
	cfg     Config
	place   *standing
	held    *os.File // the lock of the directory
	mesh    *mesh.Mesh
	journal journal
	diary   *diary
	gate    *gate
	slots   chan struct{}

	ctx context.Context // ends what runs
	end context.CancelCauseFunc
	all sync.WaitGroup

	mu       sync.Mutex
	works    map[string]*work
	known    map[string]bool // ids of calls that were taken, latest last in order
	order    []string
	at       string        // the node's address while attached
	attached chan struct{} // closed at the next change of at
	welcome  welcome
}

// knownCalls is how many calls an agent remembers to have taken.
const knownCalls = 4096

// Open gives the machine its place in the mesh and opens what it has on disk. Errors are
// ErrNoToken, ErrHeld, a *RoleError, a *certs.TokenError, or those of mesh.Enrol.
func Open(ctx context.Context, cfg Config) (*Agent, error) {
	if cfg.MaxRunning == 0 {
		cfg.MaxRunning = defaultRunning
	}
	if cfg.Say == nil {
		cfg.Say = func(string) {}
	}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, callsDir), 0o700); err != nil {
		return nil, fmt.Errorf("agentlink: %w", err)
	}
	held, err := hold(cfg.Dir)
	if err != nil {
		return nil, err
	}
	a, err := open(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	a.held = held
	return a, nil
}

// ErrHeld: another agent runs in the directory.
var ErrHeld = errors.New("agentlink: another agent runs in this directory")

// hold takes the directory for this process: two agents there would each run what was
// meant once.
func hold(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("agentlink: %w", err)
	}
	if err := lock(file); err != nil {
		return nil, errors.Join(fmt.Errorf("agentlink: lock %s: %w", dir, err), file.Close())
	}
	return file, nil
}

func open(ctx context.Context, cfg Config) (*Agent, error) {
	place, err := stand(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	if role := place.credentials.Identity().Role; role != cfg.Role {
		return nil, &RoleError{Has: role, Wanted: cfg.Role, Kept: true}
	}
	a := &Agent{
		cfg: cfg, place: place, journal: journal{filepath.Join(cfg.Dir, callsDir)}, slots: make(chan struct{}, cfg.MaxRunning),
		works: map[string]*work{}, known: map[string]bool{}, attached: make(chan struct{}),
	}
	a.gate = newGate(cfg.Policy, cfg.Ask, func() bool { return Paused(cfg.Dir) })
	if a.diary, err = openDiary(cfg.Dir); err != nil {
		return nil, err
	}
	if err := a.remember(); err != nil {
		return nil, errors.Join(err, a.diary.close())
	}
	return a, nil
}

// remember reads which calls this machine has taken, and which it has not handed over.
func (a *Agent) remember() error {
	err := ReadLog(a.cfg.Dir, func(e Entry) error {
		a.know(e.CallID)
		return nil
	})
	if err != nil {
		return err
	}
	left, err := a.journal.left()
	if err != nil {
		return err
	}
	for _, w := range left {
		a.know(w.callID)
		a.works[w.callID] = w
	}
	return nil
}

// know notes that a call was taken; false when it was before. a.mu is held, or nobody
// else is there yet.
func (a *Agent) know(callID string) bool {
	if a.known[callID] {
		return false
	}
	a.known[callID] = true
	a.order = append(a.order, callID)
	if len(a.order) > knownCalls {
		delete(a.known, a.order[0])
		a.order = a.order[1:]
	}
	return true
}

// Machine is who the mesh says that this machine is; the zero values before it is
// connected for the first time.
func (a *Agent) Machine() (name, actor string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.welcome.Name, a.welcome.Actor
}

// Joined reports whether Open has linked the machine, by Config.Token and under
// Config.Name. One that was linked before has a name, and needs no token.
func (a *Agent) Joined() bool { return a.place.joined }

// Run keeps the machine connected and runs what it is asked to until ctx ends, or the
// mesh does not know the machine any more: ErrUnlinked. What runs is ended then, and the
// machine's key is forgotten when it was unlinked.
func (a *Agent) Run(ctx context.Context) error {
	conn, err := socketFor(ctx, a.place.addresses[0])
	if err == nil {
		a.mesh, err = mesh.Open(mesh.Config{Conn: conn, Credentials: a.place.credentials, DialOnly: true, Log: a.cfg.Log})
	}
	if err != nil {
		return errors.Join(err, a.close())
	}
	a.ctx, a.end = context.WithCancelCause(context.WithoutCancel(ctx))
	live, stop := context.WithCancel(ctx)
	for _, w := range a.works {
		a.all.Go(func() { a.handOver(w) })
	}
	a.all.Go(func() { a.keepFresh(live) })
	err = a.stay(live)
	stop()
	a.end(err)
	if errors.Is(err, ErrUnlinked) {
		err = errors.Join(err, a.place.forget())
	}
	a.all.Wait()
	return errors.Join(err, a.mesh.Close(), a.close())
}

// close lets go of what Open has opened.
func (a *Agent) close() error { return errors.Join(a.diary.close(), a.held.Close()) }

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
	a.at, a.welcome = addr, hi
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

// keepFresh renews the certificate until ctx ends.
func (a *Agent) keepFresh(ctx context.Context) {
	renewer := certs.Renewer{
		Credentials: a.place.credentials, Log: a.cfg.Log,
		Keep: func(c *certs.Credentials) error { return certs.SaveCredentials(a.cfg.Dir, c) },
		Ask: func(ctx context.Context, spki []byte) ([][]byte, certs.Trust, error) {
			addr, _ := a.where()
			if addr == "" {
				return nil, certs.Trust{}, errors.New("agentlink: not connected")
			}
			s, err := a.mesh.StreamAt(ctx, addr, methodRenew)
			if err != nil {
				return nil, certs.Trust{}, err
			}
			defer s.Cancel()
			if err := sendJSON(s, renewal{SPKI: spki}); err != nil {
				return nil, certs.Trust{}, err
			}
			var got renewed
			err = receiveJSON(s, maxSmall, &got)
			return got.Chain, got.Trust, err
		},
	}
	_ = renewer.Run(ctx) // ends with ctx only
}

// where gives the address of the node that the machine is attached to, and a channel
// that is closed when that changes.
func (a *Agent) where() (string, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at, a.attached
}

// take takes an offer: once for each call.
func (a *Agent) take(o offer) {
	if !callName.MatchString(o.CallID) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.know(o.CallID) {
		return
	}
	ctx, stop := context.WithCancelCause(a.ctx)
	w := newWork(o.CallID, o.Home, o.Program, stop)
	a.works[o.CallID] = w
	if o.Program != nil {
		a.all.Go(func() { a.run(ctx, w, o.Program) })
	}
	a.all.Go(func() { a.handOverWith(w, func(p *program) { a.all.Go(func() { a.run(ctx, w, p) }) }) })
}

// handOver brings what a call has come to home.
func (a *Agent) handOver(w *work) { a.handOverWith(w, func(*program) {}) }

func (a *Agent) handOverWith(w *work, begin func(*program)) {
	started := false
	pause := firstTry
	for a.ctx.Err() == nil {
		addr, changed := a.where()
		if addr == "" {
			select {
			case <-changed:
			case <-a.ctx.Done():
			}
			continue
		}
		forget, err := w.carry(a.ctx, a.mesh, addr, func(p *program) {
			if !started {
				started = true
				begin(p)
			}
		})
		if forget {
			a.forget(w, err)
			return
		}
		a.cfg.Log.Debug("a call's home is not reached", "call_id", w.callID, "error", err)
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
			pause = min(2*pause, longestTry)
		case <-changed:
			pause = firstTry
		case <-a.ctx.Done():
		}
		timer.Stop()
	}
}

// forget lets go of a call whose home has the result, or wants none.
func (a *Agent) forget(w *work, why error) {
	a.mu.Lock()
	delete(a.works, w.callID)
	a.mu.Unlock()
	close(w.gone)
	if why != nil {
		w.stop(errStopped)
		a.cfg.Log.Info("nobody waits for a call any more", "call_id", w.callID)
	}
	if err := a.journal.forget(w.callID); err != nil {
		a.cfg.Log.Warn("a call could not be forgotten", "call_id", w.callID, "error", err)
	}
}

// run asks the owner and runs a program.
func (a *Agent) run(ctx context.Context, w *work, p *program) {
	w.mu.Lock()
	w.program = p
	w.mu.Unlock()
	began := time.Now()
	sum := sha256.Sum256([]byte(p.Code))
	entry := Entry{
		At: began, CallID: w.callID, What: "asked", Actor: p.Actor, Thought: p.Thought, Language: string(p.Language),
		Code: p.Code[:min(len(p.Code), loggedCode)], SHA256: hex.EncodeToString(sum[:]),
	}
	res := a.outcome(ctx, w, p, began, entry)
	w.end(res)
	entry = Entry{At: time.Now(), CallID: w.callID, What: "ended", Outcome: outcomeOf(res), DurationMS: float64(time.Since(began).Microseconds()) / 1000}
	if err := a.diary.write(entry); err != nil {
		a.cfg.Log.Error("the log could not be written", "error", err)
	}
	a.cfg.Say(fmt.Sprintf("%s %s: %s after %s", shortID(w.callID), p.Language, entry.Outcome, time.Since(began).Round(time.Millisecond)))
	if err := a.journal.over(w); err != nil {
		a.cfg.Log.Error("a result could not be kept; it is lost if the agent ends before it is home", "call_id", w.callID, "error", err)
	}
}

// outcome is what a program comes to. Whatever is not noted on this machine does not run.
func (a *Agent) outcome(ctx context.Context, w *work, p *program, began time.Time, entry Entry) surfaces.Result {
	refused := func(r *surfaces.Refusal) surfaces.Result { return r.Result(surfaces.Partial{CallID: w.callID}) }
	unable := func(what string, err error) surfaces.Result {
		a.cfg.Log.Error("a call was not run", "call_id", w.callID, "error", err)
		return refused(&surfaces.Refusal{Code: surfaces.CodeInternal, Message: what + "; nothing ran"})
	}
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	default:
		return refused(&surfaces.Refusal{Code: surfaces.CodeNoCapacity, RetryAfterS: 1, Message: fmt.Sprintf("the machine runs %d calls already; nothing ran", a.cfg.MaxRunning)})
	}
	if err := a.diary.write(entry); err != nil {
		return unable("the machine cannot write its log", err)
	}
	deadline := began.Add(p.Timeout)
	asking, cancel := context.WithDeadline(ctx, deadline)
	refusal := a.consent(asking, w, p)
	cancel()
	if ctx.Err() != nil {
		return refused(&surfaces.Refusal{Code: surfaces.CodeStopped, Message: "the call was stopped before it began; nothing ran"})
	}
	if refusal != nil {
		return refused(refusal)
	}
	if err := a.journal.started(w.callID, w.home); err != nil {
		return unable("the machine cannot note that the call begins", err)
	}
	a.cfg.Say(fmt.Sprintf("%s %s runs %s: %s", shortID(w.callID), p.Actor, p.Language, firstLine(p.Code)))
	w.started()
	return a.cfg.Runner.Run(ctx, Program{
		CallID: w.callID, Language: string(p.Language), Code: p.Code, Stdin: p.Stdin, Timeout: rounded(time.Until(deadline)), Files: p.Files, Primitives: p.Primitives,
	}, w, w)
}

// consent asks the owner, and tells the caller that it waits for that.
func (a *Agent) consent(ctx context.Context, w *work, p *program) *surfaces.Refusal {
	q := Question{CallID: w.callID, Actor: p.Actor, Thought: p.Thought, Language: string(p.Language), Code: p.Code, Folder: a.cfg.Folder}
	for _, f := range p.Files {
		q.Files = append(q.Files, f.Name)
	}
	if a.cfg.Policy.Consent == ConsentAsk && !a.gate.allowed(p.Actor) {
		w.Event(surfaces.Event{Kind: surfaces.EventNotice, Name: "consent", Text: "the machine's owner is asked"})
	}
	return a.gate.allows(ctx, q)
}
