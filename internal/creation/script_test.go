package creation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

var timing = Timing{Wait: 2 * time.Millisecond, WaitMax: 100 * time.Millisecond, Settle: 500 * time.Millisecond, Nudge: 300 * time.Millisecond}

// The scripts of the two machines. Each command is an event; what the machine does about
// it is printed, and when it wants to be woken. Times are of a clock that begins at 0.
//
//	source [kind=] [type=] [get] [deadline=]   a new Source
//	target [row] [kind=] [deadline=]           a new Target; row: this process has reserved
//	chosen <rid> | chosen none=<kind>          chosen takes op 1, 2, 3 …
//	reserved | cancelled | row | finished [reason=] [err=] and a row:
//	    [state= gen= version= type= kind= rid= lease= op=]; without state there is none
//	recalled [result=] [gen=] [err=]
//	answered result= [gen=] [why=] | answered kind= | answered err=
//	begun [away] [here] [kind=] | entered [kind=]
//	staged [reject] [reply=] [kind=] | published [no] | confirmed [kind=]
//	tick | abandoned
//
// All take at=<duration>; the time stands still otherwise.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/create", func(t *testing.T, path string) {
		var s script
		datadriven.RunTest(t, path, s.run)
	})
}

type script struct {
	now    clock.Mono
	source *Source
	target *Target
	ops    byte
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	var at string
	if d.MaybeScanArgs(t, "at", &at) {
		s.now = clock.Mono(duration(t, at))
	}
	switch d.Cmd {
	case "source":
		s.target, s.ops = nil, 0
		s.source = NewSource(Call{
			Kind: kindArg(t, d), ID: "a", Type: word(t, d, "type", "player"), Get: d.HasArg("get"),
			Deadline: clock.Mono(duration(t, word(t, d, "deadline", "5s"))),
		}, timing)
	case "target":
		s.source = nil
		job := Job{
			ID: "a", Kind: kindArg(t, d), Type: "player", ObjGen: 1, Version: 1, Op: opKey(1),
			Deadline: clock.Mono(duration(t, word(t, d, "deadline", "5s"))),
		}
		if d.HasArg("row") {
			job.Row = &store.Authority{ID: "a", Kind: job.Kind, Type: "player", State: store.Creating, ObjectGen: 1, Version: 1, RID: "n1", LeaseGen: 7, Create: &store.Creation{Op: opKey(1)}}
		}
		s.target = NewTarget(job, Self{RID: "n1", Mesh: "main", OwnerID: "me", LeaseGen: 7, EntryID: "entry"}, timing)
	default:
		if s.source != nil {
			s.source.Step(s.now, s.sourceEvent(t, d))
		} else {
			s.target.Step(s.now, s.targetEvent(t, d))
		}
	}
	if s.source != nil {
		return s.reaction(describeSource(s.source), s.source)
	}
	return s.reaction(describeTarget(s.target), s.target)
}

func (s *script) sourceEvent(t *testing.T, d *datadriven.TestData) SourceEvent {
	e := SourceEvent{Err: errArg(t, d)}
	switch d.Cmd {
	case "tick":
		e.Is = SourceTick
	case "abandoned":
		e.Is = SourceAbandoned
	case "chosen":
		e.Is, e.Failure = SourceChosen, failureArg(t, d, "none")
		if e.Failure == nil {
			s.ops++
			e.Place, e.Op = Place{RID: d.CmdArgs[0].Key, Mesh: "main", Lifecycle: 7}, opKey(s.ops)
		}
	case "reserved":
		e.Is = SourceReserved
		e.Change = changeArg(t, d)
	case "row":
		e.Is = SourceRow
		e.Row, e.Found = rowArg(t, d)
	case "cancelled":
		e.Is = SourceCancelled
	case "recalled":
		e.Is = SourceRecalled
		e.Terminal, e.Found = terminalArg(t, d)
	case "answered":
		e.Is, e.Failure = SourceAnswered, failureArg(t, d, "kind")
		if e.Err != nil {
			e.Failure = &Failure{Err: e.Err}
		}
		e.Result.Terminal, _ = terminalArg(t, d)
		e.Result.Owner.RID, e.Result.Owner.LeaseGen = "n1", 7
	default:
		t.Fatalf("%s: a source knows no %s", d.Pos, d.Cmd)
	}
	return e
}

