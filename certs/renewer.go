package certs

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	// renewTimeout bounds one attempt.
	renewTimeout = 30 * time.Second
	// renewSpread spreads the renewals of a whole mesh after a change of its issuer.
	renewSpread = 10 * time.Second
	// A failed attempt is followed by the next after a random time between half and
	// all of a delay that doubles from renewFirst to renewLast.
	renewFirst = time.Second
	renewLast  = 5 * time.Minute
	// wakeEvery bounds a wait. A monotonic clock stands still while a machine
	// sleeps, so the wall clock is looked at this often.
	wakeEvery = time.Minute
)

// Renewer keeps Credentials fresh: it renews at a random moment between 50 and
// 66 % of a certificate's life, always with a new key, and soon when another root
// issues (Stale). It never gives up, not after expiry either.
type Renewer struct {
	Credentials *Credentials
	// Ask gets a certificate for a new public key: the chain in DER, leaf first, and
	// the roots to believe from then on, or no roots where those come another way
	// and an answer that was long under way must not set them back. It is asked
	// again with the same key until it succeeds, so that a lost answer costs
	// nothing. Each time it has 30 s. Where the present certificate has expired it
	// will want Credentials.Recover.
	Ask func(ctx context.Context, spki []byte) (chain [][]byte, trust Trust, err error)
	// Keep stores credentials, as SaveCredentials does. It is called before new ones
	// are used, and again later if it failed. Nil keeps nothing.
	Keep func(*Credentials) error
	// Log gets what went wrong. Nil logs nothing.
	Log *slog.Logger

	pending ed25519.PrivateKey // the key that is asked for
	unkept  bool               // Keep failed for the present credentials
	failed  int                // attempts in a row
}

// Run renews until the context ends, and returns its cause. Run it once only.
func (r *Renewer) Run(ctx context.Context) error {
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	due := r.alarm(r.untilDue(r.Credentials.Leaf().NotBefore.Add(Skew)))
	for {
		// The channel comes first: a change while we look must not be missed.
		changed := r.Credentials.Changed()
		if r.failed == 0 && r.Credentials.Stale() {
			due = due.orIn(rand.N(renewSpread), r)
		}
		if due.rung(r) {
			due = r.alarm(r.renew(ctx))
			continue
		}
		timer := time.NewTimer(min(due.left(), wakeEvery))
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-changed:
		case <-timer.C:
			r.keepAgain()
		}
		timer.Stop()
	}
}

// renew tries once and gives the time until the next try.
func (r *Renewer) renew(ctx context.Context) time.Duration {
	if err := r.attempt(ctx); err != nil {
		if ctx.Err() == nil {
			r.Log.Warn("certificate not renewed", "err", err, "ends", r.Credentials.Leaf().NotAfter)
		}
		return r.backoff()
	}
	r.Log.Info("certificate renewed", "ends", r.Credentials.Leaf().NotAfter)
	if r.Credentials.Stale() {
		// Whoever answered does not know of the new issuer yet.
		return r.backoff()
	}
	r.failed = 0
	// Counted from now, so that a wrong clock on either side makes no loop.
	return r.untilDue(r.Credentials.now())
}

func (r *Renewer) attempt(ctx context.Context) error {
	if r.pending == nil {
		key, err := NewKey()
		if err != nil {
			return err
		}
		r.pending = key
	}
	spki, err := SPKI(r.pending.Public())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, renewTimeout, errors.New("certs: no answer to a renewal"))
	defer cancel()
	chain, trust, err := r.Ask(ctx, spki)
	if err != nil {
		return err
	}
	c := r.Credentials
	cert := tls.Certificate{Certificate: chain, PrivateKey: r.pending}
	change := func() error { return c.Renew(cert, trust) }
	if len(trust.Roots) == 0 {
		trust = c.Trust()
		change = func() error { return c.Replace(cert) }
	}
	next, err := NewCredentials(cert, trust, WithClock(c.now))
	if err != nil {
		return err
	}
	if next.Identity() != c.Identity() {
		return fmt.Errorf("%w: got those of %s", ErrBadCredentials, next.Identity())
	}
	r.keep(next)
	if err := change(); err != nil {
		return err
	}
	r.pending = nil
	return nil
}

func (r *Renewer) keep(c *Credentials) {
	if r.Keep == nil {
		return
	}
	err := r.Keep(c)
	if r.unkept = err != nil; r.unkept {
		r.Log.Error("certificate not kept", "err", err)
	}
}

func (r *Renewer) keepAgain() {
	if r.unkept {
		r.keep(r.Credentials)
	}
}

func (r *Renewer) backoff() time.Duration {
	delay := min(renewFirst<<min(r.failed, 16), renewLast)
	r.failed++
	return delay/2 + rand.N(delay/2)
}

// untilDue gives the time until a certificate is to be renewed, if its life
// began then.
func (r *Renewer) untilDue(began time.Time) time.Duration {
	leaf := r.Credentials.Leaf()
	life := leaf.NotAfter.Sub(leaf.NotBefore) - 2*Skew
	if life <= 0 { // cut short by the end of its root
		life = leaf.NotAfter.Sub(leaf.NotBefore)
	}
	part := time.Duration((0.50 + 0.16*rand.Float64()) * float64(life))
	return began.Add(part).Sub(r.Credentials.now())
}

// alarm is a moment on both clocks; the first of them rings it.
type alarm struct {
	steady time.Time // read from time.Now, monotonic
	wall   time.Time // read from the credentials' clock, without monotonic part
}

func (r *Renewer) alarm(in time.Duration) alarm {
	return alarm{time.Now().Add(in), r.Credentials.now().Round(0).Add(in)}
}

func (a alarm) left() time.Duration { return time.Until(a.steady) }

func (a alarm) rung(r *Renewer) bool {
	return a.left() <= 0 || !r.Credentials.now().Round(0).Before(a.wall)
}

// orIn gives the earlier of this alarm and one in a while from now.
func (a alarm) orIn(in time.Duration, r *Renewer) alarm {
	if a.left() <= renewSpread {
		return a
	}
	return r.alarm(in)
}
