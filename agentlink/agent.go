package agentlink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/locusrun/locus/certs"
	"github.com/locusrun/locus/mesh"
	"github.com/locusrun/locus/surfaces"
)

// Config configures an Agent. Dir, Role, Runner and Log are required; Ask is required if
// the policy asks.
type Config struct {
	// Dir holds the machine's key, its log, and the calls whose results are not delivered
	// yet. It is created if it does not exist.
	Dir string
	// Role is certs.RoleLink for a person's machine, certs.RoleVM for an agent's.
	Role certs.Role
	// Join is the mesh address of any node and Token the join token. Both are needed only
	// the first time. Name is the name that the machine would like to have.
	Join, Token, Name string
	// Version is that of the machine's release.
	Version string
	Policy  Policy
	Ask     AskOwner
	// Folder is where programs run. It is shown to the owner.
	Folder string
	Runner Runner
	// Progress reports events to the owner, one line each. It may be nil.
	Progress func(line string)
	// Log is for the operator.
	Log *slog.Logger
	// MaxRunning bounds the programs that run at a time; 0 means 8.
	MaxRunning int
}

const defaultRunning = 8

// Agent is the machine's side of the link.
type Agent struct {
	cfg        Config
	membership *membership
	dirLock    *os.File // locked while the agent runs
	mesh       *mesh.Mesh
	journal    journal
	log        *machineLog
	gate       *gate
	slots      chan struct{} // one token per program that runs, up to cfg.MaxRunning

	ctx  context.Context // ends the programs
	end  context.CancelCauseFunc
	talk context.Context // ends the streams of calls, after their programs have ended
	all  sync.WaitGroup

	mu        sync.Mutex
	jobs      map[string]*job // accepted calls that are not released yet, by call id
	seen      map[string]bool // ids of accepted calls; seenOrder has the latest last
	seenOrder []string
	at        string        // the node's address while attached, else empty
	attached  chan struct{} // closed at the next change of at
}

// maxSeenCalls bounds the remembered ids of accepted calls.
const maxSeenCalls = 4096

// Open loads or obtains the machine's membership in the mesh, and loads its state from
// disk. The error may be ErrNoToken, ErrLocked, a *RoleError, a *certs.TokenError, or one of
// mesh.Enrol.
func Open(ctx context.Context, cfg Config) (*Agent, error) {
	if cfg.MaxRunning == 0 {
		cfg.MaxRunning = defaultRunning
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, callsDir), 0o700); err != nil {
		return nil, fmt.Errorf("agentlink: %w", err)
	}
	held, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	a, err := open(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	a.dirLock = held
	return a, nil
}

// ErrLocked: another agent runs in the directory.
var ErrLocked = errors.New("agentlink: another agent runs in this directory")

