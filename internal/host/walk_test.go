package host

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// This file walks every order of events that a node may take to its Host, and keeps books of its
// own of what was told and asked.

var (
	self   = Self{RID: "a", Mesh: "main", Version: "1.0.0"}
	brief  = Timing{Wait: 1, WaitMax: 1, Shun: 1}
	actors = Part{Kind: store.Actor, Type: "player", Policy: 3}
	rooms  = Part{Kind: store.UserSpot, Type: "room", Policy: 2}
	arenas = Part{Kind: store.UserSpot, Type: "arena", Wide: true, Policy: 3}
)

// nodeNamed is a target for everything in these tests.
func nodeNamed(rid string) Node {
	return Node{Linked: true, Descriptor: store.Descriptor{
		RID: rid, Lifecycle: 7, Mesh: "main", Role: store.RoleServer, State: store.Serving, Weight: 100, AppVersion: "1.0.0", LeaseLeft: 1,
		ActorTypes: []string{"player"}, ActorPolicies: map[string]uint8{"player": 3},
		SpotTypes: []store.SpotType{{Type: "arena", Kind: store.UserSpot, Wide: true, Policy: 3}, {Type: "room", Kind: store.UserSpot, Policy: 2}},
	}}
}

func unitOf(kind UnitKind, p Part, shell int) Unit {
	return Unit{Kind: kind, ID: fmt.Sprint(p.Type, "-", shell), Needs: []Load{{p, 1}}, Shell: shell}
}

// lostBehind is of a unit that was lost behind its cutover.
const lostBehind = lost + 1

// walked is a Host with the books of its shell.
type walked struct {
	now clock.Mono
	h   *Host
	book
}

type book struct {
	looks, settles, takes [3]bool // under way, by operation
	publishing            bool
	says, told            store.HostState // what it is told, and the last that it took
	permits               [3]int          // asked for
	held                  int             // and not given away
	units                 [3][3]unitAt    // by operation
	ended                 [3]bool
	refused               [3][3]bool // at this moment
	blocked               bool       // the running operation has seen a failure
	asks                  int
}

func (w *walked) clone() *walked {
	c := *w
	h := *w.h
	c.h = &h
	h.effects = slices.Clone(h.effects)
	copies := map[*operation]*operation{}
	for _, o := range []**operation{&h.op, &h.tail, &h.last} {
		if *o == nil {
			continue
		}
		if copies[*o] == nil {
			n := **o
			n.host = &h
			t := *n.targets
			t.sent, t.shunned, t.hurdles = map[Process]*sent{}, maps.Clone(t.shunned), map[Part][]hurdle{}
			for to, s := range n.targets.sent {
				v := *s
				t.sent[to] = &v
			}
			n.targets = &t
			n.units, n.blocked = slices.Clone(n.units), slices.Clone(n.blocked)
			n.lines, n.queues = slices.Clone(n.lines), map[lineKey]*line{}
			for i, l := range n.lines {
				v := *l
				v.units = slices.Clone(v.units)
				n.lines[i], n.queues[v.lineKey] = &v, &v
			}
			copies[*o] = &n
		}
		*o = copies[*o]
	}
	return &c
}

// key is all that a Host goes by, as far as that matters.
func (w *walked) key() string {
	ahead := func(at clock.Mono) clock.Mono {
		if at == clock.Never {
			return -2
		}
		return max(at-w.now, -1)
	}
	s := fmt.Sprint(w.book, w.h.state, w.h.news.busy, w.h.news.again, ahead(w.h.news.wake))
	for _, o := range []*operation{w.h.op, w.h.tail} {
		if o == nil {
			s += " none"
			continue
		}
		s += fmt.Sprint(" ", o.number, o.phase, ahead(o.deadline), ahead(o.wake), o.overdue, len(o.targets.nodes), ahead(o.targets.shunned[Process{"t", 7}]),
			o.batch, o.failure != nil, o.asked, ahead(o.permitAt), o.lacks != "", o.result.Outcome)
		for _, u := range o.units {
			s += fmt.Sprint(u.at, u.noted)
		}
		for _, l := range o.lines {
			s += fmt.Sprint(l.units, ahead(l.notBefore))
		}
	}
	return s
}

