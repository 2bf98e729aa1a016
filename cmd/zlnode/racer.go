package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode"
)

const (
	// callTime is the deadline of most calls: longer than a lease, so that who waits for a
	// creation of a dead node sees it cancelled. shortTimeMin and shortTimeMax bound that of
	// the others.
	callTime     = 5 * time.Second
	shortTimeMin = 10 * time.Millisecond
	shortTimeMax = 300 * time.Millisecond
	// waitMax bounds how long an ordinary creation takes, slowMax a slow one: those who wait
	// for one have its target asked for it again.
	waitMax = 20 * time.Millisecond
	slowMax = time.Second
)

// course is what all clients race for. Safe for concurrent use.
type course struct {
	clients int
	next    atomic.Uint64 // tickets given out
	numbers atomic.Uint64 // of calls
	counts  [raceOps][raceEnds]atomic.Uint64
	// known is what was last seen of each id; the last one is of the probe.
	known []atomic.Pointer[zlnode.ActorRef]
}

func newCourse(clients, ids int) *course {
	return &course{clients: clients, known: make([]atomic.Pointer[zlnode.ActorRef], ids+1)}
}

func (c *course) ids() int { return len(c.known) - 1 }

// probe is the id of which nobody asks anything before the end.
func (c *course) probe() uint32 { return uint32(c.ids()) }

// pick returns the next id to race for: mostly that which the others have at the moment,
// else any, so that what dead nodes owned is met again soon.
func (c *course) pick() uint32 {
	if rand.IntN(4) == 0 {
		return uint32(rand.IntN(c.ids()))
	}
	ticket := c.next.Add(1) - 1
	return uint32(ticket / uint64(c.clients) % uint64(c.ids()))
}

// racer is one client with a node of its own. One goroutine at a time makes its calls.
type racer struct {
	course *course
	node   *zlnode.Node

	mu    sync.Mutex
	calls []raceCall // the last one may be under way
}

// run makes calls until ctx ends. It does not cut the last one short.
func (r *racer) run(ctx context.Context) {
	for ctx.Err() == nil {
		object := r.course.pick()
		switch dice := rand.IntN(20); {
		case dice < 3:
			if ref := r.course.known[object].Load(); ref != nil {
				r.destroy(opDestroy, *ref)
			}
		case dice < 4:
			r.find(object)
		case dice < 8:
			r.create(object, opCreate, anyOrder(), anyLimit())
		default:
			if r.create(object, opGetOrCreate, anyOrder(), anyLimit()) == endUnavailable {
				r.free(object)
			}
		}
	}
}

func anyOrder() (o raceOrder) {
	switch dice := rand.IntN(32); {
	case dice < 15:
		o.Wait = rand.N(waitMax)
	case dice < 18:
		o.Wait = rand.N(slowMax)
	}
	switch rand.IntN(16) {
	case 0:
		o.End = orderReject
	case 1:
		o.End = orderFail
	}
	return o
}

func anyLimit() time.Duration {
	if rand.IntN(8) == 0 {
		return shortTimeMin + rand.N(shortTimeMax-shortTimeMin)
	}
	return callTime
}

// call notes a call before it is made, makes it, and notes its end.
func (r *racer) call(c raceCall, do func(ctx context.Context, c *raceCall)) raceCall {
	c.number = r.course.numbers.Add(1)
	c.began = sharedClock()
	r.mu.Lock()
	at := len(r.calls)
	r.calls = append(r.calls, c)
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), c.limit)
	defer cancel()
	do(ctx, &c)
	r.mu.Lock()
	r.calls[at] = c
	r.mu.Unlock()
	r.course.counts[c.op][c.end].Add(1)
	return c
}

func (r *racer) create(object uint32, op raceOp, order raceOrder, limit time.Duration) raceEnd {
	c := r.call(raceCall{object: object, op: op, order: order.End, limit: limit}, func(ctx context.Context, c *raceCall) {
		order.Call = c.number
		got, err := createRaced(ctx, r.node, raceID(object), op == opGetOrCreate, order)
		c.creation(sharedClock(), got, err)
		if c.end.seen() {
			r.course.known[object].Store(&got.Ref)
		}
	})
	return c.end
}

// find returns the ref that was found, also that of an object whose owner is dead.
func (r *racer) find(object uint32) (raceCall, zlnode.ActorRef) {
	var ref zlnode.ActorRef
	return r.call(raceCall{object: object, op: opFind, limit: callTime}, func(ctx context.Context, c *raceCall) {
		got, found, err := r.node.FindActor(ctx, raceID(object))
		c.found(sharedClock(), got, found, err)
		ref = got
	}), ref
}

func (r *racer) destroy(op raceOp, ref zlnode.ActorRef) raceEnd {
	c := raceCall{object: raceObject(ref.ID), op: op, limit: callTime, ref: raceRefOf(ref)}
	return r.call(c, func(ctx context.Context, c *raceCall) {
		done, err := r.node.DestroyActor(ctx, ref)
		c.destroyed(sharedClock(), done, err)
	}).end
}

// free gives an id free whose owner is dead, as an application may decide to.
func (r *racer) free(object uint32) raceEnd {
	c, ref := r.find(object)
	if c.end != endUnavailable || c.ref == (raceRef{}) {
		return c.end
	}
	return r.destroy(opFree, ref)
}

// told returns a copy of all calls.
func (r *racer) told() []raceCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]raceCall(nil), r.calls...)
}
