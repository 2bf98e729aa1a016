package relay

import (
	"fmt"
	"testing"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// targetWatch checks what a Target does against what it was told.
type targetWatch struct {
	now  clock.Mono
	last TargetEvent
	targetFacts
}

type targetFacts struct {
	did       TargetStep // the last effect that something ends
	fits      bool       // a row was read that is the source's
	accepted  bool
	staged    bool
	ready     bool
	committed bool // a commit was sent
	owned     bool // the row is written here
	merged    bool
	over      bool
}

// check looks at an effect of a Target whose Restore, if it has one yet, is r.
func (w *targetWatch) check(e TargetEffect, r *Restore) error {
	if w.over {
		return fmt.Errorf("it does %d after its end", e.Do)
	}
	did := w.did
	if e.Do != TargetAnswer && e.Do != TargetRefuse && e.Do != TargetReady {
		w.did = e.Do
	}
	switch e.Do {
	case TargetAnswer:
		w.accepted = w.accepted || !e.Reject && e.Failure == nil
	case TargetAsk, TargetAssemble:
		w.fits = true
	case TargetStage:
		if !w.fits || w.last.Is != TargetAssembled {
			return fmt.Errorf("it stages what is not whole")
		}
		w.staged = false
	case TargetReady:
		w.staged = w.staged || w.last.Is == TargetStaged && w.last.Failure == nil && w.last.MayAct
		if !w.staged {
			return fmt.Errorf("it says ready and is not")
		}
		w.ready = true
	case TargetCommit:
		if c := &e.Commit; !w.ready || c.MoveRef != r.Move || c.Root != r.Root {
			return fmt.Errorf("it commits without having said ready, or by another fence or inventory")
		}
		w.committed = true
	case TargetGiveUp:
		if !w.ready {
			return fmt.Errorf("it gives up what it has not said ready for")
		}
	case TargetConfirm:
		if !w.ready || w.last.Err != nil || w.last.Change.Record.OwnerID != "t-2" || w.last.Change.Record.ObjectGen != unitGen {
			return fmt.Errorf("it takes the unit for its own by %+v", w.last.Change)
		}
	case TargetMerge:
		if did != TargetConfirm || w.last.Failure != nil {
			return fmt.Errorf("it merges before the row stands")
		}
		w.owned, w.merged = true, true
	case TargetJoined:
		if !w.merged || r.Quiet {
			return fmt.Errorf("a callback before the merge, or of a quiet move")
		}
	case TargetComplete:
		if did != TargetComplete && (did != TargetJoined || w.last.Failure != nil) {
			return fmt.Errorf("the completion before OnJoinedActor has ended")
		}
	case TargetEnd:
		w.over = true
		return w.checkEnd(did, e, r.Quiet)
	}
	return nil
}

func (w *targetWatch) checkEnd(did TargetStep, e TargetEffect, quiet bool) error {
	never := w.last.Err == nil && (w.last.Is == TargetCommitted || w.last.Is == TargetGaveUp) && never(w.last.Change.Reason)
	switch e.Outcome {
	case TargetOpened, TargetStuck:
		stuck, last := e.Outcome == TargetStuck, TargetCompleted
		if quiet {
			last = TargetMerged
		}
		if !w.owned || stuck != (e.Failure != nil) || stuck != (w.last.Failure != nil) || stuck && quiet || !stuck && w.last.Is != last {
			return fmt.Errorf("it ends with the unit (%+v) by %+v", e, w.last)
		}
	case TargetDropped:
		switch {
		case e.Failure == nil:
			return fmt.Errorf("it drops without a reason")
		case w.owned:
			return fmt.Errorf("it drops what it owns")
		case !w.ready, !w.committed && w.last.Is == TargetAborted: // the source knows that it is over
		case did == TargetConfirm && w.last.Failure != nil, never:
		case w.last.Is == TargetGaveUp && w.last.Err == nil && w.last.Change.Reason <= store.AlreadyApplied:
		case w.last.Is == TargetCommitted && w.last.Err == nil && w.last.Change.Reason <= store.AlreadyApplied: // freed since
		case w.last.Err == store.ErrInvalid: //nolint:errorlint // no try was ever sent
		default:
			return fmt.Errorf("it drops what may be committed, by %+v", w.last)
		}
	}
	return nil
}

// targetEvents are all events that a Target may see, in all that it looks at: of the moves of an
// Actor, by a Join and by its node, or of an aggregate.
func targetEvents(wide bool) []TargetEvent {
	restores := [][]string{{}, {"entry"}, {"entry", "quiet"}}
	version, into, spot := uint64(11), "lobby", "room"
	if wide {
		restores = [][]string{{"spot", "wide"}, {"spot"}}
		version, into, spot = preparedVersion, "-", ""
	}
	args := map[string]string{"version": fmt.Sprint(version)}
	ask := Ask{Fence: fenceArg(words{}, 10), SpotID: spot}
	other := ask
	other.Request[0] = 1
	all := []TargetEvent{
		{Is: TargetTick},
		{Is: TargetAsked, Ask: ask},
		{Is: TargetAsked, Ask: other},
		{Is: TargetRestoring, Restore: restoreArg(words{args: map[string]string{"what": "9"}})},
		{Is: TargetRow},
		{Is: TargetDecided},
		{Is: TargetDecided, Reject: true},
		{Is: TargetAssembled},
		{Is: TargetStaged},
		{Is: TargetStaged, MayAct: true},
		{Is: TargetRelayed},
		{Is: TargetCutover},
		{Is: TargetAborted},
		{Is: TargetMerged},
		{Is: TargetJoinedDone},
		{Is: TargetCompleted},
		{Is: TargetConfirmed, Row: rowsOf(12)[1], Found: true},
		{Is: TargetStopping},
	}
	for _, f := range twoFailures {
		for _, is := range []TargetFact{TargetDecided, TargetBroken, TargetStaged, TargetConfirmed, TargetJoinedDone, TargetCompleted} {
			all = append(all, TargetEvent{Is: is, Failure: f})
		}
	}
	for _, plain := range restores {
		all = append(all, TargetEvent{Is: TargetRestoring, Restore: restoreArg(words{plain: plain, args: args})})
	}
	for _, row := range append(rowsOf(10), rowsInto(version, into)...) {
		all = append(all, TargetEvent{Is: TargetRow, Row: row, Found: true})
	}
	for _, err := range storeErrors {
		all = append(all, TargetEvent{Is: TargetCommitted, Err: err}, TargetEvent{Is: TargetGaveUp, Err: err}, TargetEvent{Is: TargetRow, Err: err})
	}
	for _, c := range answers(11, moveReasons...) {
		all = append(all, TargetEvent{Is: TargetCommitted, Change: c}, TargetEvent{Is: TargetGaveUp, Change: c})
	}
	return all
}

// req: RL-10 RL-12
// req: AG-06
// req: MB-08
func TestEveryOrderOfEventsKeepsATargetsLaws(t *testing.T) {
	for _, wide := range []bool{false, true} {
		walkTarget(t, targetEvents(wide))
	}
}

func walkTarget(t *testing.T, events []TargetEvent) {
	t.Helper()
	type node struct {
		t Target
		w targetWatch
	}
	ended := map[TargetOutcome]int{}
	type key struct {
		target targetStands
		facts  targetFacts
	}
	n := walk(t, node{t: *NewTarget(targetJob(), briefTiming)}, func(n node) any {
		return key{standsOfTarget(&n.t, n.w.now), n.w.targetFacts}
	}, func(from node, visit func(node)) error {
		for i := range events {
			for step := range clock.Mono(2) {
				to := from
				to.w.now += step * 2
				to.w.last = events[i]
				to.w.last.Deadline = to.w.now + 4
				to.t.Step(to.w.now, to.w.last)
				if e, ok := to.t.Effect(); ok {
					if err := to.w.check(e, &to.t.restore); err != nil {
						return fmt.Errorf("%w\nby %+v\nin %+v", err, to.w.last, standsOfTarget(&from.t, from.w.now))
					}
					if e.Do == TargetEnd {
						ended[e.Outcome]++
					}
				}
				if _, ok := to.t.NextDeadline(); ok && to.t.state == targetOver {
					return fmt.Errorf("a deadline after the end")
				}
				visit(to)
			}
		}
		return nil
	})
	t.Logf("%d states, ends %v", n, ended)
	if len(ended) != 3 {
		t.Errorf("only the outcomes %v were reached", ended)
	}
}

// targetStands is all that a Target goes by.
type targetStands struct {
	state                      targetState
	wake, deadline, validUntil clock.Mono
	waits                      backoff
	asked                      string // the id, if it was
	restore                    Restore
	answer                     TargetStep
	reject, failed             bool
	outcome                    TargetOutcome
}

func standsOfTarget(t *Target, now clock.Mono) targetStands {
	return targetStands{
		t.state, ahead(t.wake, now), ahead(t.deadline, now), ahead(t.validUntil, now), t.waits, t.ask.ID, t.restore, t.answer.Do,
		t.answer.Reject, t.failure != nil, t.outcome,
	}
}
