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
	// slots is the number of sessions in use at a time. era is how long each is used before
	// a new one replaces it, which bounds the history of one session.
	slots = 2
	era   = 30 * time.Second
	// each is the number of clients per node.
	each = 2
	// restsFor bounds the pause between two calls of a client.
	restsFor = 100 * time.Millisecond
)

// clients call the mesh continuously and record what they see.
type clients struct {
	w       *world
	clock   clock
	journal *journal
	slack   time.Duration
	seed    uint64
	marks   string // the file to which code appends its marks

	stop chan struct{} // closed when no more calls are to be made
	work sync.WaitGroup

	mu     sync.Mutex
	owners map[string]int // by session: the node that answered last
	counts Counts
}

// Counts is the progress of a run.
type Counts struct {
	Calls, Answered, Told int
}

// session returns the name of the session that is in a slot now.
func (c *clients) session(slot int) string {
	return fmt.Sprintf("s%d-%d", slot, c.clock.now()/int64(era))
}

// run starts the clients of all nodes.
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

// end stops new calls and waits for those in flight.
func (c *clients) end() {
	close(c.stop)
	c.work.Wait()
}

// turn makes one call to a node, unless it is down, and pauses.
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
	_ = pause(ctx, rests) // its error only says that the client ends
}

// make makes a call; false if the node is down.
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

// errGaveUp is the cause when a client has waited beyond every promise.
var errGaveUp = errors.New("no answer for longer than any promise")

// answer converts a response to what is recorded.
func (c *clients) answer(ctx context.Context, res surfaces.Result, err error) (*Answer, *Problem) {
	var unreachable *client.UnreachableError
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

// again asks another node for the outcome of an answered call.
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
		var refused *client.RefusedError
		if errors.As(err, &refused) { // the call is no longer kept, or not now
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

// owner returns the number of the node that owns the session of a slot; 0 if unknown.
func (c *clients) owner(slot int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owners[c.session(slot)]
}

// sofar returns the counts.
func (c *clients) sofar() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// tidy closes the sessions of past eras until ctx ends. What cannot be closed is retried
// later.
func (c *clients) tidy(ctx context.Context) {
	closed := make([]int64, slots) // by slot: the last closed era
	for n := 0; pause(ctx, era/4) == nil; n++ {
		door := c.w.members[n%len(c.w.members)].client()
		for slot := range slots {
			// Calls of the era before last have certainly been answered.
			for e := closed[slot]; door != nil && e < c.clock.now()/int64(era)-2; e++ {
				if _, err := door.CloseSession(ctx, client.Selector{SessionName: to(fmt.Sprintf("s%d-%d", slot, e))}); err != nil {
					break
				}
				closed[slot] = e + 1
			}
		}
	}
}
