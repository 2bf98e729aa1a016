package proctest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/internal/witness"
)

// load is what the cluster has to do: for each Actor senders, a client, and a hand that has it
// hop. All that is sent is noted before, and its end behind.
type load struct {
	c       *Cluster
	w       *witness.Writer
	senders atomic.Uint64 // numbers given
	Hops    atomic.Int64  // Joins that were registered
	done    atomic.Int64  // messages that ended well
	failed  atomic.Int64
	bound   atomic.Int64 // Sessions that are
	lost    atomic.Int64 // Sessions that ended, or of which a message failed

	work sync.WaitGroup
	stop context.CancelFunc

	mu     sync.Mutex
	made   []object // by create
	unmade error    // why the last creation failed
}

// pace is how often each sender sends where Options do not say so, so that the nodes have time
// for what else they do.
const pace = 2 * time.Millisecond

// rest is how long an Actor stays where it is now and then.
const rest = 100 * time.Millisecond

// Load starts the load. nodes are those among which the Actors hop.
func (c *Cluster) Load(ctx context.Context, senders int, nodes ...string) {
	l := c.load
	ctx, l.stop = context.WithCancel(ctx)
	actors := 0
	for _, o := range c.objects {
		for range senders {
			l.work.Go(func() { l.send(ctx, &o) })
		}
		if !o.actor() {
			continue
		}
		l.work.Go(func() { l.play(ctx, o.id) })
		if i := actors; len(nodes) > 0 && !o.stays {
			l.work.Go(func() { l.hop(ctx, o.id, i, nodes) })
		}
		actors++
	}
}

// Create has more Actors made all the time, besides.
func (c *Cluster) Create(ctx context.Context) {
	l := c.load
	before := l.stop
	ctx, stop := context.WithCancel(ctx)
	l.stop = func() { before(); stop() }
	l.work.Go(func() { l.create(ctx) })
}

// Quiet ends the load, and waits for the end of all that was sent.
func (c *Cluster) Quiet() {
	l := c.load
	l.stop()
	l.work.Wait()
	c.objects, l.made = append(c.objects, l.made...), nil
}

// Progress waits until so many more messages have ended well and Joins have begun.
func (c *Cluster) Progress(ctx context.Context, messages, hops int64) error {
	messages += c.load.done.Load()
	hops += c.load.Hops.Load()
	return poll(ctx, "the load goes on", func() (bool, error) {
		m, h := c.load.done.Load(), c.load.Hops.Load()
		return m >= messages && h >= hops, fmt.Errorf("%d messages of %d, %d hops of %d", m, messages, h, hops)
	})
}

func (l *load) asked(id string, op witness.Op, flags uint8) {
	l.w.Note(witness.Record{Kind: witness.Asked, Object: id, Op: op, Flags: flags})
}

func (l *load) ended(id string, op witness.Op, err error) {
	r := witness.Record{Kind: witness.Ended, Object: id, Op: op}
	if err != nil {
		r.Flags = witness.Failed
		l.failed.Add(1)
	} else {
		l.done.Add(1)
	}
	l.w.Note(r)
}

// wait lets the time go by, unless ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// send is one sender: one-way messages and requests in turn. What it has sent when ctx ends
// it waits for.
func (l *load) send(ctx context.Context, o *object) {
	sender, whole := l.senders.Add(1), context.WithoutCancel(ctx)
	for seq := uint64(1); ctx.Err() == nil; seq++ {
		op := witness.Message(sender, seq)
		var err error
		if seq%2 == 0 {
			l.asked(o.id, op, witness.OneWay)
			err = zlnode.Send(whole, l.c.to(o).As(zlnode.Raw), "tell", op[:])
			l.ended(o.id, op, err)
		} else {
			err = l.ask(whole, o, op)
		}
		if err != nil {
			wait(ctx, 20*time.Millisecond)
		} else {
			wait(ctx, l.c.opts.Pace)
		}
	}
}

