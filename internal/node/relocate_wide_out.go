package node

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/failpoint"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/relay"
)

// This file seals an aggregate and takes what goes along.

// sealSessions has the owners of all members' Sessions hold back their packets, many at once. The
// time that they do so for counts from the first one.
func (o *moveOut) sealSessions(ctx context.Context) relay.SourceEvent {
	e := relay.SourceEvent{Is: relay.SourceSessionSealed, SealedAt: clock.Never}
	failpoint.Hit("R03.before")
	bound := false
	err := o.cell.inStep(func(*turn) *Error { // the members' gate is the Spot's
		for _, m := range o.wide.members {
			m.binding, m.cell.sealing = m.cell.binding, true
			bound = bound || m.binding.stands()
		}
		return nil
	})
	if err == nil && bound {
		err = o.fitsSeal()
	}
	if err != nil {
		for _, m := range o.wide.members {
			m.binding = binding{}
		}
		e.Failure = failureOfMove(err)
		return e
	}
	at := make([]clock.Mono, len(o.wide.members))
	var failed atomic.Pointer[Error]
	var seals errgroup.Group
	seals.SetLimit(sessionSealsMax)
	for i, m := range o.wide.members {
		if !m.binding.stands() {
			m.binding = binding{}
			continue
		}
		seals.Go(func() error {
			bound, err := false, failed.Load()
			if err == nil {
				at[i], bound, err = o.node.sealBinding(ctx, m.cell, m.binding, m.id.relocation)
			}
			if !bound { // or not asked, so that there is nothing to undo
				m.binding = binding{}
			}
			if err != nil {
				failed.CompareAndSwap(nil, err)
			}
			return nil
		})
	}
	_ = seals.Wait()
	if err := failed.Load(); err != nil {
		e.Failure = failureOfMove(err)
	}
	for i, m := range o.wide.members {
		if m.binding.key.gen != 0 {
			e.Bound = true
			e.SealedAt = min(e.SealedAt, at[i])
		}
	}
	return e
}

// captureAll seals the gates of Spot and members and takes what goes along.
func (o *moveOut) captureAll(ctx context.Context) *Error {
	failpoint.Hit("R03.after")
	if err := o.sealAll(ctx); err != nil {
		return err
	}
	failpoint.Hit("R04.before")
	err := o.eachInStep(func(m *moveOut, _ *turn) (err *Error) {
		began := clock.Now()
		m.taken, err = m.mover.Load().capture(&m.binding)
		m.cell.typ.tookCapture(began, m.taken.size())
		return err
	})
	failpoint.Hit("R04.after")
	return err
}

// sealAll makes movers the consumers of all mailboxes in one step under their one gate, while no
// turn of any is in a Yield: so nothing runs between the seal of one and that of another.
func (o *moveOut) sealAll(ctx context.Context) *Error {
	for wait := createWaitMin; ; wait = min(2*wait, createWaitMax) {
		sealed, err := o.trySealAll(ctx)
		switch {
		case sealed || err != nil:
			return err
		case !pause(ctx, wait):
			return o.lateSeal()
		}
	}
}

func (o *moveOut) lateSeal() *Error {
	if o.stopped.Err() != nil {
		return errStopping
	}
	return fail(errkind.DeadlineExceeded, opRelocate, o.cell.ref.ID, "at no time before the deadline was no turn of it or its members in a Yield")
}

// trySealAll is false while a member is about to be destroyed, which is refused soon.
func (o *moveOut) trySealAll(ctx context.Context) (sealed bool, err *Error) {
	ran := make(chan struct{})
	var settled atomic.Bool // by the turn, or by who has waited for it
	var try func(*turn)
	try = func(t *turn) {
		if settled.Load() {
			return
		}
		all, free := o.all(), t.refused == nil
		for _, m := range all {
			if m.cell.yields.Load() != 0 && t.refused == nil {
				m.cell.calmly(t, try)
				return
			}
			free = free && m.waits()
		}
		if settled.Swap(true) {
			return
		}
		defer close(ran)
		if err = t.refused; !free {
			return
		}
		for _, m := range all {
			m.sealed()
			o.node.moves.out.Store(m.id.key(), m)
		}
		sealed = true
	}
	o.cell.step(try)
	select {
	case <-ran:
	case <-ctx.Done():
		if !settled.Swap(true) {
			return false, o.lateSeal()
		}
		<-ran
	}
	return sealed, err
}

// waits reports whether the object, or its barrier, has its mailbox. Under its gate.
func (o *moveOut) waits() bool {
	c := o.cell
	return c.current == mailbox.Consumer[message](c) || o.wide != nil && o.wide.barrier != nil && c.current == mailbox.Consumer[message](o.wide.barrier)
}

// segments are the payload: views of what was captured.
func (o *moveOut) segments() [][]byte {
	if o.wide == nil {
		return [][]byte{o.taken.head, o.taken.queue, o.taken.state}
	}
	all := o.all()
	head := wire.AggregateHead{Ready: o.wide.barrier != nil, Count: uint32(len(all))}
	parts := append(make([][]byte, 0, 1+3*len(all)), head.AppendTo(nil))
	for _, m := range all {
		t := &m.taken
		p := wire.AggregatePart{ID: []byte(m.cell.ref.ID)}
		parts = append(parts, append(p.AppendHead(nil, len(t.head)+len(t.queue)+len(t.state)), t.head...), t.queue, t.state)
	}
	return parts
}
