package node

import (
	"context"

	"github.com/zlnode/zlnode/chunker"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/timer"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// This file makes an object of what has come of it.

// staged is what restoring gave.
type staged struct {
	instance any
	timers   *timer.Set
	binding  binding
	saved    []message
	topics   []subscription // of a Spot
	began    uint64
	failure  *relay.Failure

	clientGone bool // the Session that the Actor was bound to is over
}

var (
	errRestoreLate = &relay.Failure{Kind: errkind.DeadlineExceeded, Text: "its factory and its adapter did not end by the move's deadline"}
	errSpotLate    = &relay.Failure{Kind: errkind.DeadlineExceeded, Text: "its spot did not open at the target by the move's deadline"}
	errFixedHere   = &relay.Failure{Kind: errkind.Rejected, Text: "its type has DisableRelocation at the target; all nodes give a type the same policy"}
)

// stage makes the Actor and restores it. Past its time it is given up: what it still does
// concerns an instance that nobody will see.
func (i *moveIn) stage(e *relay.TargetEffect) relay.TargetEvent {
	n, happened := i.node, relay.TargetEvent{Is: relay.TargetStaged}
	if happened.Failure = i.retype(&e.Row); happened.Failure != nil {
		return happened
	}
	if i.cell.typ.Policy == Disable {
		happened.Failure = errFixedHere
		return happened
	}
	if i.unit == wire.UnitWide {
		return i.stageWide(e)
	}
	ctx, cancel := untilTime(n.life, e.Deadline)
	defer cancel()
	if happened.Failure = i.findSpot(ctx); happened.Failure != nil {
		return happened
	}
	if full := n.movesIn.enter(ctx, deadlineOf(ctx)); full != nil {
		happened.Failure = failureOfMove(full)
		return happened
	}
	i.mu.Lock()
	payload, sent, epoch := i.payload, i.sent, i.epoch
	i.mu.Unlock()
	done, cell, from := make(chan staged, 1), i.cell, i.from
	started := n.tasks.Go(func() {
		defer n.movesIn.leave()
		done <- cell.restore(payload, sent, from)
	})
	if !started {
		n.movesIn.leave()
		return relay.TargetEvent{Is: relay.TargetStopping}
	}
	select {
	case s := <-done:
		happened.Failure, happened.MayAct = s.failure, n.mayActIn(epoch)
		if s.failure == nil {
			if err := i.inTurn(func(*turn) { i.take(&s) }); err != nil {
				happened.Failure = failureOfMove(err)
			}
		}
		return happened
	case <-ctx.Done(): // the task goes on with the payload
		i.mu.Lock()
		i.payload = nil
		i.mu.Unlock()
		n.tasks.Go(func() {
			<-done
			payload.Free()
		}) // else the collector has it
		if n.life.Err() != nil {
			return relay.TargetEvent{Is: relay.TargetStopping}
		}
		happened.Failure = errRestoreLate
		return happened
	}
}

// take makes what restoring gave the object's.
func (i *moveIn) take(s *staged) {
	i.cell.instance, i.binding, i.clientGone, i.queue.saved = s.instance, s.binding, s.clientGone, s.saved
	i.topics, i.subscribed = s.topics, s.began
	i.setTimers(s.timers)
}

// findSpot finds the Spot of an Actor that follows it to this node, and waits until that is open.
func (i *moveIn) findSpot(ctx context.Context) *relay.Failure {
	i.mu.Lock()
	id, member := i.spotID, i.member
	i.mu.Unlock()
	if i.unit != wire.UnitActor || !member {
		return nil
	}
	if comes, ok := i.node.moves.preparing.Load(id); ok {
		select {
		case <-comes.over:
		case <-ctx.Done():
			return errSpotLate
		}
	}
	if i.spot = i.node.cellOf(id, store.UserSpot); i.spot == nil || i.spot.tenure.Load() != owned || i.spot.gone.Load() {
		return &relay.Failure{Kind: errkind.NotFound, Text: "the spot of the actor is not at node " + i.node.cfg.RID}
	}
	return nil
}

func (i *moveIn) setTimers(set *timer.Set) {
	i.cell.timers = nil
	if set != nil {
		i.cell.timers = &objectTimers{set: set}
		i.cell.timers.entry.Value = i.cell
	}
}

func lost(err error) staged {
	return staged{failure: &relay.Failure{Kind: errkind.DataLost, Text: err.Error()}}
}

// restore makes the Actor's value of a payload that its source sent then, and what goes along.
func (c *objectCell) restore(payload *chunker.Incoming, sent clock.Mono, from process) (s staged) {
	b, err := payload.Payload()
	if err != nil {
		return lost(err)
	}
	return c.restoreFrom(b, sent, from)
}

// restoreFrom is restore of the bytes of a MoveState.
func (c *objectCell) restoreFrom(b []byte, sent clock.Mono, from process) (s staged) {
	n := c.node
	m, err := wire.DecodeMoveState(b)
	if err != nil {
		return lost(err)
	}
	if m.HasState != (c.typ.Policy == PreserveState) {
		return staged{failure: &relay.Failure{Kind: errkind.InternalFailure, Text: "source and target have different relocation policies for type " + c.typ.Name + "; all nodes give a type the same one"}}
	}
	failed := guard(n, "object", c.ref.ID, func() (e error) {
		if s.instance, e = c.typ.Factory(&c.context); e == nil && m.HasState {
			e = c.typ.Restore(s.instance, m.State)
		}
		return e
	})
	if c.failed("Restore", failed); failed != nil {
		return staged{failure: &relay.Failure{Kind: errkind.InternalFailure, Text: "its factory or its adapter's Restore failed; the log of node " + n.cfg.RID + " says why"}}
	}
	if len(m.Timers) > 0 {
		state, err := timer.Decode(m.Timers)
		if err == nil {
			s.timers, err = timer.Import(n.timerNow(), 0, state)
		}
		if err != nil {
			return lost(err)
		}
	}
	for topic, number := range m.Subscriptions {
		s.topics = append(s.topics, subscription{string(topic), number})
	}
	s.began = m.Began
	s.clientGone = m.ClientGone
	if m.HasBinding {
		var unreachable *Error
		switch s.binding, unreachable = n.adopt(&m.Binding); {
		case unreachable == nil:
		case unreachable.Kind == errkind.NotFound:
			s.clientGone = true
		default:
			return staged{failure: failureOfMove(unreachable)}
		}
	}
	for rest := m.Queue; len(rest) > 0; {
		var w wire.Carried
		w, rest, err = wire.DecodeCarried(rest)
		if err != nil {
			return lost(err)
		}
		s.saved = append(s.saved, c.arrived(&w, sent, from, nil, 0, nil))
	}
	return s
}
