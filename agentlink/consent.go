package agentlink

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// Consent says how the machine's owner consents to calls.
type Consent string

// The kinds of consent.
const (
	// ConsentAsk: the owner is asked each time.
	ConsentAsk Consent = "ask"
	// ConsentAllow: everything within the policy may run.
	ConsentAllow Consent = "allow"
	// ConsentDeny: nothing runs.
	ConsentDeny Consent = "deny"
)

// Policy is what the owner allows.
type Policy struct {
	Consent Consent
	// Languages lists the languages that may run. If empty, all of the machine's may.
	Languages []string
	// Folders lists the folders below which programs may run. If empty, there is no
	// restriction.
	Folders []string
}

// describe summarises the policy in a few words, for the mesh.
func (p Policy) describe(paused bool) string {
	said := map[Consent]string{ConsentAsk: "asks each time", ConsentAllow: "allows", ConsentDeny: "denies"}[p.Consent]
	if len(p.Languages) > 0 {
		said += " " + strings.Join(p.Languages, ", ")
	}
	if len(p.Folders) > 0 {
		said += " in " + strings.Join(p.Folders, ", ")
	}
	if paused {
		return "paused; " + said
	}
	return said
}

// Question is what the owner is asked about a call.
type Question struct {
	CallID string
	Actor  string
	// Thought is why the caller runs it, in its own words; may be empty.
	Thought string
	// Language and Code are what would run, Folder is where.
	Language string
	Code     string
	Folder   string
	// Files are the names of those placed in Folder before the code runs.
	Files []string
}

// Reply is the owner's answer.
type Reply string

// The owner's answers.
const (
	ReplyOnce Reply = "once"
	// ReplyTask allows this and all further calls of the same actor until the agent ends.
	// An actor is one agent with one task.
	ReplyTask Reply = "task"
	ReplyNo   Reply = "no"
)

// AskOwner asks the owner. It returns when ctx ends.
type AskOwner func(ctx context.Context, q Question) (Reply, error)

// askFor bounds the wait for the owner's answer.
const askFor = 60 * time.Second

// gate decides which calls may run.
type gate struct {
	policy Policy
	ask    AskOwner
	paused func() bool // whether the owner has paused the machine: everything is denied then

	asking chan struct{} // a semaphore: one question at a time

	mu            sync.Mutex
	allowedActors map[string]bool // actors that were allowed by ReplyTask
}

func newGate(policy Policy, ask AskOwner, paused func() bool) *gate {
	return &gate{policy: policy, ask: ask, paused: paused, asking: make(chan struct{}, 1), allowedActors: map[string]bool{}}
}

// allows returns nil if a program may run, and otherwise the refusal. It waits for the
// owner for at most askFor, and until the call's deadline, which is that of ctx.
func (g *gate) allows(ctx context.Context, q Question) *surfaces.Refusal {
	denied := func(why string) *surfaces.Refusal {
		return &surfaces.Refusal{Code: surfaces.CodeConsentDenied, Message: why + "; nothing ran", Suggestion: "Ask the machine's owner, or set surface to another one."}
	}
	switch {
	case g.paused():
		return denied("the machine's owner has paused it")
	case g.policy.Consent == ConsentDeny:
		return denied("the machine's owner lets nothing run on it")
	case len(g.policy.Languages) > 0 && !slices.Contains(g.policy.Languages, q.Language):
		return denied(fmt.Sprintf("the machine's owner lets only %s run on it", strings.Join(g.policy.Languages, ", ")))
	case !g.policy.holds(q.Folder):
		return denied(fmt.Sprintf("the machine's owner lets code run only in %s", strings.Join(g.policy.Folders, ", ")))
	case g.policy.Consent == ConsentAllow, g.allowed(q.Actor):
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	reply, err := g.question(ctx, q)
	switch {
	case err != nil:
		return &surfaces.Refusal{
			Code: surfaces.CodeConsentTimeout, Message: "the machine's owner did not answer in time; nothing ran",
			Suggestion: "Ask the owner to be there, and call again with a longer timeout_s.",
		}
	case reply == ReplyTask:
		g.mu.Lock()
		g.allowedActors[q.Actor] = true
		g.mu.Unlock()
	case reply != ReplyOnce:
		return denied("the machine's owner said no")
	}
	return nil
}

// question waits for its turn and asks the owner. If another answer has allowed the actor
// meanwhile, it does not ask.
func (g *gate) question(ctx context.Context, q Question) (Reply, error) {
	select {
	case g.asking <- struct{}{}:
		defer func() { <-g.asking }()
	case <-ctx.Done():
		return ReplyNo, context.Cause(ctx)
	}
	if g.allowed(q.Actor) {
		return ReplyOnce, nil
	}
	return g.ask(ctx, q)
}

func (g *gate) allowed(actor string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.allowedActors[actor]
}
