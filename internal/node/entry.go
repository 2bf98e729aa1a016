package node

import (
	"context"
	"errors"
	"sync"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// openEntry makes the node's Entry Spot and runs its OnInitialize. Before that has
// returned nobody learns of the Spot (CR-16).
func (n *Node) openEntry(ctx context.Context) error {
	typ := n.app.Entry.Type
	if typ == nil || !n.hosts() {
		return nil
	}
	ref := ActorRef{ID: n.entryID, ObjectGen: 1, Mesh: n.home.cfg.Name, RID: n.cfg.RID, Lifecycle: n.id.Lifecycle, OwnerGen: 1}
	c, err := n.openSpot(ctx, typ, ref)
	if err != nil {
		return err.of("start", "the entry spot")
	}
	n.entry = c
	return nil
}

// openSpot makes a Spot that has no row and runs its first callbacks.
func (n *Node) openSpot(ctx context.Context, typ *ObjectType, ref ActorRef) (*objectCell, *Error) {
	held := &hold{}
	c := n.newCell(typ, ref, 0, held)
	err := c.make()
	var a Admission
	if err == nil {
		a, err = c.open(ctx, c.step, deadlineOf(ctx), nil)
	}
	if a.Reject {
		err = fail(errkind.Rejected, "", "", "its OnCreate refused it with %q", a.Reply)
	}
	if err != nil {
		c.refuseAll(err)
		return nil, err
	}
	c.box.Seal(&release{cell: c, from: held, next: c})
	return c, nil
}

// open runs a new Spot's first callbacks in one turn, which queue finds, while all else is
// held, and waits for it until ctx ends. After the deadline none of them begins.
func (c *objectCell) open(ctx context.Context, queue func(func(*turn)), deadline clock.Mono, request []byte) (Admission, *Error) {
	var decided Admission // the turn's, until it has ended
	typ := c.typ
	callbacks := []struct {
		what string
		run  func(*Call) error
	}{
		{"Configure", bound(typ.Configure, c)},
		{"OnCreate", nil},
		{"OnInitialize", bound(typ.OnInitialize, c)},
	}
	if typ.OnCreate != nil {
		callbacks[1].run = func(call *Call) (e error) {
			decided, e = typ.OnCreate(call, c.instance, request)
			return e
		}
	}
	err := c.await(ctx, queue, "open", func(t *turn) *Error {
		for _, b := range callbacks {
			switch {
			case b.run == nil || decided.Reject:
				continue
			case clock.Now().Reached(deadline):
				return errOpenLate
			}
			if err := c.callback(t.claim, b.what, deadline, b.run); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Admission{}, err
	}
	return decided, nil
}

// bound returns the callback with its instance, or nil if there is none.
func bound(f func(*Call, any) error, c *objectCell) func(*Call) error {
	if f == nil {
		return nil
	}
	return func(call *Call) error { return f(call, c.instance) }
}

// closeSpot runs OnClosing of a Spot whose node stops, when all accepted work is over
// (CL-02). One that has no row to be removed refuses what comes later.
func (n *Node) closeSpot(ctx context.Context, c *objectCell) error {
	if !c.stored {
		defer n.drop(c, errStopping)
	}
	if c.typ.OnClosing == nil {
		return nil
	}
	// Behind all that was accepted.
	err := c.await(ctx, c.whenCalm, "OnClosing", func(t *turn) *Error { return c.lastCall(t, HostShutdown, deadlineOf(ctx)) })
	if err == nil || err == errGone { // somebody else has closed it meanwhile
		return nil
	}
	if ctx.Err() == nil { // else its time was over, whatever it said then
		n.closingFailed.Store(true)
	}
	return err.of("close", c.ref.ID)
}

// lastCall runs OnClosing, once. No timer ticks and no topic is heard any more
// then.
func (c *objectCell) lastCall(t *turn, reason ClosingReason, deadline clock.Mono) *Error {
	if c.closing {
		return nil
	}
	c.closing = true
	c.fenceTimers()
	c.unsubscribe()
	if c.typ.OnClosing == nil {
		return nil
	}
	return c.callback(t.claim, "OnClosing", deadline, func(call *Call) error { return c.typ.OnClosing(call, c.instance, reason) })
}

// closes reports whether t is the OnClosing of a Spot that has the Actor, which is this
// node's, as a member.
func (t *turnContext) closes(actor *objectCell) bool {
	return t != nil && t.cell != nil && t.cell.closing &&
		actor.typ.Kind == store.Actor && actor.tenure.Load() == owned && t.cell.hasMember(actor)
}

// whenCalm is ended for what must find no turn of the object in a Yield, or behind one.
func (c *objectCell) whenCalm(f func(*turn)) {
	c.ended(func(t *turn) { c.calmly(t, f) })
}

// calmly runs f now, or in a step as soon as no turn of the object is in a Yield.
func (c *objectCell) calmly(t *turn, f func(*turn)) {
	if t.refused != nil || c.yields.Load() == 0 {
		f(t)
		return
	}
	if before := c.calm.Load(); before != nil {
		next := f
		f = func(t *turn) {
			(*before)(t)
			c.calmly(t, next)
		}
	}
	c.calm.Store(&f)
}

// closeSpots closes the node's Spots at once, then the Entry Spot; each time for half of
// what is left at most, so that an OnClosing that hangs keeps no other Spot from its own,
// nor the rows from being removed.
func (n *Node) closeSpots(ctx context.Context) error {
	var mu sync.Mutex
	var errs []error
	half, cancel := halfOf(ctx)
	defer cancel()
	var closings sync.WaitGroup
	places := make(chan struct{}, closingsMax)
	n.actors.Range(func(_ string, c *objectCell) bool {
		if c.typ.Kind != store.Actor && !c.dawn && c.tenure.Load() == owned {
			places <- struct{}{} // each leaves it when half ends
			closings.Go(func() {
				defer func() { <-places }()
				if err := n.closeSpot(half, c); err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
			})
		}
		return true
	})
	closings.Wait()
	if n.entry != nil {
		half, cancel := halfOf(ctx)
		defer cancel()
		errs = append(errs, n.closeSpot(half, n.entry))
	}
	return errors.Join(errs...)
}

// await runs f, which runs callbacks, in the object's turn, which queue finds for it, and
// waits for its end. When ctx has ended nobody waits for it any more.
func (a *objectCell) await(ctx context.Context, queue func(func(*turn)), what string, f func(*turn) *Error) *Error {
	ended := make(chan *Error, 1)
	queue(func(t *turn) {
		if t.refused != nil {
			ended <- t.refused
			return
		}
		err := errTurnEnded // if it ends its goroutine
		defer func() { ended <- err }()
		err = f(t)
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
