package certs

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRotationStepByStep(t *testing.T) {
	old, next := authority(t), authority(t)
	was, will := PinOf(old.Root()), PinOf(next.Root())
	report := func(issuer Pin, trusts ...Pin) []Report { return []Report{{node("n1"), trusts, issuer}} }
	steady := Steady(old.Root())
	both := Rotation{PhaseTrustBoth, old.Root().Raw, next.Root().Raw}
	issueNew := Rotation{PhaseIssueNew, old.Root().Raw, next.Root().Raw}
	done := Steady(next.Root())
	begin := func(r Rotation, _ []Report) (Rotation, error) { return r.Begin(next.Root()) }
	waits := errors.New("waits")
	for what, c := range map[string]struct {
		from Rotation
		step func(Rotation, []Report) (Rotation, error)
		live []Report
		to   Rotation
		want error
	}{
		"begin":                               {steady, begin, nil, both, nil},
		"begin twice":                         {both, begin, nil, both, ErrBadPhase},
		"begin late":                          {issueNew, begin, nil, issueNew, ErrBadPhase},
		"begin with the same":                 {done, begin, nil, done, ErrBadTrust},
		"nothing to advance":                  {steady, Rotation.Advance, nil, steady, ErrBadPhase},
		"nothing to roll back":                {steady, Rotation.Rollback, nil, steady, ErrBadPhase},
		"all trust the next":                  {both, Rotation.Advance, report(was, was, will), issueNew, nil},
		"one does not trust the next":         {both, Rotation.Advance, append(report(was, was, will), report(was, was)...), both, waits},
		"all have new certificates":           {issueNew, Rotation.Advance, report(will, will, was), done, nil},
		"one has an old certificate":          {issueNew, Rotation.Advance, append(report(will, will), report(was, will, was)...), issueNew, waits},
		"one has a cross-signed one only":     {issueNew, Rotation.Advance, report("", was), issueNew, waits},
		"nobody lives":                        {issueNew, Rotation.Advance, nil, done, nil},
		"back from trust_both":                {both, Rotation.Rollback, report(was, was, will), steady, nil},
		"back while new certificates are out": {both, Rotation.Rollback, report(will, was, will), both, waits},
		"back from issue_new at any time":     {issueNew, Rotation.Rollback, report(will, will, was), both, nil},
		"an unknown phase":                    {Rotation{Phase: "x"}, Rotation.Advance, nil, Rotation{Phase: "x"}, ErrBadPhase},
	} {
		got, err := c.step(c.from, c.live)
		var notReady *NotReadyError
		if c.want == waits {
			if !errors.As(err, &notReady) || !slices.Equal(notReady.Waiting, []Identity{node("n1")}) {
				t.Errorf("%s: %v", what, err)
			}
		} else if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
		if got.Phase != c.to.Phase || !slices.Equal(got.Current, c.to.Current) || !slices.Equal(got.Next, c.to.Next) {
			t.Errorf("%s: led to %s", what, got.Phase)
		}
	}
	other, err := NewAuthority("other", time.Now())
	must(t, other, err)
	if _, err := steady.Begin(other.Root()); !errors.Is(err, ErrBadTrust) {
		t.Errorf("a root of another mesh: %v", err)
	}
	if _, err := steady.Begin(nil); !errors.Is(err, ErrNotRoot) {
		t.Errorf("no root: %v", err)
	}
	if _, err := (Rotation{Phase: "x"}).Trust(); !errors.Is(err, ErrBadPhase) {
		t.Errorf("an unknown phase: %v", err)
	}
	if _, err := (Rotation{Phase: PhaseSteady}).Trust(); !errors.Is(err, ErrBadTrust) {
		t.Errorf("no root: %v", err)
	}
}