// take does what the Host wants, and says what of that breaks a law.
func (w *walked) take(units []Unit, e Event) error {
	before := w.held
	if e.Is == Permitted && e.Failure == "" {
		w.held++
	}
	w.h.Step(w.now, e)
	if err := w.effects(units); err != nil {
		return err
	}
	if w.held != before {
		return fmt.Errorf("%d permits are neither used nor given back", w.held-before)
	}
	return w.rest(units)
}

func (w *walked) effects(units []Unit) error {
	for _, e := range w.h.Effects(nil) {
		switch e.Do {
		case DoLook:
			w.looks[e.Op] = true
		case DoPublish:
			if w.publishing {
				return fmt.Errorf("two publications at once")
			}
			w.publishing, w.says = true, w.h.state
		case DoSettle:
			if w.told != store.Relocating {
				return fmt.Errorf("it settles while the Store has it %v", w.told)
			}
			w.settles[e.Op] = true
		case DoTake:
			if w.h.tail != nil {
				return fmt.Errorf("it takes the inventory while another operation trails")
			}
			w.takes[e.Op] = true
		case DoPermit:
			if w.permits[e.Op]++; w.permits[e.Op] > 1 {
				return fmt.Errorf("two permits at once")
			}
		case DoRelease:
			w.held--
		case DoMove:
			if err := w.moves(units, &e); err != nil {
				return err
			}
		case DoEnd:
			if err := w.ends(units, &e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walked) moves(units []Unit, e *Effect) error {
	at := &w.units[e.Op]
	w.held--
	u := &units[e.Unit]
	running := w.h.op != nil && w.h.op.number == e.Op
	switch {
	case w.held < 0:
		return fmt.Errorf("unit %d is moved without a permit", e.Unit)
	case at[e.Unit] != waits:
		return fmt.Errorf("unit %d is moved in state %d", e.Unit, at[e.Unit])
	case u.Shell != NoShell && (at[u.Shell] != left || e.To != Process{"t", 7}):
		return fmt.Errorf("member %d goes to %v while its Spot is in %d", e.Unit, e.To, at[u.Shell])
	case u.Shell == NoShell && (w.blocked || !running || w.now.Reached(w.h.op.deadline)):
		return fmt.Errorf("unit %d begins behind a failure or the deadline", e.Unit)
	case w.refused[e.Op][e.Unit]:
		return fmt.Errorf("unit %d goes at once to where it was refused", e.Unit)
	case w.now.Reached(e.Until):
		return fmt.Errorf("unit %d has no time", e.Unit)
	case w.h.state == store.Draining || w.h.state == store.HostError:
		return fmt.Errorf("unit %d is moved by a node that is %v", e.Unit, w.h.state)
	}
	for i := range units {
		if batchOf(units[i].Kind) < batchOf(u.Kind) && (at[i] == waits || at[i] == flies) && u.Shell == NoShell {
			return fmt.Errorf("unit %d is moved before %d of an earlier batch has", e.Unit, i)
		}
	}
	at[e.Unit] = flies
	return nil
}

func (w *walked) ends(units []Unit, e *Effect) error {
	if w.ended[e.Op] {
		return fmt.Errorf("operation %d ends twice", e.Op)
	}
	w.ended[e.Op] = true
	w.blocked = false
	gone := w.h.state == store.Draining || w.h.state == store.HostError
	for i := range units {
		at := w.units[e.Op][i]
		switch {
		case e.Result.Outcome == Relocated && at != cut && at != left && at != lostBehind:
			return fmt.Errorf("it is relocated while unit %d is in state %d", i, at)
		case at == flies && units[i].Shell == NoShell && !gone:
			return fmt.Errorf("it is over while unit %d is under way", i)
		}
	}
	switch {
	case (e.Result.Outcome == Relocated) != (e.Result.Reason == None):
		return fmt.Errorf("it ends with %+v", e.Result)
	case gone:
	case e.Result.Outcome == Relocated && w.h.state != store.Relocated, e.Result.Outcome == Blocked && w.h.state != store.Serving:
		return fmt.Errorf("it ends %v and is %v", e.Result.Outcome, w.h.state)
	}
	return nil
}

// rest looks at what follows when nothing more happens.
func (w *walked) rest(units []Unit) error {
	at, some := w.h.NextDeadline()
	pending := w.publishing || w.looks != [3]bool{} || w.settles != [3]bool{} || w.takes != [3]bool{} || w.permits != [3]int{}
	for _, op := range w.units {
		pending = pending || slices.Contains(op[:], flies) || slices.Contains(op[:], cut)
	}
	lacks := w.h.op != nil && w.h.op.phase == lacking
	behind := w.h.op != nil && w.h.op.phase == settled
	switch {
	case behind && w.h.tail == nil:
		return fmt.Errorf("it waits for an operation that trails no more")
	case some && w.now.Reached(at):
		return fmt.Errorf("its next deadline is %d at %d", at, w.now)
	case w.h.Busy() && !pending && !some && !lacks:
		return fmt.Errorf("it is busy with nothing: %s", w.key())
	case !w.h.Busy() && (w.h.state == store.Relocating || w.h.state != w.told && (w.h.state == store.Serving || w.h.state == store.Relocated)):
		return fmt.Errorf("it rests %v, and the Store has it %v", w.h.state, w.told)
	}
	for op := range w.units {
		for i := range units {
			if s := units[i].Shell; s != NoShell && !w.h.Busy() && w.h.state == store.Serving && w.units[op][s] == left && w.units[op][i] == waits {
				return fmt.Errorf("member %d is left behind", i)
			}
		}
	}
	return nil
}

// next visits what can happen.
func (w *walked) next(units []Unit, asks int, visit func(what Event, to *walked) error) error {
	try := func(e Event, then func(*walked)) error {
		to := w.clone()
		if then != nil {
			then(to)
		}
		if err := to.take(units, e); err != nil {
			return fmt.Errorf("%w\nby %+v at %d in %s", err, e, w.now, w.key())
		}
		return visit(e, to)
	}
	var all []error
	do := func(e Event, then func(*walked)) { all = append(all, try(e, then)) }

	do(Event{Is: Tick}, func(to *walked) { to.now, to.refused = to.now+1, [3][3]bool{} })
	t := []Node{nodeNamed("t")}
	if w.h.op != nil || w.h.tail != nil {
		do(Event{Is: Nodes, Nodes: t}, nil)
		do(Event{Is: Nodes}, nil)
	}
	do(Event{Is: Stopping}, nil)
	do(Event{Is: Broken}, nil)
	if w.publishing {
		answered := func(took bool) func(*walked) {
			return func(to *walked) {
				if to.publishing = false; took {
					to.told = to.says
				}
			}
		}
		do(Event{Is: Published}, answered(true))
		do(Event{Is: Published, Failure: "lost"}, answered(false))
		do(Event{Is: Published, Failure: "lost"}, answered(true))
	}
	for op := uint64(1); op < 3; op++ {
		if w.looks[op] {
			over := func(to *walked) { to.looks[op] = false }
			loads := []Load{{actors, 1}, {arenas, 1}}
			do(Event{Is: Looked, Op: op, Nodes: t, Loads: loads}, over)
			do(Event{Is: Looked, Op: op, Loads: loads}, over)
			do(Event{Is: Looked, Op: op, Failure: "away"}, over)
			do(Event{Is: Looked, Op: op, Manual: true}, over)
			do(Event{Is: Looked, Op: op, Fixed: units[:1]}, over)
		}
		if w.settles[op] {
			do(Event{Is: Settled, Op: op}, func(to *walked) { to.settles[op] = false })
		}
		if w.takes[op] {
			do(Event{Is: Taken, Op: op, Units: units}, func(to *walked) { to.takes[op] = false })
		}
		if w.permits[op] > 0 {
			over := func(to *walked) { to.permits[op]-- }
			do(Event{Is: Permitted, Op: op}, over)
			do(Event{Is: Permitted, Op: op, Failure: "full"}, over)
		}
		for u := range units {
			is := w.units[op][u]
			now := func(at unitAt, fails bool) func(*walked) {
				return func(to *walked) {
					to.units[op][u] = at
					to.blocked = to.blocked || fails && !to.ended[op]
				}
			}
			if is == flies {
				do(Event{Is: CutOver, Op: op, Unit: u}, now(cut, false))
				do(Event{Is: UnitEnded, Op: op, Unit: u, Ended: Stayed, Reason: TargetUnavailable}, func(to *walked) {
					to.units[op][u], to.refused[op][u] = waits, true
				})
				do(Event{Is: UnitEnded, Op: op, Unit: u, Ended: Stayed, Reason: StateIncompatible}, now(waits, true))
			}
			if is == flies || is == cut {
				do(Event{Is: UnitEnded, Op: op, Unit: u, Ended: Left}, now(left, false))
				end := lost
				if is == cut {
					end = lostBehind
				}
				do(Event{Is: UnitEnded, Op: op, Unit: u, Ended: Lost}, now(end, w.h.op != nil && w.h.op.number == op && w.h.op.phase == moving))
			}
		}
	}
	if w.h.op == nil && w.asks < asks && w.h.state == store.Serving {
		to := w.clone()
		to.asks++
		a := to.h.Ask(to.now, Request{Timeout: 2})
		if a.Op != uint64(to.asks) {
			all = append(all, fmt.Errorf("the call got %+v", a))
		} else if err := to.effects(units); err != nil {
			all = append(all, err)
		} else {
			all = append(all, visit(Event{}, to))
		}
	}
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// Every order of events that a node may take to its Host, with the Store's answers lost, units that
// stay and are lost, and a second call behind the first, keeps the laws of the package.
//
// req: FO-14
func TestEveryOrderOfEventsKeepsAHostsLaws(t *testing.T) {
	for what, c := range map[string]struct {
		units []Unit
		asks  int
	}{
		"an Actor, then a SpotWide Spot": {[]Unit{unitOf(Actor, actors, NoShell), unitOf(Wide, arenas, NoShell)}, 1},
		"a PerActor Spot and its member": {[]Unit{unitOf(Shell, rooms, NoShell), unitOf(Actor, actors, 0)}, 2},
	} {
		t.Run(what, func(t *testing.T) {
			units, asks := c.units, c.asks
			first := &walked{h: New(self, brief)}
			first.h.Step(0, Event{Is: Started})
			first.told = store.Serving
			seen := map[string]bool{first.key(): true}
			queue := []*walked{first}
			outcomes := map[Result]int{}
			for len(queue) > 0 {
				from := queue[len(queue)-1]
				queue = queue[:len(queue)-1]
				if from.now > 4 {
					continue
				}
				err := from.next(units, asks, func(_ Event, to *walked) error {
					if o := to.h.last; o != nil && o.phase == over && to.h.op == nil {
						outcomes[Result{o.result.Outcome, o.result.Reason, ""}]++
					}
					if k := to.key(); !seen[k] {
						seen[k] = true
						queue = append(queue, to)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%d states, ends %v", len(seen), outcomes)
			for _, want := range []Reason{
				None, TargetUnavailable, StoreUnavailable, RelocationDisabled, StateIncompatible, DeadlineExceeded, RelocationFailed, RuntimeNotReady,
				ManualTopologyUnsupported, ShutdownRequested,
			} {
				if !slices.ContainsFunc(slices.Collect(maps.Keys(outcomes)), func(r Result) bool { return r.Reason == want }) {
					t.Errorf("no operation ended with %v", want)
				}
			}
		})
	}
}