// create makes an Actor and talks to it, again and again.
func (l *load) create(ctx context.Context) {
	sender, whole := l.senders.Add(1), context.WithoutCancel(ctx)
	for seq := uint64(1); ctx.Err() == nil; seq++ {
		o := object{id: fmt.Sprintf("made-%d", seq), typ: walkerType}
		_, err := l.c.sender.CreateActor(whole, zlnode.CreateActor{ID: o.id, Type: o.typ})
		o.maybe = err != nil
		l.mu.Lock()
		if l.made = append(l.made, o); err != nil {
			l.unmade = err
		}
		l.mu.Unlock()
		if err == nil {
			_ = l.ask(whole, &o, witness.Message(sender, seq)) // it is noted
		}
		wait(ctx, 2*rest)
	}
}

func (l *load) ask(ctx context.Context, o *object, op witness.Op) error {
	l.asked(o.id, op, 0)
	_, err := zlnode.Request[[]byte](ctx, l.c.to(o).As(zlnode.Raw), "ask", op[:])
	l.ended(o.id, op, err)
	return err
}

// hop has the Actor join a Spot of another node again and again. Each second time it is where it
// went before it is asked to go on: where moves take long, a client would never find it at rest,
// and so could not be bound.
func (l *load) hop(ctx context.Context, id string, i int, nodes []string) {
	for ; ctx.Err() == nil; i++ {
		order := walkOrder{Timeout: l.c.opts.Timeout}
		for k := range nodes {
			order.Nodes = append(order.Nodes, nodes[(i+k)%len(nodes)])
		}
		if _, err := zlnode.Request[string](ctx, l.c.sender.Actor(id), "join", order); err == nil {
			l.Hops.Add(1)
		}
		if i%2 == 0 {
			_, _ = zlnode.Request[string](ctx, l.c.sender.Actor(id), "where", struct{}{}) // behind the move, whatever became of it
			wait(ctx, rest)
		}
		wait(ctx, 20*time.Millisecond)
	}
}

// play is a client that is bound to the Actor: it connects, binds and sends until it is told
// of an error, then does so again.
func (l *load) play(ctx context.Context, id string) {
	for ctx.Err() == nil {
		gate := l.c.gate.Load()
		p, err := client.Dial(ctx, client.Options{Addr: *gate, RequestTimeout: l.c.opts.Timeout})
		if err == nil {
			l.session(ctx, p, id)
			_ = p.Close() // what it had to say was said
		}
		wait(ctx, 50*time.Millisecond)
	}
}

// inFlight bounds the requests that a client waits for.
const inFlight = 8

func (l *load) session(ctx context.Context, p *client.Client, id string) {
	ref, found, err := l.c.sender.FindActor(ctx, id)
	if err != nil || !found || p.RequestJSON(ctx, "bind", ref, nil) != nil {
		return
	}
	l.bound.Add(1)
	defer l.bound.Add(-1)
	sender := witness.BoundSender | l.senders.Add(1)
	places := make(chan struct{}, inFlight)
	var broken atomic.Bool
	for seq := uint64(1); ctx.Err() == nil && !broken.Load(); seq++ {
		op := witness.Message(sender, seq)
		if seq%2 == 0 {
			l.asked(id, op, witness.OneWay)
			err := p.Send(ctx, "tell", op[:])
			if l.ended(id, op, err); err != nil {
				break
			}
		} else {
			places <- struct{}{}
			l.asked(id, op, 0)
			done := func(_ *client.Message, err error) {
				if l.ended(id, op, err); err != nil {
					broken.Store(true)
				}
				<-places
			}
			if err := p.RequestFunc(client.Call{Name: "ask", Payload: op[:]}, done); err != nil {
				done(nil, err)
			}
		}
		wait(ctx, l.c.opts.Pace)
	}
	for range inFlight { // all of them have ended
		places <- struct{}{}
	}
	if ctx.Err() == nil {
		l.lost.Add(1)
	}
}
