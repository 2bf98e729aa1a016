package creation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// scriptTiming doubles from 10 ms to 40 ms, or to 80 ms.
var scriptTiming = Timing{Wait: 10 * time.Millisecond, WaitMax: 40 * time.Millisecond, Settle: 80 * time.Millisecond}

// The scripts of messages to Instance Spots. Each line is one event, and prints what the
// machine wants done next and when it is to be called at the latest. The process is me:1,
// whose owner id is "me-1".
//
//	intent type=t deadline=d                 a new Intent; type= for none
//	activation deadline=d                    a new Activation
//	row [missing] [err=e] [state=creating|ready] [pending] [of=rid:lifecycle] [dead] [kind=k] [type=t]
//	chosen rid:lifecycle | chosen fail=kind
//	taken | refused fail=kind [full] [elsewhere] | unreached fail=kind | cancelled | abandoned
//	entered op=n | entered fail=kind [full]
//	reserved|finished|advanced|removed reason=r|err=e [op=n] [epoch=n] [the row, as in row]
//	staged [fail=kind] | confirmed [version=n] [epoch=n] [fail=kind] | stopped | tick
//
// All take at=d; the time stands still otherwise.
//
// req: FO-01 FO-12
func TestInstanceScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/instance", func(t *testing.T, path string) {
		s := &instanceScript{t: t}
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Cmd + " " + words(d) + "\n" + d.Input) {
				if line = strings.TrimSpace(line); line != "" {
					fmt.Fprintln(&out, s.run(line))
				}
			}
			return out.String()
		})
	})
}

func words(d *datadriven.TestData) string {
	var all []string
	for _, a := range d.CmdArgs {
		all = append(all, a.String())
	}
	return strings.Join(all, " ")
}

type instanceScript struct {
	t          *testing.T
	now        clock.Mono
	intent     *Intent
	activation *Activation
	args       map[string]string
	plain      []string
}

func (s *instanceScript) run(line string) string {
	fields := strings.Fields(line)
	s.args, s.plain = map[string]string{}, nil
	for _, f := range fields[1:] {
		if key, value, ok := strings.Cut(f, "="); ok {
			s.args[key] = value
		} else {
			s.plain = append(s.plain, f)
		}
	}
	if at := s.args["at"]; at != "" {
		s.now = clock.Mono(s.span(at))
	}
	switch cmd := fields[0]; cmd {
	case "intent":
		s.intent, s.activation = NewIntent(IntentCall{ID: "spot", Type: s.args["type"], Deadline: s.deadline()}, scriptTiming), nil
	case "activation":
		s.intent = nil
		s.activation = NewActivation(ActivationCall{ID: "spot", Deadline: s.deadline(), Self: store.Lease{RID: "me", OwnerID: "me-1", Gen: 1}}, scriptTiming)
	default:
		if s.intent != nil {
			s.intent.Step(s.now, s.intentEvent(cmd))
		} else {
			s.activation.Step(s.now, s.activationEvent(cmd))
		}
	}
	if s.intent != nil {
		return s.intentSays()
	}
	return s.activationSays()
}

func (s *instanceScript) has(word string) bool { return slices.Contains(s.plain, word) }

func (s *instanceScript) span(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *instanceScript) deadline() clock.Mono { return s.now.Add(s.span(s.args["deadline"])) }

func (s *instanceScript) number(key string, otherwise uint64) uint64 {
	text := s.args[key]
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *instanceScript) op() store.OperationKey {
	return store.OperationKey{SourceRID: "me", SourceLifecycle: 1, Op: store.OpID{15: byte(s.number("op", 0))}}
}

func (s *instanceScript) failure() *Failure {
	text, ok := s.args["fail"]
	if !ok {
		return nil
	}
	for k := range errkind.Kind(errkind.Count) {
		if k.String() == text {
			return &Failure{Kind: k, Text: "because"}
		}
	}
	s.t.Fatalf("%q is no kind", text)
	return nil
}

func (s *instanceScript) err() error {
	switch text := s.args["err"]; text {
	case "":
		return nil
	case "unknown":
		return store.ErrUnknown
	case "unavailable":
		return store.ErrUnavailable
	case "invalid":
		return store.ErrInvalid
	default:
		s.t.Fatalf("%q is no error", text)
		return nil
	}
}

func (s *instanceScript) node(text string) IntentNode {
	rid, gen, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(gen, 10, 64)
	if err != nil {
		s.t.Fatalf("%q is no node: %v", text, err)
	}
	return IntentNode{RID: rid, Lifecycle: store.LeaseGen(n)}
}

// row is there if it has a state.
func (s *instanceScript) row() (row store.Authority, found bool) {
	states := map[string]store.State{"creating": store.Creating, "ready": store.Ready}
	kinds := map[string]store.Kind{"": store.InstanceSpot, "actor": store.Actor, "user": store.UserSpot}
	state, found := states[s.args["state"]]
	if !found {
		return row, false
	}
	of := "me:1"
	if s.args["of"] != "" {
		of = s.args["of"]
	}
	owner, typ := s.node(of), s.args["type"]
	if typ == "" {
		typ = "room"
	}
	row = store.Authority{
		ID: "spot", Kind: kinds[s.args["kind"]], Type: typ, State: state, ObjectGen: store.ObjectGen(s.number("gen", 7)),
		Version: store.Version(s.number("version", 1)), RID: owner.RID, LeaseGen: owner.Lifecycle,
		OwnerID: fmt.Sprintf("%s-%d", owner.RID, owner.Lifecycle), LeaseLeft: time.Second,
		FirstPending: s.has("pending"), Epoch: store.Epoch(s.number("epoch", 1)),
	}
	if s.has("dead") {
		row.LeaseLeft = 0
	}
	if state == store.Creating {
		row.Create = &store.Creation{Op: s.op()}
	}
	return row, true
}

