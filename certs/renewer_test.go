package certs

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errAway = errors.New("nobody answers")
	errStop = errors.New("enough")
)

// mint is the authority's side of a Renewer, as its Ask.
type mint struct {
	mu    sync.Mutex
	by    *Authority
	trust Trust
	away  bool
	asked []ask
}

type ask struct {
	at   time.Time
	spki []byte
}

func (m *mint) ask(id Identity, life time.Duration) func(context.Context, []byte) ([][]byte, Trust, error) {
	return func(_ context.Context, spki []byte) ([][]byte, Trust, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.asked = append(m.asked, ask{time.Now(), bytes.Clone(spki)})
		if m.away {
			return nil, Trust{}, errAway
		}
		key, err := ParseSPKI(spki)
		if err != nil {
			return nil, Trust{}, err
		}
		chain, err := m.by.Issue(id, key, time.Now(), life)
		return chain, m.trust, err
	}
}

func (m *mint) set(change func(*mint)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

func (m *mint) asks() []ask {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// run runs a renewer in a bubble until the test is over.
func run(t *testing.T, r *Renewer) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel(errStop)
		if err := <-ended; !errors.Is(err, errStop) {
			t.Errorf("ended by %v", err)
		}
	})
}

func renewing(t *testing.T, options ...Option) (*mint, *Renewer) {
	a := authority(t)
	c, err := NewCredentials(issueAt(t, a, node("n1"), time.Now(), DefaultLifetime), trustIn(a), options...)
	m := &mint{by: a}
	return m, &Renewer{Credentials: must(t, c, err), Request: m.ask(node("n1"), DefaultLifetime)}
}

func TestRenewsBetweenHalfAndTwoThirdsWithNewKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := renewing(t)
		began, first := time.Now(), r.Credentials.Leaf()
		var kept []keptLeaf
		r.Save = func(c *Credentials) error {
			kept = append(kept, keptLeaf{c.Leaf().SerialNumber.String(), r.Credentials.Leaf().SerialNumber.String()})
			return nil
		}
		run(t, r)
		time.Sleep(10 * DefaultLifetime)
		synctest.Wait()
		asks := m.asks()
		if len(asks) < 15 || len(asks) > 20 {
			t.Fatalf("%d renewals in ten lives", len(asks))
		}
		keys := map[string]bool{KeyHash(first.RawSubjectPublicKeyInfo): true}
		waits := map[time.Duration]bool{}
		for _, a := range asks {
			// Leaves carry whole seconds.
			wait := a.at.Sub(began)
			if wait < DefaultLifetime/2-time.Second || wait > DefaultLifetime*66/100+time.Second {
				t.Errorf("renewed after %v", wait)
			}
			began, waits[wait] = a.at, true
			keys[KeyHash(a.spki)] = true
		}
		if len(keys) != len(asks)+1 || len(waits) < 2 {
			t.Errorf("%d keys, %d different waits in %d renewals", len(keys), len(waits), len(asks))
		}
		if len(kept) != len(asks) || kept[0].stored == kept[0].used || kept[1].used != kept[0].stored {
			t.Errorf("kept %d of %d, the first %+v", len(kept), len(asks), kept[0])
		}
	})
}

// keptLeaf tells which certificate was stored while which was in use.
type keptLeaf struct{ stored, used string }

func TestRenewerRetriesForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := renewing(t)
		m.set(func(m *mint) { m.away = true })
		run(t, r)
		time.Sleep(3 * DefaultLifetime) // long after its end
		asks := m.asks()
		for i, a := range asks[1:] {
			wait, delay := a.at.Sub(asks[i].at), min(renewFirst<<min(i, 16), renewLast)
			if wait < delay/2 || wait > delay {
				t.Fatalf("attempt %d came after %v", i+2, wait)
			}
			if !bytes.Equal(a.spki, asks[0].spki) {
				t.Fatal("asked for another key before the first was answered")
			}
		}
		if last := asks[len(asks)-1].at; time.Since(last) > renewLast {
			t.Errorf("the last attempt was %v ago", time.Since(last))
		}
		m.set(func(m *mint) { m.away = false })
		time.Sleep(renewLast)
		synctest.Wait()
		if got := r.Credentials.Leaf(); got.NotAfter.Before(time.Now()) || KeyHash(got.RawSubjectPublicKeyInfo) != KeyHash(asks[0].spki) {
			t.Errorf("not renewed: ends %v", got.NotAfter)
		}
		before := len(m.asks())
		time.Sleep(DefaultLifetime / 3)
		if more := len(m.asks()) - before; more != 0 {
			t.Errorf("renewed %d times more at once", more)
		}
		// The next failures are the first ones again.
		m.set(func(m *mint) { m.away = true })
		time.Sleep(DefaultLifetime / 2)
		again := m.asks()[before:]
		if wait := again[1].at.Sub(again[0].at); wait > renewFirst {
			t.Errorf("a first failure is followed after %v", wait)
		}
	})
}

