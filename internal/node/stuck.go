package node

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/invariant"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/store"
)

// This file is about objects that cannot go on: what has to run before their next message
// does not succeed (JN-10, RL-22). Nobody ends them unasked.

// stuck is why an object does not go on.
type stuck struct {
	what      string
	err       *Error // of the last try; nil: the first one runs yet
	sealed    bool   // there is no further try
	elsewhere bool   // another node may have it
}

func (s *stuck) String() string {
	if s.err == nil {
		return s.what + " does not end"
	}
	return s.what + " keeps failing: " + s.err.Error()
}

// StuckObject is an object that does not go on.
type StuckObject struct {
	Ref    ActorRef
	Type   string
	SpotID string // that it is in
	Reason string
}

// StuckObjects returns the node's objects that do not go on, by their ids.
func (n *Node) StuckObjects() []StuckObject {
	var all []StuckObject
	n.actors.Range(func(_ string, c *objectCell) bool {
		if s := c.stuck.Load(); s != nil {
			all = append(all, StuckObject{c.ref, c.typ.Name, c.context.SpotID(), s.String()})
		}
		return true
	})
	slices.SortFunc(all, func(a, b StuckObject) int { return cmp.Compare(a.Ref.ID, b.Ref.ID) })
	return all
}

// insist runs a callback of a Join whose outcome is known until it succeeds: to the Join's
// deadline, but for some time at least. Times in which the node may not act do not count.
// If it gives up it is false and the Actor stays sealed; while the callback hangs, that
// shows as stuck, too.
func (j *PendingJoin) insist(what string, f func(*tries) *Error) bool {
	c := j.cell
	n := c.node
	until := max(j.Deadline, clock.Now().Add(insistMin))
	var now atomic.Pointer[stuck]
	now.Store(&stuck{what: what})
	defer c.showing(until, now.Load)()
	var before tries
	for wait := createWaitMin; ; wait = min(2*wait, settleWaitMax) {
		err := f(&before)
		switch late := clock.Now().Reached(until) || n.stopping.Load(); {
		case err == nil, n.life.Err() != nil:
			return true
		case j.isOver():
			return false
		case late && err != errNotOwner:
			now.Store(&stuck{what: what, err: err, sealed: true})
			c.seal(j.held, *now.Load())
			return false
		}
		now.Store(&stuck{what: what, err: err})
		pause(n.life, max(createWaitMin, min(wait, until.Sub(clock.Now()))))
	}
}

// showing has the object show as stuck from then on, for as long as it waits for a callback:
// until over, unless it is sealed by then.
func (c *objectCell) showing(from clock.Mono, why func() *stuck) (over func()) {
	var mu sync.Mutex // of ended
	ended := false
	hangs := time.AfterFunc(from.Sub(clock.Now()), func() {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			c.stuck.Store(why())
		}
	})
	return func() {
		hangs.Stop()
		mu.Lock()
		defer mu.Unlock()
		ended = true
		if s := c.stuck.Load(); s != nil && !s.sealed {
			c.stuck.Store(nil)
		}
	}
}

// seal makes the object refuse what comes from here on, and keep what is held. That of a
// node that stops ends at once.
func (c *objectCell) seal(held keeper, why stuck) {
	n := c.node
	c.stuck.Store(&why)
	c.naming(n.log.Error()).Str("reason", clip(why.String())).
		Msg("an object is sealed, and stays so until it is ended with its exact ref or the node stops")
	c.box.Seal(&sealed{cell: c, held: held})
	if n.stopping.Load() { // and may have gone through those that are sealed
		n.freeUnasked(c)
	}
}

// freeSealed ends the sealed objects of a node that stops, so that nothing waits for them.
func (n *Node) freeSealed() {
	for _, actors := range []bool{true, false} { // a Spot is freed behind its members
		n.actors.Range(func(_ string, c *objectCell) bool {
			if actors == (c.typ.Kind == store.Actor) {
				n.freeUnasked(c)
			}
			return true
		})
	}
}