func (s *instanceScript) intentEvent(cmd string) IntentEvent {
	facts := map[string]IntentFact{
		"tick": IntentTick, "row": IntentRow, "chosen": IntentChosen, "taken": IntentTaken, "refused": IntentRefused,
		"unreached": IntentUnreached, "cancelled": IntentCancelled, "abandoned": IntentAbandoned,
	}
	e := IntentEvent{Is: facts[cmd], Failure: s.failure(), Err: s.err(), Full: s.has("full"), Elsewhere: s.has("elsewhere")}
	if e.Is == 0 {
		s.t.Fatalf("%q is no event of an intent", cmd)
	}
	if e.Is == IntentChosen && e.Failure == nil {
		e.To = s.node(s.plain[0])
	}
	e.Row, e.Found = s.row()
	return e
}

func (s *instanceScript) activationEvent(cmd string) ActivationEvent {
	facts := map[string]ActivationFact{
		"tick": ActivationTick, "entered": ActivationEntered, "reserved": ActivationReserved, "removed": ActivationRemoved,
		"staged": ActivationStaged, "finished": ActivationFinished, "advanced": ActivationAdvanced,
		"confirmed": ActivationConfirmed, "stopped": ActivationStopped,
	}
	e := ActivationEvent{Is: facts[cmd], Op: s.op(), Failure: s.failure(), Err: s.err(), Full: s.has("full")}
	if e.Is == 0 {
		s.t.Fatalf("%q is no event of an activation", cmd)
	}
	if e.Is == ActivationConfirmed {
		s.args["state"] = "ready"
	}
	e.Row, _ = s.row()
	e.Change.Record, e.Change.Found = s.row()
	e.Change.Epoch = store.Epoch(s.number("epoch", 1))
	if text := s.args["reason"]; text != "" {
		r, known := store.ParseReason(text)
		if !known {
			s.t.Fatalf("%q is no reason", text)
		}
		e.Change.Reason = r
	}
	return e
}

func (f *Failure) says() string {
	switch {
	case f == nil:
		return "what was answered"
	case f.Err != nil:
		return f.Err.Error()
	}
	return fmt.Sprintf("%v: %s", f.Kind, f.Text)
}

func until(at clock.Mono, ok bool) string {
	if !ok {
		return ""
	}
	return fmt.Sprintf("; until %v", time.Duration(at))
}

func (s *instanceScript) intentSays() string {
	e, ok := s.intent.Effect()
	out := "wait"
	switch {
	case !ok && s.intent.state == intentOver:
		return "over"
	case !ok:
	case e.Do == IntentRead:
		out = "read"
	case e.Do == IntentChoose:
		var not []string
		for rid := range e.Excluded {
			not = append(not, rid)
		}
		slices.Sort(not)
		out = fmt.Sprintf("choose, not %v", not)
	case e.Do == IntentSubmit:
		out = fmt.Sprintf("submit to %s:%d", e.To.RID, e.To.Lifecycle)
		if e.Ready {
			out = fmt.Sprintf("deliver to %s:%d", e.To.RID, e.To.Lifecycle)
		}
	case e.Do == IntentCancel:
		out = fmt.Sprintf("cancel generation %d version %d", e.Row.ObjectGen, e.Row.Version)
	case e.Do == IntentEnd:
		out = "end with " + e.Failure.says()
	}
	return out + until(s.intent.NextDeadline())
}

func (s *instanceScript) activationSays() string {
	e, ok := s.activation.Effect()
	out := "wait"
	switch {
	case !ok && s.activation.state == activationOver:
		return "over"
	case !ok:
	case e.Do == ActivationEnter:
		out = "enter"
	case e.Do == ActivationReserve:
		out = fmt.Sprintf("reserve with op %d", e.Op.Op[15])
	case e.Do == ActivationRemove:
		out = fmt.Sprintf("remove op %d, version %d, as %v", e.Finish.Op.Op[15], e.Finish.Version, errkind.Kind(e.Finish.FailKind))
	case e.Do == ActivationStage:
		out = fmt.Sprintf("stage generation %d", e.Row.ObjectGen)
	case e.Do == ActivationFinish && e.Finish.Result == store.Created:
		out = fmt.Sprintf("finish op %d as created, version %d", e.Finish.Op.Op[15], e.Finish.Version)
	case e.Do == ActivationFinish:
		out = fmt.Sprintf("finish op %d as failed with %v, version %d", e.Finish.Op.Op[15], errkind.Kind(e.Finish.FailKind), e.Finish.Version)
	case e.Do == ActivationAdvance:
		out = fmt.Sprintf("advance with op %d, version %d", e.Op.Op[15], e.Fence.Version)
	case e.Do == ActivationConfirm:
		out = fmt.Sprintf("confirm version %d of epoch %d", e.Row.Version, e.Row.Epoch)
	case e.Do == ActivationOpen:
		out = fmt.Sprintf("open, version %d", e.Row.Version)
	case e.Do == ActivationEnd:
		out = fmt.Sprintf("end, return %s, with %s", [...]string{ReturnNone: "none", ReturnRest: "rest", ReturnAll: "all"}[e.Return], e.Failure.says())
		if e.Full {
			out += " (full)"
		}
		if e.Elsewhere {
			out += " (elsewhere)"
		}
	}
	return out + until(s.activation.NextDeadline())
}
