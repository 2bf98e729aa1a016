package relay

import (
	"fmt"
	"testing"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// briefTiming makes every wait so short that few steps of time reach everything.
var briefTiming = Timing{
	Wait: 1, WaitMax: 1, Settle: 1, CutoverWait: 2, SealTimeout: 6 + SealMargin, Validity: 5, Prepared: 4,
}

// sourceWatch checks what a Source does against what it was told.
type sourceWatch struct {
	now  clock.Mono
	last SourceEvent
	sourceFacts
}

type sourceFacts struct {
	did      SourceStep // the last effect
	reserved bool       // the Store has said so
	prepared bool       // the inventory is fixed, and known to be
	admitted bool
	sealed   bool
	bound    bool // or it may be
	captured bool
	asked    bool // the target, for anything
	sent     bool // the unit, by SourceRestore
	boundary bool
	spent    bool // the target has said so, or is over
	over     bool
}

func (w *sourceWatch) check(m *SourceMove, e SourceEffect) error {
	if w.over {
		return fmt.Errorf("it does %d after its end", e.Do)
	}
	did := w.did
	w.did = e.Do
	if did == SourceSealSession {
		w.bound = w.last.Bound || w.last.Failure != nil
	}
	w.asked = w.asked || e.Do == SourceAdmit || e.Do == SourceRestore
	if w.boundary && e.Do != SourceRead && e.Do != SourceAbort && e.Do != SourceConfirm && e.Do != SourceEnd {
		return fmt.Errorf("it does %d behind the boundary", e.Do)
	}
	switch e.Do {
	case SourceReserve:
		w.admitted = w.admitted || !m.Asks || w.last.Is == SourceAdmitted && w.last.Failure == nil && !w.last.Reject
		if !w.admitted || m.Fixed {
			return fmt.Errorf("it reserves without admission, or against its policy")
		}
	case SourcePermit:
		w.reserved = true
	case SourcePrepare:
		if !m.Wide || did != SourcePermit && did != SourcePrepare || e.Prepare.Version != 11 || e.Prepare.Op != m.PrepareOp {
			return fmt.Errorf("it prepares %d behind %d", e.Prepare.Version, did)
		}
		if w.now.Reached(m.Deadline) {
			return fmt.Errorf("it prepares when it is too late")
		}
	case SourceSealSession:
		if c := &w.last.Change; m.Wide {
			w.prepared = did == SourcePrepare && w.last.Is == SourcePrepared && w.last.Err == nil && c.Record.Move != nil &&
				(c.Reason == store.Applied || c.Reason == store.AlreadyApplied)
		}
		if did != SourcePermit && !w.prepared || m.Wide != w.prepared {
			return fmt.Errorf("it seals without a permit, or an inventory")
		}
		w.sealed = true
	case SourceCapture:
		if !w.sealed || !w.reserved {
			return fmt.Errorf("it captures before the reservation and the session's seal")
		}
		w.captured = true
	case SourceRestore:
		if !w.captured || e.Try < 1 || e.Try > 2 {
			return fmt.Errorf("it sends what is not captured, or try %d", e.Try)
		}
		if version := e.Row.Version; m.Wide != (version == preparedVersion) {
			return fmt.Errorf("it sends version %d", version)
		}
		w.sent = true
	case SourceRelay:
		if !w.sent || w.last.Is != SourceReady || !w.last.MayAct || w.now.Reached(m.Deadline) {
			return fmt.Errorf("it passes the boundary by %d at %d", w.last.Is, w.now)
		}
		w.boundary = true
	case SourceAbort:
		if v := e.Abort.Version; w.prepared && v < preparedVersion || !m.Wide && v != 11 {
			return fmt.Errorf("it ends version %d", v)
		}
		w.reserved = true
	case SourceConfirm:
		if w.sent && !w.spent {
			return fmt.Errorf("it writes a row again that may be the target's")
		}
	case SourceEnd:
		w.over = true
		return w.checkEnd(&e.End)
	}
	return nil
}

func (w *sourceWatch) checkEnd(e *SourceEnded) error {
	switch e.Outcome {
	case SourceRejected, SourceFailed:
		c := &w.last.Change
		known := w.last.Is == SourceAborted && w.last.Err == nil &&
			(c.Reason == store.Applied || c.Reason == store.AlreadyApplied || never(c.Reason) && c.Record.Move == nil) ||
			w.last.Is == SourceConfirmed && w.last.Failure == nil
		switch {
		case w.boundary:
			return fmt.Errorf("the unit goes on behind the boundary")
		case w.reserved && !known:
			return fmt.Errorf("the unit goes on while its move may be committed, by %+v", w.last)
		case w.captured != e.Captured, w.bound != e.Sealed, w.asked && e.Outcome == SourceFailed && !e.Prepared:
			return fmt.Errorf("it forgets to undo: %+v", e)
		case (e.Outcome == SourceFailed) != (e.Failure != nil):
			return fmt.Errorf("failed without a reason, or rejected with one")
		case e.Doubt && w.reserved:
			return fmt.Errorf("it is in doubt about a reservation that is known")
		}
	case SourceMoved:
		if !w.sent && e.Found && e.Row.OwnerID == "s-1" {
			return fmt.Errorf("moved without having been sent")
		}
	case SourceLost:
		if !w.reserved || e.Failure == nil {
			return fmt.Errorf("lost before anything was reserved, or without a reason")
		}
		if w.last.Is == SourceRow && w.last.Found && w.last.Row.OwnerID == "s-1" && w.last.Row.Move != nil && w.last.Row.ObjectGen == unitGen {
			return fmt.Errorf("it is said to be nowhere while its move may be committed")
		}
	}
	return nil
}

// rows of all kinds that the Store may show of the unit.
func rowsOf(version uint64) []store.Authority { return rowsInto(version, "lobby") }

// rowsInto is rowsOf with a move into that Spot; "-": of a Spot.
func rowsInto(version uint64, into string) []store.Authority {
	w := words{args: map[string]string{"into": into}}
	var rows []store.Authority
	for _, of := range []string{"s", "t", "x"} {
		w.args["of"] = of
		row, _ := w.row(version, false)
		rows = append(rows, row)
	}
	w.args["of"], w.plain = "s", []string{"moving"}
	row, _ := w.row(version, true)
	rows = append(rows, row)
	row.ObjectGen++
	return append(rows, row)
}

// answers is all that the Store may answer to a change of the unit, with a row of that version.
func answers(version uint64, reasons ...store.Reason) []store.Change {
	var all []store.Change
	for _, r := range reasons {
		for _, row := range rowsOf(version) {
			all = append(all, store.Change{Reason: r, Record: row, Found: true, Epoch: 1})
		}
	}
	return append(all, store.Change{Reason: store.Missing, Epoch: 1}, store.Change{Reason: store.EpochChanged, Record: rowsOf(version)[3], Found: true, Epoch: 2})
}

var (
	moveReasons = []store.Reason{
		store.Applied, store.AlreadyApplied, store.VersionConflict, store.GenerationConflict, store.OwnerConflict, store.LeaseExpired,
		store.LeaseSuperseded, store.MoveConflict, store.EpochChanged, store.InventoryConflict, store.Exhausted,
	}
	storeErrors = []error{store.ErrUnavailable, store.ErrUnknown, store.ErrInvalid, store.ErrCorrupt}
	twoFailures = []*Failure{{errkind.InternalFailure, "x"}, {errkind.Unavailable, "y"}}
)

// preparedVersion is that of the row whose inventory is fixed, as it was reserved as 11.
const preparedVersion = 12

// sourceEvents are all events that a Source may see, in all that it looks at.
func sourceEvents() []SourceEvent {
	all := []SourceEvent{
		{Is: SourceTick},
		{Is: SourceAdmitted, ChunkBytes: 1024},
		{Is: SourceAdmitted, Reject: true},
		{Is: SourcePermitted},
		{Is: SourceSessionSealed},
		{Is: SourceSessionSealed, Bound: true},
		{Is: SourceCaptured},
		{Is: SourceReady},
		{Is: SourceReady, MayAct: true},
		{Is: SourceLinkLost},
		{Is: SourceLinkUp},
		{Is: SourceTargetGone},
		{Is: SourceCommitted, OwnerGen: 4},
		{Is: SourceGivenUp},
		{Is: SourceRow},
		{Is: SourceStopping},
		{Is: SourceHalting},
	}
	for _, f := range twoFailures {
		for _, is := range []SourceFact{SourceAdmitted, SourcePrepared, SourcePermitted, SourceSessionSealed, SourceCaptured, SourceRefused, SourceConfirmed} {
			all = append(all, SourceEvent{Is: is, Failure: f})
		}
	}
	for _, err := range storeErrors {
		for _, is := range []SourceFact{SourceReserved, SourcePrepared, SourceAborted, SourceRow} {
			all = append(all, SourceEvent{Is: is, Err: err})
		}
	}
	for _, row := range rowsOf(12) {
		all = append(all, SourceEvent{Is: SourceRow, Row: row, Found: true}, SourceEvent{Is: SourceConfirmed, Row: row, Found: true, Failure: twoFailures[1]})
	}
	all = append(all, SourceEvent{Is: SourceConfirmed, Row: rowsOf(12)[0], Found: true})
	for _, c := range answers(11, moveReasons...) {
		all = append(all, SourceEvent{Is: SourceAborted, Change: c})
	}
	for _, c := range answers(preparedVersion, moveReasons...) {
		if c.Reason == store.VersionConflict {
			all = append(all, SourceEvent{Is: SourceAborted, Change: c})
		}
		if applies := c.Reason == store.Applied; applies && c.Record.Move == nil || c.Record.OwnerID == "x-5" {
			continue // the Store does not answer that
		}
		all = append(all, SourceEvent{Is: SourcePrepared, Change: c})
	}
	for _, c := range answers(11, append(moveReasons, store.CapacityExceeded, store.SpotUnavailable, store.Moving)...) {
		if c.Reason == store.Applied && c.Record.Move == nil {
			continue // the Store does not answer that
		}
		all = append(all, SourceEvent{Is: SourceReserved, Change: c})
	}
	return all
}

// Every order of events, each at once or after a step of time, is walked to the depth at which
// nothing new is reached.
//
// req: RL-15
// req: AG-03
func TestEveryOrderOfEventsKeepsASourcesLaws(t *testing.T) {
	events := sourceEvents()
	for _, move := range []SourceMove{
		{InUserSpot: true, Asks: true}, {}, {InUserSpot: true, Asks: true, Fixed: true}, {Asks: true}, {Asks: true, Wide: true}, {InUserSpot: true},
	} {
		move := SourceMove{
			Unit: store.Fence{ID: "u", ObjectGen: unitGen, Version: 10, OwnerID: "s-1", LeaseGen: 1}, OwnerGen: ownerGen, Epoch: 1,
			Self: sourceLease, To: Process{"t", 2}, Relocation: relocation, Attempt: 1, Deadline: 4,
			InUserSpot: move.InUserSpot, Asks: move.Asks, Wide: move.Wide, Fixed: move.Fixed, PrepareOp: prepareOp,
		}
		type node struct {
			s Source
			w sourceWatch
		}
		first := node{s: *NewSource(0, move, briefTiming)}
		e, _ := first.s.Effect()
		if err := first.w.check(&move, e); err != nil {
			t.Fatal(err)
		}
		ended := map[SourceOutcome]int{}
		type key struct {
			source     sourceStands
			facts      sourceFacts
			deadlineIn clock.Mono
		}
		n := walk(t, first, func(n node) any {
			return key{standsOfSource(&n.s, n.w.now), n.w.sourceFacts, ahead(move.Deadline, n.w.now)}
		}, func(from node, visit func(node)) error {
			for i := range events {
				for step := range clock.Mono(2) {
					to := from
					to.w.now += step * 2
					to.w.last = events[i]
					to.w.last.SealedAt = to.w.now
					to.w.spent = to.w.spent || to.w.sent && (events[i].Is == SourceGivenUp || events[i].Is == SourceTargetGone)
					to.s.Step(to.w.now, to.w.last)
					if e, ok := to.s.Effect(); ok {
						if err := to.w.check(&move, e); err != nil {
							return fmt.Errorf("%w\nby %+v\nin %+v", err, to.w.last, standsOfSource(&from.s, from.w.now))
						}
						if e.Do == SourceEnd {
							ended[e.End.Outcome]++
						}
					}
					if at, ok := to.s.NextDeadline(); ok && to.s.state == sourceOver || ok && at == clock.Never {
						return fmt.Errorf("a deadline that never comes in %+v", standsOfSource(&to.s, to.w.now))
					}
					visit(to)
				}
			}
			return nil
		})
		t.Logf("%d states, ends %v", n, ended)
		if want := 4; len(ended) != want && !move.Fixed && move.Asks {
			t.Errorf("only the outcomes %v were reached", ended)
		}
	}
}

// walk visits all that next reaches from first, once for each key.
func walk[N any](t *testing.T, first N, key func(N) any, next func(from N, visit func(N)) error) int {
	seen := map[any]bool{key(first): true}
	queue := []N{first}
	for len(queue) > 0 {
		from := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if err := next(from, func(n N) {
			if k := key(n); !seen[k] {
				seen[k] = true
				queue = append(queue, n)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	return len(seen)
}

// ahead is how far a time is ahead, as far as it matters.
func ahead(at, now clock.Mono) clock.Mono {
	if at == clock.Never {
		return -2
	}
	return max(at-now, -1)
}

// sourceStands is all that a Source goes by.
type sourceStands struct {
	state                                 sourceState
	wake, sealLimit, validUntil           clock.Mono
	waits                                 backoff
	reserved                              store.Version
	try                                   uint32
	lost, failed, asked, sealed, captured bool
	crossed, spent                        bool
}

func standsOfSource(s *Source, now clock.Mono) sourceStands {
	return sourceStands{
		s.state, ahead(s.wake, now), ahead(s.sealLimit, now), ahead(s.validUntil, now), s.waits, s.reserved.Version, s.try,
		s.lost, s.failure != nil, s.asked, s.sealed, s.captured, s.crossed, s.spent,
	}
}
