package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// The scripts of Targets. Each line is one event, and prints what the machine wants done
// next, when it is to be called at the latest, and how far it is.
//
//	target                                   a new Target
//	asked|restoring [deadline=d] [entry|spot] [wide] [quiet] [version=n] [gen=n] [own=n] [into=spot] [what=n] [another]
//	row [err=e] [the row, as in words.row]
//	decided [reject] [reply=text] [fail=kind] | assembled | broken fail=kind | staged [paused] [fail=kind]
//	relayed | cutover | off
//	committed|gave-up [reason=r] [err=e] [the row] | confirmed [fail=kind] [the row]
//	merged | joined [fail=kind] | completed [fail=kind] | stopping | tick
//
// req: RL-02 RL-03 RL-09 RL-12 RL-14 RL-16 RL-22
func TestTargetScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/target", func(t *testing.T, path string) {
		var now clock.Mono
		var m *Target
		script(t, path, func(w words) string {
			w.clock(&now, "target")
			if w.cmd == "target" {
				m = NewTarget(targetJob(), scriptTiming)
			} else {
				m.Step(now, targetEvent(w, now))
			}
			return targetSays(m) + until(m) + progressSays(m)
		})
	})
}

func targetJob() TargetJob {
	return TargetJob{Self: targetLease, From: Process{"s", 1}, CommitOp: commitOp, GiveUpOp: giveUpOp}
}

func targetEvent(w words, now clock.Mono) TargetEvent {
	facts := map[string]TargetFact{
		"tick": TargetTick, "asked": TargetAsked, "restoring": TargetRestoring, "row": TargetRow, "decided": TargetDecided,
		"assembled": TargetAssembled, "broken": TargetBroken, "staged": TargetStaged, "relayed": TargetRelayed,
		"cutover": TargetCutover, "off": TargetAborted, "committed": TargetCommitted, "gave-up": TargetGaveUp,
		"confirmed": TargetConfirmed, "merged": TargetMerged, "joined": TargetJoinedDone, "completed": TargetCompleted,
		"stopping": TargetStopping,
	}
	e := TargetEvent{
		Is: facts[w.cmd], Deadline: now.Add(w.span("deadline", 5*time.Second)), MayAct: !w.has("paused"), Reject: w.has("reject"),
		Reply: w.reply(), Failure: w.failure(), Err: w.err(),
	}
	switch e.Is {
	case 0:
		w.t.Fatalf("%q is no event of a target", w.cmd)
	case TargetAsked:
		e.Ask = Ask{Fence: fenceArg(w, 10), SpotID: "room", Request: [32]byte{byte(w.number("what", 1))}}
		if w.has("spot") {
			e.Ask.SpotID = ""
		}
	case TargetRestoring:
		e.Restore = restoreArg(w)
	case TargetRow:
		e.Row, e.Found = w.row(10, false)
	case TargetCommitted:
		e.Change = w.change(12, true)
	case TargetGaveUp:
		e.Change = w.change(13, false)
	case TargetConfirmed:
		e.Row, e.Found = w.row(12, false)
	}
	return e
}

func fenceArg(w words, version uint64) Fence {
	f := Fence{
		ID: "u", ObjectGen: store.ObjectGen(w.number("gen", uint64(unitGen))), OwnerGen: store.OwnerGen(w.number("own", uint64(ownerGen))),
		Version: store.Version(w.number("version", version)), Relocation: relocation, Attempt: 1,
	}
	if w.has("another") {
		f.Relocation[0] = 1
	}
	return f
}

func restoreArg(w words) Restore {
	f := fenceArg(w, 11)
	r := Restore{
		Move: store.MoveRef{
			ID: f.ID, ObjectGen: f.ObjectGen, Version: f.Version, Relocation: f.Relocation, Attempt: f.Attempt, Epoch: 1,
			SpotID: "home", MoveSpotID: "room",
		},
		OwnerGen: f.OwnerGen, SourceOwnerID: "s-1", SourceLease: 1, InUserSpot: !w.has("entry"), Asked: !w.has("entry"),
		Payload: Payload{Bytes: w.number("what", 100), Chunks: 1, CRC: 5},
	}
	if w.has("entry") {
		r.Move.MoveSpotID = "lobby"
	}
	if w.has("spot") {
		r.Move.MoveSpotID, r.InUserSpot = "", false
	}
	if r.Quiet = w.has("quiet"); w.has("wide") {
		r.Root[0] = 1
	}
	if into := w.args["into"]; into != "" {
		r.Move.MoveSpotID = spotID(into)
	}
	return r
}

func targetSays(m *Target) string {
	e, ok := m.Effect()
	switch {
	case !ok && m.state == targetOver:
		return "over"
	case !ok:
		return "wait"
	}
	switch e.Do {
	case TargetRead:
		return "read"
	case TargetAsk:
		return fmt.Sprintf("ask about the %s until %v", e.Row.Type, time.Duration(e.Deadline))
	case TargetAnswer:
		switch {
		case e.Failure != nil:
			return "answer: " + e.Failure.says()
		case e.Reject:
			return "answer: rejected" + e.Reply.says()
		}
		return "answer: accepted" + e.Reply.says()
	case TargetAssemble:
		return "assemble"
	case TargetStage:
		return "stage a " + e.Row.Type
	case TargetReady:
		return "say ready"
	case TargetRefuse:
		return yes(e.Unstage, "unstage and ") + "refuse: " + e.Failure.says()
	case TargetCommit:
		c := &e.Commit
		return fmt.Sprintf("commit version %d of %s:%d as op %d by %s", c.Version, c.SourceOwnerID, c.SourceLease, c.Op[15],
			c.Target.OwnerID) + yes(e.Fallback, ", without a cutover") + yes(c.Root != store.Digest{}, ", with an inventory")
	case TargetGiveUp:
		return fmt.Sprintf("give up version %d as op %d by %s", e.GiveUp.Version, e.GiveUp.Op[15], e.GiveUp.Asker.OwnerID)
	case TargetConfirm:
		return fmt.Sprintf("confirm version %d of epoch %d", e.Row.Version, e.Row.Epoch)
	case TargetMerge:
		return fmt.Sprintf("merge, version %d", e.Row.Version)
	case TargetJoined:
		return fmt.Sprintf("joined, tried until %v", time.Duration(e.Deadline))
	case TargetComplete:
		return fmt.Sprintf("complete, tried until %v", time.Duration(e.Deadline))
	case TargetEnd:
		switch e.Outcome {
		case TargetDropped:
			return "drop, with " + e.Failure.says()
		case TargetOpened:
			return fmt.Sprintf("open, version %d", e.Row.Version)
		case TargetStuck:
			return "stuck, with " + e.Failure.says()
		}
	}
	return fmt.Sprintf("step %d", e.Do)
}

func progressSays(m *Target) string {
	names := [...]string{ProgressAssembling: "assembling", ProgressReady: "ready", ProgressCommitted: "committed", ProgressGone: "gone"}
	return " [" + names[m.Progress()] + yes(m.Committing(), ", not to be replaced") + "]"
}