// freeUnasked ends an object of a node that stops, if it is sealed. One that may be at another
// node keeps its row, as that would end it there.
func (n *Node) freeUnasked(c *objectCell) {
	s := c.stuck.Load()
	if s == nil || !s.sealed || s.elsewhere {
		return
	}
	if end := n.freeStuck(c, newOpID()); end.err != nil {
		c.naming(n.log.Warn()).Err(end.err).Msg("a sealed object could not be freed; its id stays Unavailable until it is")
	}
}

// naming adds to a line of the log which object it is about.
func (c *objectCell) naming(line *zerolog.Event) *zerolog.Event {
	return line.Str("object", clip(c.ref.ID)).Str("type", clip(c.typ.Name))
}

// keeper is a consumer that holds messages.
type keeper interface {
	mailbox.Consumer[message]
	unread(*mailbox.Claim[message]) // puts them in front of what is queued
}

// sealed is the consumer of a stuck object.
type sealed struct {
	cell *objectCell
	held keeper
}

// Begin implements mailbox.Consumer.
func (s *sealed) Begin(claim *mailbox.Claim[message]) {
	invariant.Check(s.cell.current == mailbox.Consumer[message](s.held) || s.cell.gone.Load(), "an object is sealed whose messages are not held")
	if s.cell.gone.Load() { // it was ended while this was on its way
		(&ending{cell: s.cell, err: errGone}).Begin(claim)
		return
	}
	s.cell.current = s
}

// Consume implements mailbox.Consumer.
func (s *sealed) Consume(claim *mailbox.Claim[message], m *message) {
	if m.packet == relayPacket { // what it brings is refused; steps are not for an Actor that is sealed
		m.control(&turn{node: s.cell.node, cell: s.cell, claim: claim})
		m.done()
		return
	}
	m.refuse(s.cell.node, errStuck)
}

func (s *sealed) unread(claim *mailbox.Claim[message]) { s.held.unread(claim) }

// freeStuck ends a stuck Actor, a member of a User Spot included, without a callback
// (decision 9).
func (n *Node) freeStuck(cell *objectCell, op store.OpID) destroyEnd {
	if !cell.takeRow(n.life) {
		return destroyEnd{err: errStopping}
	}
	defer cell.leaveRow()
	if now, here := n.actors.Load(cell.ref.ID); !here || now != cell { // it was ended meanwhile
		return destroyEnd{}
	}
	row, found, err := n.readRow(n.life, cell.ref.ID)
	switch {
	case err != nil:
		return destroyEnd{err: fromStore(err, opDestroy, cell.ref.ID)}
	case !found || uint64(row.ObjectGen) != cell.ref.ObjectGen || !n.owns(&row):
		n.drop(cell, errGone)
		return destroyEnd{}
	}
	f := store.FreeOf(&row, op)
	f.By = n.lease
	change, doubt, err := untilKnown(n.life, settleWaitMax, func() (store.Change, error) {
		return n.attempt(func(ctx context.Context) (store.Change, error) { return n.store.Free(ctx, f) })
	})
	n.routes.drop(cell.ref.ID)
	over := errGone
	if n.stopping.Load() {
		over = errStopping
	}
	switch {
	case err != nil:
		if doubt {
			n.drop(cell, over)
		}
		return destroyEnd{err: fromStore(err, opDestroy, cell.ref.ID)}
	case !deleted(change.Reason):
		return destroyEnd{err: fail(errkind.Unavailable, opDestroy, cell.ref.ID, "the Store refused it: %v", change.Reason)}
	}
	n.drop(cell, over)
	return destroyEnd{destroyed: change.Reason == store.Applied || change.Reason == store.AlreadyApplied}
}

var (
	errStuck = &Error{
		Kind: errkind.Unavailable,
		Text: "the object is sealed, as a callback of its last join or move keeps failing; it can be ended with its exact ref",
	}
	errStuckRef = &Error{Kind: errkind.InvalidOperation, Text: "the object is sealed; to end it name it by its exact ref"}
)
