package chaos

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/locusrun/locus/mesh/cables"
	"github.com/locusrun/locus/mesh/faultnet"
)

// settlesWithin bounds the wait for a whole mesh after a fault, where the schedule has one.
// Whether the mesh heals is checked only at the end of the run.
const settlesWithin = 30 * time.Second

// bad is a network on which hardly anything works.
var bad = faultnet.Link{Delay: 10 * time.Millisecond, Jitter: 40 * time.Millisecond, Drop: 0.2, Duplicate: 0.1}

// breakIt injects faults by the schedule until the time is over or ctx ends. The error is
// of a node that could not be restarted.
func (r *run) breakIt(ctx context.Context) error {
	s := newSchedule(r.o.Seed, r.o.Faults, r.o.Fast)
	over := time.Now().Add(r.o.For)
	for number := 1; ; number++ {
		p := s.next()
		if time.Now().Add(p.quiet).After(over) {
			return pause(ctx, time.Until(over))
		}
		if err := pause(ctx, p.quiet); err != nil {
			return err
		}
		f := Fault{Number: number, Kind: p.kind, Target: p.target, Node: r.find(ctx, p)}
		if err := r.inflict(ctx, p, f); err != nil {
			return err
		}
		if p.settle && time.Now().Before(over) {
			if err := r.world.whole(ctx, min(settlesWithin, time.Until(over))); err != nil && !errors.Is(err, ErrMeshNotReady) {
				return err
			}
		}
	}
}

// find returns the number of the node that a fault hits: a drawn node if the owner or
// leader is unknown.
func (r *run) find(ctx context.Context, p plan) int {
	found := 0
	switch p.target {
	case Owner:
		found = r.clients.owner(p.draw % slots)
	case Leader:
		found = r.world.leader(ctx)
	case Network:
		return 0
	}
	if found == 0 {
		found = 1 + p.draw%len(r.world.members)
	}
	return found
}

// inflict injects a fault and mends it, also if ctx ends meanwhile.
func (r *run) inflict(ctx context.Context, p plan, f Fault) error {
	f.Began = r.clock.now()
	r.journal.add(Line{Fault: &f})
	r.say("%s%s for %s", f.Kind, on(f), p.lasts.Round(time.Millisecond))
	mend, err := r.begin(&f)
	if err == nil {
		waits := pause(ctx, p.lasts)
		err = errors.Join(mend(ctx), waits)
	}
	f.Ended = r.clock.now()
	if err != nil && ctx.Err() == nil {
		f.Problem = err.Error()
	}
	r.journal.add(Line{Fault: &f})
	n := r.clients.sofar()
	r.say("ended after %s; so far %d calls, %d answered, %d told of lost state", time.Duration(f.Ended-f.Began).Round(time.Millisecond), n.Calls, n.Answered, n.Told)
	return err
}

// on describes the target of a fault.
func on(f Fault) string {
	if f.Node == 0 {
		return " the network"
	}
	return fmt.Sprintf(" node %d (%s)", f.Node, f.Target)
}

// begin injects a fault and returns the function that mends it.
func (r *run) begin(f *Fault) (mend func(context.Context) error, err error) {
	heal := func(context.Context) error { r.world.wires.Heal(); return nil }
	if f.Node == 0 {
		r.world.wires.Degrade(bad)
		return heal, nil
	}
	m := r.world.members[f.Node-1]
	back := func(ctx context.Context) error {
		if ctx.Err() != nil {
			return nil // the run is over: leave the node down
		}
		return m.start(ctx, r.world.token)
	}
	switch f.Kind {
	case Kill:
		return back, m.kill()
	case Restart:
		status, err := m.drain()
		f.Status = &status
		return back, err
	case Stop:
		return func(context.Context) error { return m.signal(syscall.SIGCONT) }, m.signal(syscall.SIGSTOP)
	case Cut:
		r.world.wires.Isolate(f.Node, cables.Both)
	case Deaf:
		r.world.wires.Isolate(f.Node, cables.Inbound)
	case Mute:
		r.world.wires.Isolate(f.Node, cables.Outbound)
	}
	return heal, nil
}
