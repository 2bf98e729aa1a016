package host

import (
	"fmt"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

type phase uint8

const (
	looking    phase = iota + 1
	lookLost         // waits until it looks again, as the Store did not answer
	lacking          // waits for other nodes
	announcing       // that the node is Relocating
	settling
	settled // waits for the end of the operation before, which trails
	taking
	moving
	concluding // the result is known, and the Store is told the state
	trailing   // it is over for its callers; see the package's doc
	over
)

// operation is one relocation.
type operation struct {
	host            *Host
	number          uint64
	request         Request
	began, deadline clock.Mono
	phase           phase
	overdue         bool       // the deadline is behind
	wake            clock.Mono // when something is to be tried again
	text            string     // what it waits for
	targets         *targets
	result          Result // from concluding on

	inventory
}

func newOperation(h *Host, number uint64, now clock.Mono, r Request) *operation {
	return &operation{
		host: h, number: number, request: r, began: now, deadline: now.Add(r.Timeout), wake: clock.Never, targets: newTargets(h.self, r),
	}
}

func (o *operation) do(what Do) { o.host.do(Effect{Do: what, Op: o.number}) }

func (o *operation) look() {
	o.phase, o.wake = looking, clock.Never
	o.do(DoLook)
}

func (o *operation) nextDeadline() clock.Mono {
	if o.overdue {
		return o.wake
	}
	return min(o.wake, o.deadline)
}

func (o *operation) tick(now clock.Mono) {
	if now.Reached(o.deadline) && !o.overdue {
		o.overdue = true
		if o.late(now); o.phase == over {
			return
		}
	}
	if !now.Reached(o.wake) {
		return
	}
	if o.wake = clock.Never; o.phase == lookLost {
		o.look()
		return
	}
	o.advance(now)
}

// late is for an operation that has come to its deadline.
func (o *operation) late(now clock.Mono) {
	switch o.phase {
	case looking, lookLost:
		o.endAtOnce(blocked(StoreUnavailable, because("the Store did not answer in time", o.text)))
	case lacking:
		o.endAtOnce(blocked(TargetUnavailable, o.text))
	case announcing:
		o.conclude(store.Serving, blocked(StoreUnavailable, because("the Store was not told in time that the node is relocating", o.text)))
	case settling, settled:
		text := o.text
		if tail := o.host.tail; o.phase == settled && tail != nil && len(tail.blocked) > 0 {
			b := &tail.blocked[0]
			text = fmt.Sprintf("a relocation before waits for %v %q: %s", b.Kind, b.ID, b.Text)
		}
		o.conclude(store.Serving, blocked(DeadlineExceeded, because("what was under way at the node did not end in time", text)))
	case taking:
		o.conclude(store.Serving, blocked(DeadlineExceeded, "there was no time left to move anything"))
	case moving:
		if o.failure == nil && o.lacks != "" && o.flying == 0 {
			o.stop(blocked(TargetUnavailable, o.lacks))
		} else if o.failure == nil {
			o.stop(blocked(DeadlineExceeded, fmt.Sprintf("%d of %d units have left in time", o.gone(), len(o.units))))
		}
		o.advance(now)
	case concluding:
		o.finish()
	case trailing, over:
	}
}

func because(what, detail string) string {
	if detail == "" {
		return what
	}
	return what + ": " + detail
}

// step takes what concerns the operation alone.
func (o *operation) step(now clock.Mono, e *Event) {
	switch {
	case e.Is == CutOver && o.at(e.Unit) == flies:
		o.cutOver(now, e.Unit)
		o.advance(now)
	case e.Is == UnitEnded && (o.at(e.Unit) == flies || o.at(e.Unit) == cut):
		o.unitEnded(now, e)
		o.advance(now)
	case e.Is == Looked && o.phase == looking:
		o.looked(now, e)
	case e.Is == Waits && o.phase == settling:
		o.text = e.Failure
	case e.Is == Settled && o.phase == settling:
		o.phase = settled
		o.take()
	case e.Is == Taken && o.phase == taking:
		o.taken(now, e.Units)
	}
}

func (o *operation) looked(now clock.Mono, e *Event) {
	o.list(now, e.Nodes)
	switch {
	case e.Manual:
		o.endAtOnce(blocked(ManualTopologyUnsupported, "the mesh of its objects has peers that are configured by hand, so not all of it is known"))
	case e.Failure != "":
		o.phase, o.text, o.wake = lookLost, e.Failure, now.Add(o.host.timing.WaitMax)
	case len(e.Fixed) > 0:
		for i := range e.Fixed {
			o.note(&e.Fixed[i], RelocationDisabled, fixedText)
		}
		o.endAtOnce(o.disabled(&e.Fixed[0]))
	default:
		if o.text = o.targets.lacks(e.Loads); o.text != "" {
			o.phase = lacking
			return
		}
		o.phase = announcing
		o.host.become(store.Relocating)
	}
}

const fixedText = "its type, or a member's, is registered with DisableRelocation"

func (o *operation) disabled(u *Unit) Result {
	return blocked(RelocationDisabled, fmt.Sprintf("%v %q: %s", u.Kind, u.ID, fixedText))
}

// list takes a newer list of nodes.
func (o *operation) list(now clock.Mono, nodes []Node) {
	o.targets.list(nodes)
	if o.phase == lacking {
		o.look()
		return
	}
	o.advance(now)
}

func (o *operation) published(failure string) {
	switch {
	case o.phase == announcing && failure != "":
		o.text = failure
	case o.phase == announcing:
		o.phase, o.text = settling, ""
		o.do(DoSettle)
	case o.phase == concluding: // also if the Store did not take it: it is told again, and nobody waits for that
		o.finish()
	}
}

// take goes on behind what was under way, and behind an operation that trails.
func (o *operation) take() {
	if o.phase == settled && o.host.tail == nil {
		o.phase = taking
		o.do(DoTake)
	}
}

func (o *operation) taken(now clock.Mono, units []Unit) {
	o.fill(units)
	o.phase, o.moves = moving, now
	for i := range units {
		if u := &units[i]; u.Fixed { // it came after the look
			o.note(u, RelocationDisabled, fixedText)
			if o.failure == nil {
				o.stop(o.disabled(u))
			}
		}
	}
	o.advance(now)
}

// conclude gives the operation its result, once the Store was told the state that follows, or
// behind the deadline at once: then it is told while nobody waits.
func (o *operation) conclude(s store.HostState, r Result) {
	o.phase, o.wake, o.result = concluding, clock.Never, r
	if r.Outcome == Relocated {
		o.host.first = r
	}
	if o.host.become(s); o.overdue {
		o.finish()
	}
}

// endAtOnce is for one that has changed nothing.
func (o *operation) endAtOnce(r Result) {
	o.result = r
	o.finish()
}

func (o *operation) finish() {
	h := o.host
	h.op = nil
	h.do(Effect{Do: DoEnd, Op: o.number, Result: o.result})
	if o.phase == concluding && h.state == store.Serving && o.runsOn() {
		o.phase, h.tail = trailing, o
		return
	}
	o.phase = over
}

// advance begins what can begin, and ends what can end.
func (o *operation) advance(now clock.Mono) {
	switch o.phase {
	case moving:
		o.advanceBatch(now)
	case trailing:
		if !o.runsOn() {
			o.phase, o.host.tail = over, nil
			if next := o.host.op; next != nil {
				next.take()
			}
		}
	default:
	}
	switch o.phase {
	case moving, concluding, trailing:
		o.want(now)
	default:
	}
}

func (o *operation) advanceBatch(now clock.Mono) {
	for o.failure == nil && o.batchOver() {
		if o.batch++; o.batch == batches {
			o.conclude(store.Relocated, Result{})
			return
		}
		o.line()
	}
	if o.failure != nil && o.flyingAlone == 0 && (now.Reached(o.deadline) || !o.runsOn()) {
		o.conclude(store.Serving, *o.failure)
	}
}

// want asks for a permit if there is a unit for it.
func (o *operation) want(now clock.Mono) {
	if o.asked || !now.Reached(o.permitAt) {
		return
	}
	if _, _, ok := o.pick(now); !ok {
		return
	}
	if opens, ok := o.flights.room(now, o.flying); !ok {
		o.wake = min(o.wake, opens)
		return
	}
	o.asked = true
	o.do(DoPermit)
}

// permitted begins the next unit. It is false if there is none for the permit.
func (o *operation) permitted(now clock.Mono, e *Event) (used bool) {
	o.asked = false
	running := o.phase == moving || o.phase == concluding || o.phase == trailing
	switch {
	case !running:
		return false
	case e.Failure != "":
		o.permitAt = now.Add(o.host.timing.WaitMax)
		o.wake = min(o.wake, o.permitAt)
		return false
	}
	line, to, ok := o.pick(now)
	if ok {
		o.begin(now, line, to)
	}
	o.advance(now)
	return ok
}

// pick returns the next unit's line and where it goes.
func (o *operation) pick(now clock.Mono) (line int, to Process, ok bool) {
	o.lacks = ""
	for i := range o.lines {
		l := o.lines[i]
		if !now.Reached(l.notBefore) {
			o.wake = min(o.wake, l.notBefore)
			continue
		}
		u := &o.units[l.units[0]]
		if u.Shell != NoShell {
			return i, o.units[u.Shell].to, true
		}
		at, why := o.targets.choose(now, u.Needs)
		if at >= 0 {
			return i, processOf(&o.targets.nodes[at].Descriptor), true
		}
		o.lacks = fmt.Sprintf("%v %q: %s", u.Kind, u.ID, why)
	}
	if at, soon := o.targets.unshun(now); soon {
		o.wake = min(o.wake, at)
	}
	return 0, Process{}, false
}

// begin moves the first unit of the line.
func (o *operation) begin(now clock.Mono, line int, to Process) {
	at := o.next(line)
	until := o.deadline
	if now.Reached(until) { // it runs on
		until = now.Add(o.request.Timeout)
	}
	u := o.fly(at, to)
	if u.Shell == NoShell {
		o.targets.sendTo(to, u.Needs)
	}
	o.host.do(Effect{Do: DoMove, Op: o.number, Unit: at, Moves: u.Unit, To: to, Until: until})
}