func TestRotationPhases(t *testing.T) {
	old, next := authority(t), authority(t)
	for phase, want := range map[Phase][]Pin{
		PhaseSteady:    {PinOf(old.Root())},
		PhaseTrustBoth: {PinOf(old.Root()), PinOf(next.Root())},
		PhaseIssueNew:  {PinOf(next.Root()), PinOf(old.Root())},
	} {
		text, err := json.Marshal(Rotation{phase, old.Root().Raw, next.Root().Raw})
		must(t, text, err)
		var r Rotation
		must(t, 0, json.Unmarshal(text, &r))
		trust, err := r.Trust()
		if got := trust.Pins(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", phase, got, err)
		}
		if pin, err := r.TokenPin(); err != nil || pin != PinOf(old.Root()) {
			t.Errorf("%s: tokens with %s, %v", phase, pin, err)
		}
	}
}

// Members follow the plan one by one in any order, some late. Whatever step the
// plan allows, any two members always accept each other, and so does a laptop
// that slept through, of the server.
func TestRotationKeepsAllMembersConnected(t *testing.T) {
	first := authority(t)
	sleeper := member(t, first, Identity{cluster, RoleLink, "l"})
	authorities := []*Authority{first}
	for range 2 {
		now := authorities[len(authorities)-1]
		next := authority(t)
		cross, err := now.CrossSign(next.Root(), time.Now())
		must(t, cross, err)
		next, err = next.WithCross(cross)
		authorities = append(authorities, must(t, next, err))
	}
	// Whether a certificate is accepted hangs on who issued it and on who is believed
	// only, so certificates are made, and each such pair is judged, once.
	certs, judged, trusts := map[string]tls.Certificate{}, map[string]error{}, map[string]Trust{}
	from := func(a *Authority, id Identity) tls.Certificate {
		key := string(PinOf(a.Root())) + id.ID
		if _, ok := certs[key]; !ok {
			certs[key] = issue(t, a, id)
		}
		return certs[key]
	}
	judge := func(by *Credentials, of *Credentials) error {
		key := fmt.Sprint(by.Trust().Pins(), KeyHash(of.Leaf().AuthorityKeyId))
		if _, ok := judged[key]; !ok {
			_, clientErr := by.VerifyClient(chainOf(t, of))
			_, serverErr := by.VerifyServer(chainOf(t, of))
			judged[key] = errors.Join(clientErr, serverErr)
		}
		return judged[key]
	}
	runs, failing := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		// Signatures are slow under the race detector. A failure is still made small.
		if runs++; runs > 25 && !failing {
			return
		}
		defer func() { failing = failing || rt.Failed() }()
		plan, at := Steady(first.Root()), 0 // authorities[at] is current
		issuer := func() *Authority {
			if plan.Phase == PhaseIssueNew {
				return authorities[at+1]
			}
			return authorities[at]
		}
		members := make([]*Credentials, 2)
		for i := range members {
			c, err := NewCredentials(from(first, node(fmt.Sprintf("n%d", i))), trustIn(first))
			members[i] = must(t, c, err)
		}
		check := func() {
			for _, a := range members {
				for _, b := range members {
					if err := judge(a, b); err != nil {
						rt.Fatalf("%s: %s refuses %s: %v", plan.Phase, a.Identity(), b.Identity(), err)
					}
				}
				if err := judge(sleeper, a); err != nil && at < 1 {
					rt.Fatalf("%s: the sleeper refuses %s: %v", plan.Phase, a.Identity(), err)
				}
			}
		}
		reports := func() (live []Report) {
			for _, m := range members {
				live = append(live, m.Report())
			}
			return live
		}
		one := func(rt *rapid.T) *Credentials { return rapid.SampledFrom(members).Draw(rt, "member") }
		rt.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { check() },
			"believe": func(rt *rapid.T) {
				key := fmt.Sprint(at, plan.Phase)
				if _, ok := trusts[key]; !ok {
					trust, err := plan.Trust()
					trusts[key] = must(t, trust, err)
				}
				if err := one(rt).SetTrust(trusts[key]); err != nil {
					rt.Fatal(err)
				}
			},
			"renew": func(rt *rapid.T) {
				m := one(rt)
				if err := m.Replace(from(issuer(), m.Identity())); err != nil {
					rt.Fatal(err)
				}
			},
			"begin": func(rt *rapid.T) {
				if plan.Phase != PhaseSteady || at+1 == len(authorities) {
					rt.Skip("under way, or no more roots")
				}
				next, err := plan.Begin(authorities[at+1].Root())
				plan = must(t, next, err)
			},
			"advance": func(rt *rapid.T) {
				next, err := plan.Advance(reports())
				if err != nil {
					rt.Skip(err)
				}
				if next.Phase == PhaseSteady {
					at++
				}
				plan = next
			},
			"roll back": func(rt *rapid.T) {
				if next, err := plan.Rollback(reports()); err == nil {
					plan = next
				}
			},
		})
	})
}

