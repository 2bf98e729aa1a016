package relay

import (
	"cmp"
	"errors"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// This file is about how a Source ends: what the Store's row says of a unit that is on its
// way, before the boundary and behind it.

func (s *Source) end(e SourceEnded) {
	e.Row, e.Found, e.Doubt = s.row, s.found, s.lost
	if e.Outcome == SourceRejected || e.Outcome == SourceFailed {
		e.Prepared, e.Captured, e.Sealed = s.asked, s.captured, s.sealed
	}
	s.wake = clock.Never
	s.do(sourceOver, SourceEffect{Do: SourceEnd, End: e})
}

// fail ends the attempt for f. Once the move is reserved that is a change of the Store: the
// target may commit without having heard that its relay-ready was not accepted, or that its
// time is over.
func (s *Source) fail(f *Failure) {
	s.failure = cmp.Or(s.failure, f) // the first reason is the one that counts
	if s.reserved.Move == nil {
		s.goOn()
		return
	}
	s.waits = backoff{}
	s.sendAbort()
}

// goOn gives the unit back, if the boundary is ahead: no commit of the move applies any more.
func (s *Source) goOn() {
	if s.crossed {
		s.lose(s.failure.Kind, s.failure.Text)
		return
	}
	s.end(SourceEnded{Outcome: SourceFailed, Failure: s.failure})
}

// moved ends it for an owner whose generation is greater, also if the word of it did not say.
func (s *Source) moved(owner store.OwnerGen) {
	s.end(SourceEnded{Outcome: SourceMoved, OwnerGen: max(owner, s.move.OwnerGen+1)})
}

func (s *Source) lose(kind errkind.Kind, text string) {
	s.end(SourceEnded{Outcome: SourceLost, Failure: &Failure{kind, text}})
}

// doubt is lose where no abort of this process is known to be applied, nor will be.
func (s *Source) doubt(kind errkind.Kind, text string) {
	s.end(SourceEnded{Outcome: SourceLost, Failure: &Failure{kind, text}, Elsewhere: s.try > 0 && !s.spent})
}

func (s *Source) sendAbort() {
	s.wake = clock.Never
	s.do(sourceAborting, SourceEffect{Do: SourceAbort, Abort: store.EndOf(&s.reserved, store.Source, s.move.Self, s.move.AbortOp)})
}

// where says whose the unit is by the row.
type where uint8

const (
	whereHere  where = iota + 1 // this process's, as before
	whereThere                  // it got a later owner
	whereGone                   // the incarnation is no more
	wherePast                   // an earlier owner's: the Store has lost what came since
)

// see takes a row that the Store showed.
func (s *Source) see(row *store.Authority, found bool) where {
	s.row, s.found = *row, found
	switch m := &s.move; {
	case !found || row.ObjectGen > m.Unit.ObjectGen:
		return whereGone
	case row.ObjectGen < m.Unit.ObjectGen:
		return wherePast
	case row.OwnerID == m.Self.OwnerID && row.LeaseGen == m.Self.Gen && row.OwnerGen == m.OwnerGen:
		return whereHere
	case row.OwnerGen <= m.OwnerGen:
		return wherePast
	default:
		return whereThere
	}
}

const goneText = "its row is gone: it was freed by hand"

func (s *Source) aborted(now clock.Mono, e *SourceEvent) {
	switch {
	case s.state != sourceAborting:
		return
	case errors.Is(e.Err, store.ErrInvalid):
		s.doubt(errkind.InternalFailure, "the Store cannot be asked to end the move: "+e.Err.Error())
		return
	case e.Err != nil: // it may be applied; a row that reads unchanged would be no answer
		s.sleep(sourceAbortLost, s.waits.wait(now, s.timing, s.timing.Settle))
		return
	}
	c := &e.Change
	switch at := s.see(&c.Record, c.Found); {
	case c.Reason == store.Applied, c.Reason == store.AlreadyApplied:
		s.goOn()
	case at == whereThere: // the commit came first
		s.moved(c.Record.OwnerGen)
	case at == whereGone: // also in a new epoch: it may have been freed there
		s.lose(errkind.Unavailable, goneText)
	case c.Reason == store.EpochChanged, c.Epoch != s.reserved.Epoch, at == wherePast: // of what was lost the row says nothing
		s.settle(now)
	case never(c.Reason) && !s.stands(&c.Record): // it was ended already
		s.goOn()
	case c.Reason == store.LeaseSuperseded:
		s.doubt(errkind.Unavailable, "the node's lease belongs to another process")
	case s.move.Wide && c.Reason == store.VersionConflict && s.stands(&c.Record) && c.Record.Version > s.reserved.Version: // by its inventory, whose answer was lost
		s.reserved = c.Record
		s.sendAbort()
	default: // the lease has to be renewed, or the record is of a later moment
		s.sleep(sourceAbortLost, s.waits.wait(now, s.timing, s.timing.Settle))
	}
}

// settle is for a move of an earlier epoch, of which nothing applies any more, though it may
// have been committed in a history that is lost. A target that has opened the unit writes the
// row again, and one that has not drops it. The source does nothing before it knows which.
//
// Behind the boundary it can only leave the unit to be freed by hand, unless the target says
// later that it has it.
func (s *Source) settle(now clock.Mono) {
	switch {
	case s.spent:
		s.confirm()
		return
	case s.crossed:
		s.doubt(errkind.Unavailable, "the Store has begun a new epoch, and it is not known whether the target has it")
		return
	case s.try == 0: // the target was never sent the unit
		s.confirm()
		return
	}
	s.waits = backoff{}
	s.ask(now)
}

func (s *Source) ask(now clock.Mono) {
	s.wake = s.waits.wait(now, s.timing, s.timing.Settle)
	s.do(sourceSettling, SourceEffect{Do: SourceSettle, Row: s.reserved})
}

func (s *Source) confirm() {
	s.wake = clock.Never
	s.do(sourceConfirming, SourceEffect{Do: SourceConfirm, Row: s.reserved})
}

func (s *Source) confirmed(e *SourceEvent) {
	if s.state != sourceConfirming {
		return
	}
	switch at := s.see(&e.Row, e.Found); {
	case e.Failure == nil:
		s.goOn()
	case at == whereThere:
		s.moved(e.Row.OwnerGen)
	default:
		s.lose(e.Failure.Kind, e.Failure.Text)
	}
}

// committed takes the target's word, by which nothing opens here, if it was sent the unit.
func (s *Source) committed(e *SourceEvent) {
	if s.try > 0 && s.state != sourceConfirming && s.state != sourceOver {
		s.moved(e.OwnerGen)
	}
}

// spend is for a target that will not commit any more, by its own word or as its process is over:
// there is nothing to wait for. What became of the unit the Store says.
func (s *Source) spend() {
	s.spent = s.crossed
	switch s.state {
	case sourceAwaiting:
		s.look()
	case sourceSettling:
		s.confirm()
	default: // before the boundary it refuses, and an abort has its own answer
	}
}

// look reads the row, by which a move that has passed the boundary ends.
func (s *Source) look() {
	s.wake = clock.Never
	s.do(sourceReading, SourceEffect{Do: SourceRead})
}

func (s *Source) read(now clock.Mono, e *SourceEvent) {
	switch {
	case s.state != sourceReading:
		return
	case e.Err != nil && s.failure == nil:
		s.sleep(sourceReadLost, s.waits.wait(now, s.timing, s.timing.Settle))
		return
	case e.Err != nil:
		s.fail(s.failure)
		return
	}
	s.waits = backoff{}
	switch at := s.see(&e.Row, e.Found); {
	case at == whereThere:
		s.moved(e.Row.OwnerGen)
	case at == whereGone:
		s.lose(errkind.Unavailable, goneText)
	case s.endedBy(&e.Row):
		s.lose(errkind.Unavailable, "the target has given the move up; it stays sealed until it is freed by hand")
	case s.spent: // a commit may be on its way that the row does not show, here and below
		s.fail(&Failure{errkind.Unavailable, "the target has given the move up, or is dead; it stays sealed until it is freed by hand"})
	case s.failure != nil, now.Reached(s.validUntil):
		s.fail(&Failure{errkind.Unavailable, "the target has not committed the move in time; it stays sealed until it is freed by hand"})
	default:
		s.sleep(sourceAwaiting, s.validUntil)
	}
}

// endedBy reports whether the row shows that the move was ended, after which no commit of it
// applies. One that is older than the reservation, or of another epoch, does not.
func (s *Source) endedBy(row *store.Authority) bool {
	return !s.stands(row) && row.Epoch == s.reserved.Epoch && row.Version > s.reserved.Version
}

// halt ends a move behind its boundary whose outcome is not waited for any longer.
func (s *Source) halt() {
	f := &Failure{errkind.ShuttingDown, "the node stops, and the target has not committed the move"}
	switch s.state {
	case sourceAwaiting, sourceReadLost:
		s.fail(f)
	case sourceReading:
		s.failure = f
	default: // it has stopped by itself, or asks the Store already
	}
}