func (s *script) targetEvent(t *testing.T, d *datadriven.TestData) TargetEvent {
	e := TargetEvent{Err: errArg(t, d), Failure: failureArg(t, d, "kind")}
	switch d.Cmd {
	case "tick":
		e.Is = TargetTick
	case "begun":
		e.Is, e.MayAct, e.Here = TargetBegun, !d.HasArg("away"), d.HasArg("here")
	case "entered":
		e.Is = TargetEntered
	case "row":
		e.Is, e.Failure = TargetRow, nil
		e.Row, e.Found = rowArg(t, d)
	case "staged":
		e.Is, e.Reject, e.Reply = TargetStaged, d.HasArg("reject"), []byte(word(t, d, "reply", ""))
	case "published":
		e.Is, e.Done = TargetPublished, !d.HasArg("no")
	case "finished":
		e.Is, e.Failure = TargetFinished, nil
		e.Change = changeArg(t, d)
	case "confirmed":
		e.Is = TargetConfirmed
	case "recalled":
		e.Is = TargetRecalled
		e.Terminal, e.Found = terminalArg(t, d)
	default:
		t.Fatalf("%s: a target knows no %s", d.Pos, d.Cmd)
	}
	return e
}

// reaction prints what a machine does, and when it wants to be woken.
func (s *script) reaction(did string, m interface{ NextDeadline() (clock.Mono, bool) }) string {
	if at, armed := m.NextDeadline(); armed {
		did += fmt.Sprintf("wakes at %v\n", time.Duration(at))
	}
	if did == "" {
		did = "nothing\n"
	}
	return did
}

func describeSource(s *Source) string {
	e, ok := s.Effect()
	if !ok {
		return ""
	}
	switch e.Do {
	case SourceChoose:
		var out []string
		for rid := range e.Excluded {
			out = append(out, rid)
		}
		slices.Sort(out)
		return fmt.Sprintf("choose%s\n", prefixed(" but ", strings.Join(out, ",")))
	case SourceReserve:
		return fmt.Sprintf("reserve at %s as op %d\n", e.Place.RID, e.Op.Op[0])
	case SourceRead:
		return "read\n"
	case SourceRecall:
		return fmt.Sprintf("recall op %d\n", e.Op.Op[0])
	case SourceRun:
		return fmt.Sprintf("run gen %d at %s\n", e.Row.ObjectGen, e.Row.RID)
	case SourceCancel:
		return fmt.Sprintf("cancel gen %d of %s\n", e.Row.ObjectGen, e.Row.RID)
	case SourceNudge:
		return fmt.Sprintf("nudge %s\n", e.Row.RID)
	default:
		names := map[SourceOutcome]string{Failed: "failed", Created: "created", Existing: "existing", Rejected: "rejected", TimedOut: "timed out", OutOfHold: "timed out in the hold"}
		switch r := &e.End; {
		case r.Failure != nil:
			return "end: failed: " + describe(r.Failure)
		case r.Outcome == Existing:
			return fmt.Sprintf("end: existing gen %d at %s\n", r.Row.ObjectGen, r.Row.RID)
		case r.Outcome == Failed:
			return fmt.Sprintf("end: failed at the target with %v\n", errkind.Kind(r.Result.FailKind))
		case r.Outcome == Created:
			return fmt.Sprintf("end: created gen %d at %s of %d\n", r.Result.Owner.ObjectGen, r.Result.Owner.RID, r.Result.Owner.LeaseGen)
		default:
			return "end: " + names[r.Outcome] + "\n"
		}
	}
}

func describeTarget(t *Target) string {
	e, ok := t.Effect()
	if !ok {
		return ""
	}
	switch e.Do {
	case TargetEnter:
		return "enter\n"
	case TargetRead:
		return "read\n"
	case TargetStage:
		return fmt.Sprintf("stage gen %d\n", e.Row.ObjectGen)
	case TargetPublish:
		return "publish\n"
	case TargetFinish:
		f := &e.Finish
		return fmt.Sprintf("finish %v%s op %d of %s, gen %d version %d%s\n", f.Result, failKind(f.Result, f.FailKind),
			f.Op.Op[0], f.Op.SourceRID, f.ObjectGen, f.Version, prefixed(" in ", f.SpotID))
	case TargetConfirm:
		return fmt.Sprintf("confirm version %d\n", e.Row.Version)
	case TargetRecall:
		return fmt.Sprintf("recall op %d\n", e.Op.Op[0])
	default:
		if e.Failure != nil {
			return "end: " + describe(e.Failure)
		}
		open := ""
		if e.Open {
			open = fmt.Sprintf(", open version %d", e.Row.Version)
		}
		return fmt.Sprintf("end: %v%s gen %d at %s%s%s\n", e.Result.Terminal.Result, failKind(e.Result.Terminal.Result, e.Result.FailKind),
			e.Result.ObjectGen, e.Result.Owner.RID, prefixed(" reply ", string(e.Result.Reply)), open)
	}
}

func describe(f *Failure) string {
	if f.Err != nil {
		return f.Err.Error() + "\n"
	}
	return fmt.Sprintf("%v%s\n", f.Kind, prefixed(": ", f.Text))
}

func failKind(r store.Result, kind uint8) string {
	if r != store.Failed {
		return ""
	}
	return " " + errkind.Kind(kind).String()
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}
