package node

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/store"
)

// This file brings Instance Spots of this node into being. A *dawn* is the cell that stands
// in the object table for a Spot that is not yet, so that what comes for the id waits in
// one queue, in order. The Spot's own cell, made once its row is reserved, has the same
// queue; so does the dawn of the next incarnation, if there has to be one for what is left
// in the queue. All of them have the queue's hold as their consumer until the Spot is open.

// offer admits a message to an Instance Spot of that type; "" is any.
func (c *objectCell) offer(typ string, s sender, o *Outgoing, deadline clock.Mono, a *arrival) *Error {
	switch {
	case c.typ.Kind != store.InstanceSpot:
		return errKind("message", c.ref.ID, c.typ.Kind)
	case typ != "" && typ != c.typ.Name && c.typ.Name != "": // that of one that comes is not known yet
		return fail(errkind.TypeMismatch, "message", c.ref.ID, "it is of type %q, not %q", c.typ.Name, typ)
	}
	if !c.entrance.enter() {
		return errNotHere
	}
	defer c.entrance.leave()
	if typ != "" || s.kind != msgOffer {
		return c.push(s, o, deadline, a)
	}
	// It has no intent for which it could be the first of a next incarnation: the queue
	// takes it now.
	taken := sender{kind: msgSend, link: s.link, paid: s.paid}
	if err := c.push(taken, o, clock.Never, a); err != nil {
		return err
	}
	s.reply(c.node, 0, nil)
	return nil
}

// offerHere admits a message to the Instance Spot at this node, and has the Spot come into
// being if there is none. cell is what the object table has for the id. It runs on event
// loops. id and typ are views.
func (n *Node) offerHere(cell *objectCell, id, typ string, s sender, o *Outgoing, deadline clock.Mono, a *arrival) *Error {
	switch {
	case n.stopping.Load():
		return errStoppingHere
	case !n.mayAct(n.lately()):
		return errNotOwnerHere
	}
	for cell != nil {
		if err := cell.offer(typ, s, o, deadline, a); err != errNotHere {
			return err
		}
		runtime.Gosched() // the queue is just being given up; what is there after it?
		cell, _ = n.actors.Load(id)
	}
	t := n.app.Spots[typ]
	switch {
	case typ == "":
		return errNotHere
	case t == nil || t.Kind != store.InstanceSpot || !n.hosts():
		return errNoTypeHere
	case n.cordon.Load() != nil:
		return errCordonedHere
	}
	if n.relocates() {
		return errRelocatingHere
	}
	cell, held := n.dawn(strings.Clone(id), t)
	if held == nil { // somebody was faster
		return n.offerHere(cell, id, typ, s, o, deadline, a)
	}
	err := cell.offer(typ, s, o, deadline, a)
	if !n.tasks.Go(func() { n.activate(cell, held) }) {
		n.drop(cell, errStopping)
	}
	return err
}

// entrance tells who gives up a queue of Instance messages whether somebody is about to
// push one: so none comes into a queue that is not in the object table any more, where it
// would fall behind later ones of its sender. A nil one is always open.
type entrance struct{ inside atomic.Int64 }

const entranceShut = -1 << 62

func (e *entrance) enter() bool {
	if e == nil {
		return true
	}
	if e.inside.Add(1) > 0 {
		return true
	}
	e.inside.Add(-1)
	return false
}

func (e *entrance) leave() {
	if e != nil {
		e.inside.Add(-1)
	}
}

// shut reports false if somebody is inside. After open, or who enters late, it is shut no
// longer.
func (e *entrance) shut() bool { return e == nil || e.inside.CompareAndSwap(0, entranceShut) }
func (e *entrance) open()      { e.inside.Add(-entranceShut) }