func TestInvalidAnswersAreNotUsed(t *testing.T) {
	for what, ask := range map[string]func(t *testing.T, m *mint) func(context.Context, []byte) ([][]byte, Trust, error){
		"nothing": func(*testing.T, *mint) func(context.Context, []byte) ([][]byte, Trust, error) {
			return func(context.Context, []byte) ([][]byte, Trust, error) { return nil, Trust{}, nil }
		},
		"another identity": func(_ *testing.T, m *mint) func(context.Context, []byte) ([][]byte, Trust, error) {
			return m.ask(node("n2"), DefaultLifetime)
		},
		"another key": func(t *testing.T, m *mint) func(context.Context, []byte) ([][]byte, Trust, error) {
			return func(context.Context, []byte) ([][]byte, Trust, error) {
				return issue(t, m.by, node("n1")).Certificate, Trust{}, nil
			}
		},
		"a strange root": func(t *testing.T, m *mint) func(context.Context, []byte) ([][]byte, Trust, error) {
			return (&mint{by: authority(t)}).ask(node("n1"), DefaultLifetime)
		},
		"roots that do not stand behind it": func(t *testing.T, m *mint) func(context.Context, []byte) ([][]byte, Trust, error) {
			return (&mint{by: m.by, trust: trustIn(authority(t))}).ask(node("n1"), DefaultLifetime)
		},
		"no end": func(*testing.T, *mint) func(context.Context, []byte) ([][]byte, Trust, error) {
			return func(ctx context.Context, _ []byte) ([][]byte, Trust, error) {
				<-ctx.Done()
				return nil, Trust{}, context.Cause(ctx)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, r := renewing(t)
				was, good := r.Credentials.Leaf(), r.Request
				bad := ask(t, m)
				var asked atomic.Int32
				r.Request = func(ctx context.Context, spki []byte) ([][]byte, Trust, error) {
					if asked.Add(1) < 5 {
						return bad(ctx, spki)
					}
					return good(ctx, spki)
				}
				r.Save = func(*Credentials) error {
					if asked.Load() < 5 {
						t.Error("a bad answer was kept")
					}
					return nil
				}
				run(t, r)
				time.Sleep(DefaultLifetime*66/100 + 10*time.Minute)
				synctest.Wait()
				if asked.Load() != 5 || r.Credentials.Leaf() == was {
					t.Errorf("asked %d times", asked.Load())
				}
			})
		})
	}
}

// A new issuer is followed within seconds, once it can be.
func TestFollowsANewIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := renewing(t)
		old, next := m.by, authority(t)
		cross, err := old.CrossSign(next.Root(), time.Now())
		next, err = next.WithCross(must(t, cross, err))
		must(t, next, err)
		run(t, r)
		time.Sleep(time.Minute)
		must(t, 0, r.Credentials.SetTrust(trustIn(old, next)))
		time.Sleep(time.Minute)
		if n := len(m.asks()); n != 0 {
			t.Fatalf("renewed %d times without need", n)
		}
		// The one who answers has not heard of it yet.
		must(t, 0, r.Credentials.SetTrust(trustIn(next, old)))
		time.Sleep(10 * time.Minute)
		if n := len(m.asks()); n < 5 || n > 14 {
			t.Errorf("%d attempts in ten minutes", n)
		}
		m.set(func(m *mint) { m.by = next })
		time.Sleep(renewLast)
		if r.Credentials.Stale() {
			t.Error("still stale")
		}
		n := len(m.asks())
		time.Sleep(DefaultLifetime / 3)
		if len(m.asks()) != n {
			t.Error("renewed without need")
		}
	})
}

// The answer's trust is taken with its certificate, in one step.
func TestTrustComesWithTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := renewing(t)
		next := authority(t)
		m.by, m.trust = next, trustIn(next)
		run(t, r)
		time.Sleep(DefaultLifetime)
		if !r.Credentials.Trust().Issuer().Equal(next.Root()) || r.Credentials.Stale() {
			t.Error("not taken")
		}
	})
}

func TestSaveIsRetriedAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r := renewing(t)
		was := r.Credentials.Leaf()
		var full atomic.Bool
		var kept atomic.Pointer[Credentials]
		full.Store(true)
		r.Save = func(c *Credentials) error {
			if full.Load() {
				return errors.New("the disk is full")
			}
			kept.Store(c)
			return nil
		}
		run(t, r)
		time.Sleep(DefaultLifetime * 67 / 100)
		if r.Credentials.Leaf() == was {
			t.Fatal("a full disk keeps from renewing")
		}
		full.Store(false)
		time.Sleep(2 * wakeEvery)
		if c := kept.Load(); c == nil || c.Leaf() != r.Credentials.Leaf() {
			t.Error("not kept")
		}
	})
}

// While a machine sleeps its monotonic clock stands still; the wall clock tells.
func TestRenewerRenewsAfterASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		m, r := renewing(t, WithClock(func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }))
		run(t, r)
		time.Sleep(time.Hour)
		slept.Store(int64(DefaultLifetime))
		time.Sleep(2 * wakeEvery)
		if n := len(m.asks()); n != 1 {
			t.Errorf("%d renewals after waking", n)
		}
	})
}

// A clock that is far ahead makes one early renewal, not a loop.
func TestWrongClockDoesNotCauseBusyRenewal(t *testing.T) {
	for _, off := range []time.Duration{-20 * time.Hour, 20 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			m, r := renewing(t, WithClock(func() time.Time { return time.Now().Add(off) }))
			run(t, r)
			time.Sleep(DefaultLifetime)
			if n := len(m.asks()); n > 3 {
				t.Errorf("off %v: %d renewals in a day", off, n)
			}
		})
	}
}

func TestLoadedLateRenewsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := renewing(t)
		time.Sleep(DefaultLifetime)
		run(t, r)
		synctest.Wait()
		if n := len(m.asks()); n != 1 {
			t.Errorf("%d renewals", n)
		}
	})
}
