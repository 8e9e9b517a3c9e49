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

// Consent says what the owner of the machine lets run.
type Consent string

// The kinds of consent.
const (
	// ConsentAsk: the owner is asked each time.
	ConsentAsk Consent = "ask"
	// ConsentAllow: what runs is in the policy.
	ConsentAllow Consent = "allow"
	// ConsentDeny: nothing runs.
	ConsentDeny Consent = "deny"
)

// Policy is the owner's will.
type Policy struct {
	Consent Consent
	// Languages are those that may run at all; none are all that the machine has.
	Languages []string
	// Folders are those in which programs may have their own; none are all.
	Folders []string
}

// describe says it in a few words, for the mesh.
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

// Question is what the owner is asked.
type Question struct {
	CallID  string
	Actor   string
	Thought string
	// Language and Code are what would run, and Folder where.
	Language string
	Code     string
	Folder   string
	Files    []string
}

// Reply is the owner's answer.
type Reply string

// The owner's answers.
const (
	ReplyOnce Reply = "once"
	// ReplyTask allows all that the same actor asks for until the agent ends: an actor
	// is one agent at one task.
	ReplyTask Reply = "task"
	ReplyNo   Reply = "no"
)

// AskOwner puts a question to the owner. It gives up when ctx ends.
type AskOwner func(ctx context.Context, q Question) (Reply, error)

// askFor is how long the owner is waited for.
const askFor = 60 * time.Second

// gate holds the owner's will and what was allowed meanwhile.
type gate struct {
	policy Policy
	ask    AskOwner
	paused func() bool

	asking chan struct{} // holds a token while a question is put: one at a time

	mu            sync.Mutex
	allowedActors map[string]bool // actors
}

func newGate(policy Policy, ask AskOwner, paused func() bool) *gate {
	return &gate{policy: policy, ask: ask, paused: paused, asking: make(chan struct{}, 1), allowedActors: map[string]bool{}}
}

// allows gives nil when a program may run, or the refusal. It waits for the owner for
// as long as the call's own deadline allows, which ctx holds.
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

// question waits for its turn with the owner, and for the answer. One that an earlier
// answer has settled is not put.
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