// A whole rotation under live configs: handshakes in both directions between all
// members go on all the time, and none fails.
func TestRotationUnderHandshakes(t *testing.T) {
	old, next := rotated(t)
	members := []*Credentials{member(t, old, node("n1")), member(t, old, node("n2")), member(t, old, node("n3"))}
	asleep := member(t, old, Identity{cluster, RoleLink, "l"})
	token := PinOf(old.Root())

	stop := make(chan struct{})
	var dialling sync.WaitGroup
	for i, m := range members {
		serve := ByProtocol(m.Server("p/1"), m.JoinServer(JoinProtocol))
		dials := map[string]func() error{
			"its neighbour": func() error { return meet(t, serve, members[(i+1)%3].Client(nil, "p/1")).err() },
			"a joiner":      func() error { return meet(t, serve, PinnedClient(token, JoinProtocol)).err() },
		}
		for who, dial := range dials {
			dialling.Go(func() {
				for {
					if err := dial(); err != nil {
						t.Errorf("%s met by %s: %v", m.Identity(), who, err)
						return
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
	}
	everybody := func(what string, do func(*Credentials) error) {
		for _, m := range members {
			// Each state is met by a handshake before the next.
			if err := meet(t, members[0].Server("p/1"), m.Client(nil, "p/1")).err(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if err := do(m); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	plan := Steady(old.Root())
	believe := func(m *Credentials) error {
		trust, err := plan.Trust()
		return errors.Join(err, m.SetTrust(trust))
	}
	reports := func() (live []Report) {
		for _, m := range members {
			live = append(live, m.Report())
		}
		return live
	}
	step := func(r Rotation, err error) { t.Helper(); plan = must(t, r, err) }
	renewBy := func(a *Authority) func(*Credentials) error {
		return func(m *Credentials) error { return m.Replace(issue(t, a, m.Identity())) }
	}

	step(plan.Begin(next.Root()))
	everybody("trust both", believe)
	step(plan.Advance(reports()))
	everybody("new issuer", believe)
	everybody("new certificates", renewBy(next))
	// Somebody has second thoughts, and third ones.
	step(plan.Rollback(reports()))
	everybody("back to both", believe)
	everybody("old certificates", renewBy(old))
	step(plan.Advance(reports()))
	everybody("new issuer again", believe)
	everybody("new certificates again", renewBy(next))
	// A laptop that slept so far knows the old root only, and is still welcome.
	for _, m := range members {
		if err := meet(t, m.Server("p/1"), asleep.Client(nil, "p/1")).err(); err != nil {
			t.Errorf("the sleeper: %v", err)
		}
	}
	// Joiners with the old pin are turned away from here on, so those loops end.
	close(stop)
	dialling.Wait()
	step(plan.Advance(reports()))
	everybody("old root dropped", believe)
	everybody("after", func(*Credentials) error { return nil })
	if plan.Phase != PhaseSteady || !slices.Equal(plan.Current, next.Root().Raw) {
		t.Errorf("ended in %s", plan.Phase)
	}
	m := meet(t, members[0].Server("p/1"), asleep.Client(nil, "p/1"))
	if !errors.Is(m.server, ErrUntrusted) || errors.Is(m.client, ErrUntrusted) {
		t.Errorf("the sleeper after all: the server says %v, the sleeper %v", m.server, m.client)
	}
}
