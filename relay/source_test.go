package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// The scripts of Sources. Each line is one event, and prints what the machine wants done
// next and when it is to be called at the latest.
//
//	source [entry|spot] [wide] [fixed] [deadline=d]  a new Source, into "room" or, with entry, "lobby"; or of a Spot
//	admitted [chunk=n] [reject] [reply=text] [fail=kind]
//	reserved|prepared|aborted [reason=r] [err=e] [the row, as in words.row] | prepared fail=kind
//	permitted|captured [fail=kind] | sealed [bound] [asked=d] [fail=kind]
//	ready [paused] | refused fail=kind | lost | linked | gone
//	committed [own=n] | given-up | row [err=e] [the row]
//	confirmed [fail=kind] [the row] | stopping | halting | tick
//
// req: AG-03 AG-07 JN-09 PO-02 RL-15 RL-18
func TestSourceScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/source", func(t *testing.T, path string) {
		var now clock.Mono
		var s *Source
		script(t, path, func(w words) string {
			w.clock(&now, "source")
			if w.cmd == "source" {
				s = NewSource(now, sourceMove(w, now), scriptTiming)
			} else {
				s.Step(now, sourceEvent(w, now))
			}
			return sourceSays(s) + until(s)
		})
	})
}

func sourceMove(w words, now clock.Mono) SourceMove {
	m := SourceMove{
		Unit:     store.Fence{ID: "u", ObjectGen: unitGen, Version: 10, OwnerID: "s-1", LeaseGen: 1, SpotID: "home"},
		OwnerGen: ownerGen, Epoch: 1, Self: sourceLease, To: Process{"t", 2}, SpotID: "room", InUserSpot: true, Asks: true, Fixed: w.has("fixed"),
		Relocation: relocation, Attempt: 1, ReserveOp: reserveOp, AbortOp: abortOp, Deadline: now.Add(w.span("deadline", 5*time.Second)),
	}
	switch m.PrepareOp = prepareOp; {
	case w.has("entry"):
		m.SpotID, m.InUserSpot, m.Asks = "lobby", false, false
	case w.has("spot"):
		m.Unit.SpotID, m.SpotID, m.InUserSpot, m.Wide = "", "", false, w.has("wide")
	}
	return m
}

func sourceEvent(w words, now clock.Mono) SourceEvent {
	facts := map[string]SourceFact{
		"tick": SourceTick, "admitted": SourceAdmitted, "reserved": SourceReserved, "prepared": SourcePrepared, "permitted": SourcePermitted,
		"sealed": SourceSessionSealed, "captured": SourceCaptured, "ready": SourceReady, "refused": SourceRefused,
		"lost": SourceLinkLost, "linked": SourceLinkUp, "gone": SourceTargetGone, "committed": SourceCommitted,
		"given-up": SourceGivenUp, "row": SourceRow, "aborted": SourceAborted,
		"confirmed": SourceConfirmed, "stopping": SourceStopping, "halting": SourceHalting,
	}
	e := SourceEvent{
		Is: facts[w.cmd], MayAct: !w.has("paused"), Reject: w.has("reject"), Bound: w.has("bound"), Reply: w.reply(),
		ChunkBytes: uint32(w.number("chunk", 65536)), OwnerGen: store.OwnerGen(w.number("own", 4)),
		SealedAt: clock.Mono(w.span("asked", time.Duration(now))), Failure: w.failure(), Err: w.err(),
	}
	switch e.Is {
	case 0:
		w.t.Fatalf("%q is no event of a source", w.cmd)
	case SourceReserved:
		e.Change = w.change(11, true)
	case SourcePrepared:
		if e.Failure == nil {
			e.Change = w.change(preparedVersion, true)
		}
	case SourceAborted:
		e.Change = w.change(12, false)
	case SourceRow:
		e.Row, e.Found = w.row(11, true)
	case SourceConfirmed:
		e.Row, e.Found = w.row(13, false)
	}
	return e
}

func sourceSays(s *Source) string {
	e, ok := s.Effect()
	switch {
	case !ok && s.state == sourceOver:
		return "over"
	case !ok:
		return "wait"
	}
	switch e.Do {
	case SourceAdmit:
		return "admit"
	case SourceReserve:
		r := &e.Reserve
		return fmt.Sprintf("reserve version %d of %d as op %d for %v, to %s:%d into %s%s", r.Version, r.ObjectGen, r.Op[15], r.Validity,
			r.TargetRID, r.TargetLifecycle, yes(r.InUserSpot, "user spot "), r.SpotID) + yes(r.SpotID == "", "no spot")
	case SourcePrepare:
		p := &e.Prepare
		return fmt.Sprintf("prepare version %d as op %d by %s", p.Version, p.Op[15], p.Asker.OwnerID)
	case SourcePermit:
		return "permit"
	case SourceSealSession:
		return "seal the session"
	case SourceCapture:
		return "capture"
	case SourceRestore:
		return fmt.Sprintf("restore version %d, try %d in chunks of %d", e.Row.Version, e.Try, e.ChunkBytes)
	case SourceRelay:
		return "relay"
	case SourceRead:
		return "read"
	case SourceAbort:
		a := &e.Abort
		return fmt.Sprintf("abort version %d as op %d by %s", a.Version, a.Op[15], a.Asker.OwnerID)
	case SourceSettle:
		return "settle"
	case SourceConfirm:
		return fmt.Sprintf("confirm, not version %d", e.Row.Version)
	case SourceEnd:
		return "end: " + e.End.says()
	}
	return fmt.Sprintf("step %d", e.Do)
}

func (e SourceEnded) says() string {
	out := ""
	switch e.Outcome {
	case SourceRejected:
		out = "rejected" + e.Reply.says()
	case SourceFailed:
		out = "failed, " + e.Failure.says()
	case SourceMoved:
		out = fmt.Sprintf("moved, owner generation %d", e.OwnerGen)
	case SourceLost:
		out = "lost, " + e.Failure.says()
	}
	out += yes(e.Prepared || e.Captured || e.Sealed, "; undo")
	out += yes(e.Elsewhere, "; it may be elsewhere")
	out += yes(e.Prepared, " preparation") + yes(e.Captured, " capture") + yes(e.Sealed, " seal") + yes(e.Doubt, "; in doubt")
	if e.Found {
		out += fmt.Sprintf("; version %d", e.Row.Version)
	}
	return out
}
