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
	// renewSpread spreads the renewals of all members after the issuing root has changed.
	renewSpread = 10 * time.Second
	// After a failed attempt the next one comes after a delay that doubles from renewFirst
	// to renewLast, with a jitter that takes off up to half of it.
	renewFirst = time.Second
	renewLast  = 5 * time.Minute
	// wakeEvery bounds a wait. The monotonic clock stops while a machine sleeps, so the
	// wall clock is checked at this interval.
	wakeEvery = time.Minute
)

// Renewer renews Credentials at a random time between 50 and 66 % of the certificate's life,
// and within seconds when another root issues (Stale). Every renewal uses a new key. It never
// gives up, even after expiry.
type Renewer struct {
	Credentials *Credentials
	// Request requests a certificate for a new public key. It returns the chain in DER, leaf
	// first, and the roots to trust from then on. It returns no roots if they are
	// distributed in another way, so that a delayed answer cannot replace newer ones. It is
	// called again with the same key until it succeeds, so that a lost answer does no harm;
	// each call has 30 s. If the current certificate has expired, it needs
	// Credentials.Recover.
	Request func(ctx context.Context, spki []byte) (chain [][]byte, trust Trust, err error)
	// Save stores credentials, as SaveCredentials does. It is called before new credentials
	// are used, and again later if it failed. With nil they are not stored.
	Save func(*Credentials) error
	// Log may be nil.
	Log *slog.Logger

	pending ed25519.PrivateKey // the key to be certified
	unkept  bool               // Save failed for the current credentials
	failed  int                // failed attempts in a row
}

// Run renews until the context ends, and returns its cause. It may be called only once.
func (r *Renewer) Run(ctx context.Context) error {
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	due := r.alarm(r.untilDue(r.Credentials.Leaf().NotBefore.Add(Skew)))
	for {
		// Get the channel before reading, so that no change is missed.
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

// renew makes one attempt and returns the time until the next one.
func (r *Renewer) renew(ctx context.Context) time.Duration {
	if err := r.attempt(ctx); err != nil {
		if ctx.Err() == nil {
			r.Log.Warn("certificate not renewed", "err", err, "ends", r.Credentials.Leaf().NotAfter)
		}
		return r.backoff()
	}
	r.Log.Info("certificate renewed", "ends", r.Credentials.Leaf().NotAfter)
	if r.Credentials.Stale() {
		// The node that answered does not know the new issuer yet.
		return r.backoff()
	}
	r.failed = 0
	// Counted from now, so that a wrong clock on either side does not cause a loop.
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
	chain, trust, err := r.Request(ctx, spki)
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
	if r.Save == nil {
		return
	}
	err := r.Save(c)
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

// untilDue returns the time until the certificate should be renewed, if its life began then.
func (r *Renewer) untilDue(began time.Time) time.Duration {
	leaf := r.Credentials.Leaf()
	life := leaf.NotAfter.Sub(leaf.NotBefore) - 2*Skew
	if life <= 0 { // shortened, because its root ends
		life = leaf.NotAfter.Sub(leaf.NotBefore)
	}
	part := time.Duration((0.50 + 0.16*rand.Float64()) * float64(life))
	return began.Add(part).Sub(r.Credentials.now())
}

// alarm is a time on two clocks. It is due when either clock reaches it.
type alarm struct {
	steady time.Time // by time.Now, monotonic
	wall   time.Time // by the credentials' clock, without the monotonic part
}

func (r *Renewer) alarm(in time.Duration) alarm {
	return alarm{time.Now().Add(in), r.Credentials.now().Round(0).Add(in)}
}

func (a alarm) left() time.Duration { return time.Until(a.steady) }

func (a alarm) rung(r *Renewer) bool {
	return a.left() <= 0 || !r.Credentials.now().Round(0).Before(a.wall)
}

// orIn returns this alarm if it is due within renewSpread, else a new one.
func (a alarm) orIn(in time.Duration, r *Renewer) alarm {
	if a.left() <= renewSpread {
		return a
	}
	return r.alarm(in)
}
