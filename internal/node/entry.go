package node

import (
	"context"
	"errors"
	"sync"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// disconnectsMax is how many notices of lost clients may wait for turns of Spots before no
// further Actor is bound. So they are bounded by it and by the bindings that stood then.
const disconnectsMax = 65_536

// openEntry makes the node's Entry Spot and runs its OnInitialize. Before that has
// returned nobody learns of the Spot (CR-16).
func (n *Node) openEntry(ctx context.Context) error {
	typ := n.app.Entry.Type
	if typ == nil || n.cfg.Role != store.RoleServer {
		return nil
	}
	ref := ActorRef{ID: n.entryID, ObjectGen: 1, Mesh: n.cfg.Mesh, RID: n.cfg.RID, Lifecycle: n.id.Lifecycle, OwnerGen: 1}
	c, err := n.openSpot(ctx, typ, ref)
	if err != nil {
		return err.of("start", "the entry spot")
	}
	n.entry = c
	return nil
}

// openSpot makes a Spot and runs its OnInitialize.
func (n *Node) openSpot(ctx context.Context, typ *ObjectType, ref ActorRef) (*objectCell, *Error) {
	held := &hold{}
	c := n.newCell(typ, ref, 0, held)
	err := guard(n, "spot", ref.ID, func() (e error) {
		c.instance, e = typ.Factory(&c.context)
		return e
	})
	if err == nil {
		c.box.Seal(&release{cell: c, from: held, next: c})
		if typ.OnInitialize != nil {
			err = c.await(ctx, c.lifecycle, "OnInitialize", func(call *Call) error { return typ.OnInitialize(call, c.instance) })
		}
	}
	if err != nil {
		c.refuseAll(err)
		return nil, err
	}
	return c, nil
}

// closeSpot runs a Spot's OnClosing, when all accepted work is over (CL-02). One that has
// no row to be removed refuses what comes later.
func (n *Node) closeSpot(ctx context.Context, c *objectCell, reason ClosingReason) error {
	if !c.stored {
		defer n.drop(c, errStopping)
	}
	typ := c.typ
	if typ.OnClosing == nil {
		return nil
	}
	// Behind all that was accepted, and its timers are over.
	err := c.await(ctx, c.whenCalm, "OnClosing", func(call *Call) error {
		c.fenceTimers()
		return typ.OnClosing(call, c.instance, reason)
	})
	if err != nil {
		return err.of("close", c.ref.ID)
	}
	return nil
}

// whenCalm is ended for what must find no turn of the object in a Yield, or behind one.
func (c *objectCell) whenCalm(f func(*turn)) {
	c.ended(func(t *turn) {
		if t.refused == nil && c.yields.Load() > 0 {
			c.calm.Store(&f)
			return
		}
		f(t)
	})
}

// closeSpots closes the node's Spots, the Entry Spot last.
func (n *Node) closeSpots(ctx context.Context) error {
	var errs []error
	n.actors.Range(func(_ string, c *objectCell) bool {
		if c.typ.Kind != store.Actor {
			errs = append(errs, n.closeSpot(ctx, c, HostShutdown))
		}
		return true
	})
	if n.entry != nil {
		errs = append(errs, n.closeSpot(ctx, n.entry, HostShutdown))
	}
	return errors.Join(errs...)
}

// await runs a callback in the object's turn, which queue finds for it, under ctx's
// deadline, and waits for its end. Past the deadline nobody waits for it any more.
func (a *objectCell) await(ctx context.Context, queue func(func(*turn)), what string, f func(*Call) error) *Error {
	ended := make(chan *Error, 1)
	queue(func(t *turn) {
		if t.refused != nil {
			ended <- t.refused
			return
		}
		err := errTurnEnded // if it ends its goroutine
		defer func() { ended <- err }()
		err = a.callback(t.claim, what, deadlineOf(ctx), f)
	})
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return fromContext(ctx, what, a.ref.ID)
	}
}

// lifecycle runs f in the object's turn ahead of its messages. It is outside the budget:
// there is one such step for each change of the object, and one for each binding that has
// ended.
func (a *objectCell) lifecycle(f func(*turn)) {
	a.box.PushLifecycle(controlMessage(f))
}

// disconnected tells the Actor's Spot that the client that was bound to it is gone: once
// for each binding, in the Spot's own turn (MB-03, MB-04).
func (n *Node) disconnected(spot *objectCell, actor ActorRef) {
	if spot == nil || spot.typ.OnDisconnectActor == nil {
		return
	}
	n.disconnects.Add(1)
	n.tellOfDisconnect(spot, actor)
}

func (n *Node) tellOfDisconnect(spot *objectCell, actor ActorRef) {
	spot.lifecycle(func(t *turn) {
		if t.refused == nil && !n.mayAct(clock.Now()) {
			n.late.add(func() { n.tellOfDisconnect(spot, actor) })
			return
		}
		defer n.disconnects.Add(-1)
		if t.refused == nil {
			_ = spot.callback(t.claim, "OnDisconnectActor", clock.Never, func(c *Call) error {
				return spot.typ.OnDisconnectActor(c, spot.instance, actor)
			})
		}
	})
}

// late is what waits until the node may act again, which the sweeper sees. It is bounded
// by who adds to it.
type late struct {
	mu      sync.Mutex
	waiting []func()
}

func (l *late) add(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, f)
}

// run runs all that waits, in order.
func (l *late) run() {
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	for _, f := range waiting {
		f()
	}
}

var errDisconnectsFull = &Error{
	Kind: errkind.CapacityExceeded,
	Text: "the spots of the node have too many lost clients to hear of; an OnDisconnectActor is too slow for how many leave",
}