// dawn puts a dawn in the object table and returns it with its hold, or what is there.
func (n *Node) dawn(id string, t *ObjectType) (*objectCell, *hold) {
	held := &hold{}
	c := n.newDawn(t, id, mailbox.New[message](n.pool, held, n.queueLimits()), held, new(entrance))
	held.cell = c
	there := c
	n.actors.Update(id, func(now *objectCell, present bool) (*objectCell, bool) {
		if present {
			there = now
		}
		return there, true
	})
	if there != c {
		return there, nil
	}
	n.spots.Add(1)
	return c, held
}

// newDawn makes a dawn with that queue, whose hold is its consumer. The queue is in no
// group, so nothing that an incarnation does holds it up.
func (n *Node) newDawn(t *ObjectType, id string, box *mailbox.Mailbox[message], held *hold, e *entrance) *objectCell {
	return n.withQueue(&objectCell{typ: t, ref: ActorRef{ID: id}, dawn: true, entrance: e}, box, held)
}

// incarnation makes the cell of a row that is reserved. It has the dawn's queue, and a gate
// of its own that the queue joins when the Spot opens.
func (n *Node) incarnation(dawn *objectCell, row *store.Authority, held *hold) *objectCell {
	c := n.withQueue(&objectCell{typ: dawn.typ, ref: refOf(row), stored: true, entrance: dawn.entrance}, dawn.box, held)
	c.version.Store(uint64(row.Version))
	c.group.Store(n.gateOf(c.typ))
	return c
}

func (n *Node) withQueue(c *objectCell, box *mailbox.Mailbox[message], held *hold) *objectCell {
	c.node, c.box, c.current = n, box, held
	c.ref.Mesh, c.ref.RID = n.home.cfg.Name, n.cfg.RID
	c.context.cell = c
	return c
}

// inClaim runs f in the turn of a queue that is held, behind what was queued before, and
// returns when it has ended. It returns false without having run it if the object is over,
// or the node.
func (c *objectCell) inClaim(f func(*turn)) bool {
	ran := make(chan bool, 1)
	c.step(func(t *turn) {
		if t.refused == nil {
			f(t)
		}
		ran <- t.refused == nil
	})
	select {
	case ok := <-ran:
		return ok
	case <-c.node.life.Done():
		return false
	}
}

// first is the message for which a Spot comes into being.
type first struct {
	at       int // in the hold
	record   []byte
	deadline clock.Mono
}

// activate brings the Spot into being for the first message that waits for it, and if that
// fails for the next one, until none is left.
func (n *Node) activate(dawn *objectCell, held *hold) {
	for dawn != nil {
		var f *first
		over := false
		ok := dawn.inClaim(func(t *turn) {
			if f = held.first(dawn); f == nil { // what there was does not wait any more
				over = n.abandonEmpty(t, dawn, held)
			}
		})
		switch {
		case !ok, over:
			return
		case f == nil:
			continue // something has come
		}
		run := &activation{node: n, dawn: dawn, held: held, first: f, leave: func() {}}
		dawn = run.run()
	}
}

// first finds the first message that can be an incarnation's first. Those before it that
// cannot are refused.
func (h *hold) first(c *objectCell) *first {
	now := clock.Now()
	for i := range h.held {
		m := &h.held[i].message
		switch {
		case m.isControl():
		case !m.intends():
			m.bury(c.node, errNotHere)
		case now.Reached(m.deadline):
			m.bury(c.node, errNoReply)
		default:
			f := &first{at: i, deadline: min(m.deadline, now.Add(store.TimeoutMax))}
			if m.deadline == clock.Never {
				f.deadline = now.Add(c.node.cfg.CreateTimeout)
			}
			r := wire.InstanceMessage{
				ID: []byte(c.ref.ID), Type: []byte(c.typ.Name), Op: c.node.operations.Add(1),
				Name: []byte(m.packet.name), Codec: m.codec, Metadata: m.metadata(), Payload: m.body(),
			}
			f.record = r.AppendTo(make([]byte, 0, r.Size()))
			return f
		}
	}
	return nil
}

