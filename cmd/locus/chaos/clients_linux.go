package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/locusrun/locus/node/gateway/client"
	"github.com/locusrun/locus/surfaces"
)

const (
	// slots is how many sessions are in use at a time, and era how long each of them is
	// used before another takes its place: histories of one session grow no longer.
	slots = 2
	era   = 30 * time.Second
	// each is how many clients there are at each node.
	each = 2
	// restsFor is how long a client rests between two calls at most.
	restsFor = 100 * time.Millisecond
)

// clients call the mesh all the time, and write down what they see.
type clients struct {
	w       *world
	clock   clock
	journal *journal
	slack   time.Duration
	seed    uint64
	marks   string // the file to which code writes its marks

	stop chan struct{} // closed when they shall make no more calls
	work sync.WaitGroup

	mu     sync.Mutex
	owners map[string]int // by session: where it answered last
	counts Counts
}

// Counts are what is told while a run is on.
type Counts struct {
	Calls, Answered, Told int
}

// session gives the name of the session that is in a slot at this time.
func (c *clients) session(slot int) string {
	return fmt.Sprintf("s%d-%d", slot, c.clock.now()/int64(era))
}

// run starts the clients at all of the nodes.
func (c *clients) run(ctx context.Context) {
	for i := range each * len(c.w.members) {
		m := c.w.members[i/each]
		random := rand.New(rand.NewPCG(c.seed, uint64(100+i)))
		c.work.Go(func() {
			for n := 0; !c.stopped(ctx); n++ {
				c.turn(ctx, m, fmt.Sprintf("%d.%d", i, n), random)
			}
		})
	}
}

func (c *clients) stopped(ctx context.Context) bool {
	select {
	case <-c.stop:
		return true
	default:
		return ctx.Err() != nil
	}
}

// end lets the clients make no more calls, and waits for the answers to those under way.
func (c *clients) end() {
	close(c.stop)
	c.work.Wait()
}

// turn makes one call at a node, unless that is down, and rests.
func (c *clients) turn(ctx context.Context, m *member, token string, random *rand.Rand) {
	call, code := draw(random, token, c.session(random.IntN(slots)), c.marks)
	again, other := random.IntN(4) == 0, c.w.members[random.IntN(len(c.w.members))]
	rests := time.Duration(random.Int64N(int64(restsFor)))
	if c.make(ctx, m, &call, code) {
		if call.Answer != nil && call.Answer.Code == nil && again {
			call.Again = c.again(ctx, other, call, code)
		}
		c.journal.add(Line{Call: &call})
	}
	_ = pause(ctx, rests) // its end ends the client
}

// make makes a call and says whether there was anybody to make it to.
func (c *clients) make(ctx context.Context, m *member, call *Call, code string) bool {
	door := m.client()
	if door == nil {
		return false
	}
	args := call.Arguments
	args.Code = code
	call.Node, call.Began = m.number, c.clock.now()
	ctx, cancel := context.WithTimeoutCause(ctx, seconds(*args.TimeoutS)+c.slack+longestStop, errGaveUp)
	defer cancel()
	res, err := door.Execute(ctx, args)
	call.Ended = c.clock.now()
	call.Answer, call.Problem = c.answer(ctx, res, err)
	c.count(call)
	return true
}

// errGaveUp is the cause of a context whose client has waited for too long.
var errGaveUp = errors.New("no answer for longer than any promise")

// answer turns what a door gave into what is written down.
func (c *clients) answer(ctx context.Context, res surfaces.Result, err error) (*Answer, *Problem) {
	var unreachable *client.Unreachable
	switch {
	case err == nil:
		a := &Answer{
			CallID: res.CallID, Status: res.Status, Code: res.Code, Error: res.Error, Result: res.Result,
			Attempts: res.Attempts, StateLost: res.StateLost, Node: c.w.numberOf(res.Node),
		}
		for _, n := range res.Notice {
			a.Notice = append(a.Notice, n.Kind)
		}
		return a, nil
	case errors.Is(context.Cause(ctx), errGaveUp):
		return nil, &Problem{GaveUp, errGaveUp.Error()}
	case ctx.Err() != nil:
		return nil, &Problem{Interrupted, err.Error()}
	case errors.As(err, &unreachable):
		return nil, &Problem{Unreachable, err.Error()}
	}
	return nil, &Problem{Broken, err.Error()}
}

// again asks another node for the outcome of a call that was answered.
func (c *clients) again(ctx context.Context, m *member, call Call, code string) *Again {
	door := m.client()
	if door == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, asksWithin, errGaveUp)
	defer cancel()
	a := &Again{By: "id", Node: m.number}
	var res surfaces.Result
	var err error
	if call.Arguments.IdempotencyKey != nil {
		a.By = "key"
		args := call.Arguments
		args.Code = code
		res, err = door.Execute(ctx, args)
	} else {
		res, err = door.Execution(ctx, call.Answer.CallID)
		var refused *client.Refused
		if errors.As(err, &refused) { // nobody knows the call any more, or just now
			res, err = refused.Result, nil
		}
	}
	a.Answer, a.Problem = c.answer(ctx, res, err)
	return a
}

func (c *clients) count(call *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Calls++
	a := call.Answer
	if a == nil {
		return
	}
	if a.StateLost.Loss != nil {
		c.counts.Told++
	}
	if a.Code == nil {
		c.counts.Answered++
		if s := call.Arguments.SessionName; s != nil {
			c.owners[*s] = a.Node
		}
	}
}

// owner gives the number of the node that owns the session of a slot; 0 when nobody
// knows.
func (c *clients) owner(slot int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owners[c.session(slot)]
}

// sofar gives the counts.
func (c *clients) sofar() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// tidy closes the sessions of eras that are over, for as long as ctx lasts. What cannot
// be closed now is closed at another time.
func (c *clients) tidy(ctx context.Context) {
	closed := make([]int64, slots) // by slot: up to which era
	for n := 0; pause(ctx, era/4) == nil; n++ {
		door := c.w.members[n%len(c.w.members)].client()
		for slot := range slots {
			// Calls of two eras ago have been answered for long.
			for e := closed[slot]; door != nil && e < c.clock.now()/int64(era)-2; e++ {
				if _, err := door.CloseSession(ctx, client.Selector{SessionName: to(fmt.Sprintf("s%d-%d", slot, e))}); err != nil {
					break
				}
				closed[slot] = e + 1
			}
		}
	}
}