// lockDir locks the directory for this process. Two agents with one directory would run the
// same call twice.
func lockDir(dir string) (*os.File, error) {
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
	member, err := openMembership(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	if role := member.credentials.Identity().Role; role != cfg.Role {
		return nil, &RoleError{Actual: role, Wanted: cfg.Role, Stored: true}
	}
	a := &Agent{
		cfg: cfg, membership: member, journal: journal{filepath.Join(cfg.Dir, callsDir)}, slots: make(chan struct{}, cfg.MaxRunning),
		jobs: map[string]*job{}, seen: map[string]bool{}, attached: make(chan struct{}),
	}
	a.gate = newGate(cfg.Policy, cfg.Ask, func() bool { return Paused(cfg.Dir) })
	if a.log, err = openMachineLog(cfg.Dir); err != nil {
		return nil, err
	}
	if err := a.restore(); err != nil {
		return nil, errors.Join(err, a.log.close())
	}
	return a, nil
}

// restore loads the ids of accepted calls, and the calls whose results are not delivered
// yet.
func (a *Agent) restore() error {
	err := ReadLog(a.cfg.Dir, func(e Entry) error {
		a.markSeen(e.CallID)
		return nil
	})
	if err != nil {
		return err
	}
	left, err := a.journal.load()
	if err != nil {
		return err
	}
	for _, w := range left {
		a.markSeen(w.callID)
		a.jobs[w.callID] = w
	}
	return nil
}

// markSeen records a call id. It returns false if the id was recorded before. a.mu must be
// held once Run has started.
func (a *Agent) markSeen(callID string) bool {
	if a.seen[callID] {
		return false
	}
	a.seen[callID] = true
	a.seenOrder = append(a.seenOrder, callID)
	if len(a.seenOrder) > maxSeenCalls {
		delete(a.seen, a.seenOrder[0])
		a.seenOrder = a.seenOrder[1:]
	}
	return true
}

// Joined reports whether Open has just joined the mesh, with Config.Token and under
// Config.Name. If the machine was linked before, it is false, and both were ignored.
func (a *Agent) Joined() bool { return a.membership.joined }

// errLeaving is the cause with which programs are stopped when the agent shuts down.
var errLeaving = errors.New("agentlink: the agent ends")

// leavingWithin bounds the shutdown: programs have a second to react to the interrupt, then
// their results are delivered.
const leavingWithin = 4 * time.Second

// Run keeps the machine connected and runs calls until ctx ends, or until the mesh no
// longer knows the machine, which gives ErrUnlinked. Running programs are stopped then, and
// their callers are told before Run returns. An unlinked machine cannot tell them: it kills
// its programs without grace, and deletes its key.
func (a *Agent) Run(ctx context.Context) error {
	conn, err := socketFor(ctx, a.membership.addresses[0])
	if err == nil {
		a.mesh, err = mesh.Open(mesh.Config{Conn: conn, Credentials: a.membership.credentials, DialOnly: true, Log: a.cfg.Log})
	}
	if err != nil {
		return errors.Join(err, a.close())
	}
	a.ctx, a.end = context.WithCancelCause(context.WithoutCancel(ctx))
	talk, hush := context.WithCancel(context.WithoutCancel(ctx))
	defer hush()
	a.talk = talk
	live, stop := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { a.end(errLeaving) })() // before the last offers are accepted: their programs do not start
	for _, w := range a.jobs {
		a.all.Go(func() { a.deliverResult(w) })
	}
	a.all.Go(func() { a.renewCertificate(live) })
	err = a.keepAttached(live)
	stop()
	if errors.Is(err, ErrUnlinked) {
		a.end(surfaces.ErrNoGrace)
		hush()
		err = errors.Join(err, a.membership.remove())
	} else {
		a.end(errLeaving)
		defer time.AfterFunc(leavingWithin, hush).Stop()
	}
	a.all.Wait()
	return errors.Join(err, a.mesh.Close(), a.close())
}

// close releases what Open has opened.
func (a *Agent) close() error { return errors.Join(a.log.close(), a.dirLock.Close()) }

// renewCertificate keeps the certificate valid until ctx ends.
func (a *Agent) renewCertificate(ctx context.Context) {
	renewer := certs.Renewer{
		Credentials: a.membership.credentials, Log: a.cfg.Log,
		Save: func(c *certs.Credentials) error { return certs.SaveCredentials(a.cfg.Dir, c) },
		Request: func(ctx context.Context, spki []byte) ([][]byte, certs.Trust, error) {
			addr, _ := a.where()
			if addr == "" {
				return nil, certs.Trust{}, errors.New("agentlink: not connected")
			}
			s, err := a.mesh.StreamAt(ctx, addr, methodRenew)
			if err != nil {
				return nil, certs.Trust{}, err
			}
			defer s.Cancel()
			if err := sendJSON(s, renewRequest{SPKI: spki}); err != nil {
				return nil, certs.Trust{}, err
			}
			var got renewReply
			err = receiveJSON(s, maxSmall, &got)
			return got.Chain, got.Trust, err
		},
	}
	_ = renewer.Run(ctx) // ends with ctx only
}