// activation runs the core of one incarnation.
type activation struct {
	node  *Node
	dawn  *objectCell
	held  *hold
	first *first
	leave func() // gives the place among the activations back

	cell  *objectCell               // the incarnation's; nil before it is reserved
	taken bool                      // the cell's row is
	stead *mailbox.Mailbox[message] // has the turn of its first callbacks; nil: there was none
}

// run returns the dawn of the next incarnation, or nil if there is to be none.
func (a *activation) run() *objectCell {
	defer func() { a.leave() }()
	machine := creation.NewActivation(creation.ActivationCall{
		ID: a.dawn.ref.ID, Deadline: a.first.deadline, Self: a.node.lease,
	}, createTiming)
	for {
		e, ok := machine.Effect()
		var ev creation.ActivationEvent
		switch {
		case !ok:
			at, _ := machine.NextDeadline()
			ev.Is = creation.ActivationTick
			if !pause(a.node.life, at.Sub(clock.Now())) {
				ev.Is = creation.ActivationStopped
			}
		case e.Do == creation.ActivationOpen:
			a.open()
			return nil
		case e.Do == creation.ActivationEnd:
			return a.end(&e)
		default:
			ev = a.do(&e)
		}
		machine.Step(clock.Now(), ev)
	}
}

func (a *activation) newKey() store.OperationKey {
	return store.OperationKey{SourceRID: a.node.cfg.RID, SourceLifecycle: a.node.lifecycle(), Op: newOpID()}
}

func (a *activation) do(e *creation.ActivationEffect) (ev creation.ActivationEvent) {
	n := a.node
	switch e.Do {
	case creation.ActivationEnter:
		ev = a.enter()
	case creation.ActivationReserve:
		ev.Is = creation.ActivationReserved
		ev.Change, ev.Err = n.attempt(func(ctx context.Context) (store.Change, error) {
			return n.store.Reserve(ctx, store.Reserve{
				Kind: store.InstanceSpot, ID: a.dawn.ref.ID, Type: a.dawn.typ.Name, Op: e.Op, First: a.first.record,
				TargetRID: n.cfg.RID, TargetLifecycle: n.lifecycle(), Timeout: max(a.first.deadline.Sub(clock.Now()), time.Millisecond),
			})
		})
	case creation.ActivationStage:
		ev.Is = creation.ActivationStaged
		if err := a.stage(&e.Row); err != nil {
			ev.Failure = failureOf(err)
		}
	case creation.ActivationRemove:
		ev.Is, ev.Op = creation.ActivationRemoved, a.newKey()
		ev.Change, ev.Err = n.tryFinish(&e.Finish)
	case creation.ActivationFinish:
		ev.Is, ev.Op = creation.ActivationFinished, a.newKey()
		a.publish(&e.Finish)
		ev.Change, ev.Err = n.tryFinish(&e.Finish)
	case creation.ActivationAdvance:
		ev.Is = creation.ActivationAdvanced
		ev.Change, ev.Err = n.attempt(func(ctx context.Context) (store.Change, error) {
			return n.store.AdvanceFirst(ctx, e.Fence, e.Op.Op, 0, true)
		})
	case creation.ActivationConfirm:
		ev.Is, ev.Row = creation.ActivationConfirmed, e.Row
		a.cell.written(&e.Row)
		if err := n.confirm(a.cell); err != nil {
			ev.Failure = failureOf(err)
		}
		ev.Row.Version, ev.Row.Epoch = store.Version(a.cell.version.Load()), store.Epoch(a.cell.epoch.Load())
	case creation.ActivationOpen, creation.ActivationEnd: // see run
	}
	return ev
}

