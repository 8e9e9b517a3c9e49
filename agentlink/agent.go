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
	cfg        Config
	membership *membership
	dirLock    *os.File // the lock of the directory
	mesh       *mesh.Mesh
	journal    journal
	log        *machineLog
	gate       *gate
	slots      chan struct{}

	ctx  context.Context // ends what runs
	end  context.CancelCauseFunc
	talk context.Context // ends the streams of calls, later than their programs
	all  sync.WaitGroup

	mu        sync.Mutex
	jobs      map[string]*job
	seen      map[string]bool // ids of calls that were taken, latest last in order
	seenOrder []string
	at        string        // the node's address while attached
	attached  chan struct{} // closed at the next change of at
}

// maxSeenCalls is how many calls an agent remembers to have taken.
const maxSeenCalls = 4096

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

// ErrHeld: another agent runs in the directory.
var ErrHeld = errors.New("agentlink: another agent runs in this directory")

// lockDir takes the directory for this process: two agents there would each run what was
// meant once.
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
		return nil, &RoleError{Has: role, Wanted: cfg.Role, Kept: true}
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

// restore reads which calls this machine has taken, and which it has not handed over.
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

// markSeen notes that a call was taken; false when it was before. a.mu is held, or nobody
// else is there yet.
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

// Joined reports whether Open has linked the machine, by Config.Token and under
// Config.Name. One that was linked before has a name, and needs no token.
func (a *Agent) Joined() bool { return a.membership.joined }

// errLeaving stops the programs when the agent itself was told to end.
var errLeaving = errors.New("agentlink: the agent ends")

// leavingWithin bounds the shutdown: programs have a second to react to the interrupt,
// then their results are sent home.
const leavingWithin = 4 * time.Second

// Run keeps the machine connected and runs what it is asked to until ctx ends, or the
// mesh does not know the machine any more: ErrUnlinked. What runs is ended then,
// and its callers are told before Run returns. A machine that was unlinked can tell nobody,
// kills its programs without grace, and forgets its key.
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

// close lets go of what Open has opened.
func (a *Agent) close() error { return errors.Join(a.log.close(), a.dirLock.Close()) }

// renewCertificate renews the certificate until ctx ends.
func (a *Agent) renewCertificate(ctx context.Context) {
	renewer := certs.Renewer{
		Credentials: a.membership.credentials, Log: a.cfg.Log,
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