func (a *activation) enter() creation.ActivationEvent {
	n, ev := a.node, creation.ActivationEvent{Is: creation.ActivationEntered}
	full := n.creations.enter(n.life, a.first.deadline)
	if full != nil {
		ev.Full, ev.Failure = full.Kind == errkind.CapacityExceeded, failureOf(full)
		return ev
	}
	a.leave = sync.OnceFunc(n.creations.leave)
	switch {
	case n.stopping.Load():
		ev.Failure = failureOf(errStoppingHere)
	case n.relocates(): // the Store would refuse the reservation, too
		ev.Failure = failureOf(errRelocatingHere)
	case n.cordon.Load() != nil:
		ev.Failure = failureOf(errCordonedHere)
	case !n.mayAct(clock.Now()):
		ev.Failure = failureOf(errNotOwnerHere)
	default:
		ev.Op = a.newKey()
	}
	return ev
}

// stage runs the application's part. What hangs past the deadline is given up; the
// instance that it still works on is nobody's.
func (a *activation) stage(row *store.Authority) *Error {
	n := a.node
	ctx, cancel := context.WithDeadline(n.life, a.first.deadline.Time())
	defer cancel()
	c := n.incarnation(a.dawn, row, a.held)
	a.cell = c
	if !n.mayAct(clock.Now()) {
		return errNotOwner
	}
	made, ended := make(chan *Error, 1), make(chan struct{})
	started := n.tasks.Go(func() {
		defer close(ended)
		err := errTurnEnded // if the factory ends its goroutine
		defer func() { made <- err }()
		err = c.make()
	})
	err := errStopping
	if started {
		select {
		case err = <-made:
		case <-ctx.Done():
			err = fromContext(ctx, opCreate, c.ref.ID)
			leave := a.leave
			if n.tasks.Go(func() { <-ended; leave() }) { // it keeps its place as long as it hangs
				a.leave = func() {}
			}
		}
	}
	if err == nil {
		a.stead = mailbox.NewIn[message](c.group.Load(), &beginning{c}, mailbox.Limits{})
		_, err = c.open(ctx, a.inStead, a.first.deadline, nil)
	}
	if err == nil && n.stopping.Load() {
		err = errStopping
	}
	return err
}

// inStead runs f under the incarnation's gate, but not in the turn of the queue: if f hangs
// the next incarnation can have the queue.
func (a *activation) inStead(f func(*turn)) { a.stead.PushControl(controlMessage(f)) }

// beginning is the consumer of what runs before the Spot is open.
type beginning struct{ cell *objectCell }

// Begin implements mailbox.Consumer.
func (b *beginning) Begin(*mailbox.Claim[message]) {}

// Consume implements mailbox.Consumer.
func (b *beginning) Consume(claim *mailbox.Claim[message], m *message) {
	m.control(&turn{node: b.cell.node, cell: b.cell, claim: claim})
	m.done()
}

// publish puts the cell in the object table before its row can be Ready, so that whoever
// reads Ready finds it, and keeps others from the row until the end.
func (a *activation) publish(f *store.Finish) {
	if f.Result != store.Created || a.taken {
		return
	}
	a.taken = a.cell.takeRow(a.node.life)
	if !a.taken || !a.node.replace(a.dawn, a.cell) {
		*f = store.Finish{Fence: f.Fence, Op: f.Op, Result: store.Failed, FailKind: uint8(errkind.Unavailable)}
	}
}

// open lets the first message run, and behind it the rest in the order of arrival. It is
// at the head of the queue, as it was the first to come.
func (a *activation) open() {
	a.cell.used.Store(int64(clock.Now()))
	a.cell.leaveRow()
	a.node.routes.drop(a.cell.ref.ID)
	a.cell.box.Seal(&opening{release{cell: a.cell, from: a.held, next: a.cell}})
}

// opening is a release to a Spot whose gate the queue has yet to join.
type opening struct{ release }

// Begin implements mailbox.Consumer.
func (o *opening) Begin(claim *mailbox.Claim[message]) {
	if !o.cell.gone.Load() {
		claim.Join(o.cell.group.Load())
		o.from.accept(o.cell.node)
	}
	o.release.Begin(claim)
}
