package host

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

func TestWrongCallsChangeNothing(t *testing.T) {
	for what, c := range map[string]struct {
		own   string
		r     Request
		wrong string
	}{
		"maintenance":                 {"", Request{}, ""},
		"maintenance to a version":    {"1.0.0", Request{Version: "1.0.0"}, "takes no target version"},
		"an update":                   {"1.0.0", Request{Mode: RollingUpdate, Version: "1.0.1"}, ""},
		"an update by numbers":        {"1.9.0", Request{Mode: RollingUpdate, Version: "1.10.0"}, ""},
		"an update with and of a v":   {"v1.9.0", Request{Mode: RollingUpdate, Version: "2.0.0-rc.1"}, ""},
		"an update to the same":       {"1.0.0", Request{Mode: RollingUpdate, Version: "1.0.0"}, "not higher"},
		"an update to another build":  {"1.0.0+a", Request{Mode: RollingUpdate, Version: "1.0.0+b"}, "not higher"},
		"an update to a pre-release":  {"1.0.0", Request{Mode: RollingUpdate, Version: "1.0.0-rc.1"}, "not higher"},
		"an update back":              {"1.10.0", Request{Mode: RollingUpdate, Version: "1.9.0"}, "not higher"},
		"an update to no version":     {"1.0.0", Request{Mode: RollingUpdate}, "no semantic version"},
		"an update to a word":         {"1.0.0", Request{Mode: RollingUpdate, Version: "latest"}, "no semantic version"},
		"an update of a node without": {"", Request{Mode: RollingUpdate, Version: "1.0.0"}, "AppVersion"},
		"an unknown mode":             {"1.0.0", Request{Mode: 2, Version: "2.0.0"}, "no mode"},
		"a negative timeout":          {"1.0.0", Request{Timeout: -1}, "negative"},
	} {
		h := New(Self{RID: "a", Mesh: "main", Version: c.own}, brief)
		h.Step(0, Event{Is: Started})
		a := h.Ask(0, c.r)
		if (a.Wrong == "") != (c.wrong == "") || !strings.Contains(a.Wrong, c.wrong) || (a.Op == 0) != (a.Wrong != "") || h.Busy() != (a.Op != 0) {
			t.Errorf("%s: %+v, want %q", what, a, c.wrong)
		}
		if h.State() != store.Serving {
			t.Errorf("%s: it is %v", what, h.State())
		}
	}
}

// play drives a Host by hand.
type play struct {
	*testing.T
	h   *Host
	now clock.Mono
}

func served(t *testing.T) *play {
	p := &play{T: t, h: New(self, brief)}
	p.h.Step(0, Event{Is: Started})
	return p
}

// step takes an event and returns what is to be done, in short.
func (p *play) step(e Event) string {
	p.h.Step(p.now, e)
	return p.does()
}

func (p *play) does() string {
	var words []string
	for _, e := range p.h.Effects(nil) {
		switch e.Do {
		case DoMove:
			words = append(words, fmt.Sprint("move ", e.Unit, " to ", e.To.RID, " until ", e.Until))
		case DoEnd:
			words = append(words, fmt.Sprint("end ", e.Op, " ", e.Result.Outcome, " ", e.Result.Reason, " ", e.Result.Text))
		default:
			words = append(words, [...]string{DoLook: "look", DoPublish: "publish", DoSettle: "settle", DoTake: "take", DoPermit: "permit", DoRelease: "release"}[e.Do])
		}
	}
	return strings.Join(words, "; ")
}

func (p *play) want(got, want string) {
	p.Helper()
	if got != want {
		p.Fatalf("it does %q; want %q", got, want)
	}
}

// takes brings an operation of 10 to where it moves the units.
func (p *play) takes(nodes []Node, units ...Unit) uint64 {
	p.Helper()
	a := p.h.Ask(p.now, Request{Timeout: 10})
	p.want(p.does(), "look")
	p.want(p.step(Event{Is: Looked, Op: a.Op, Nodes: nodes}), "publish")
	p.want(p.step(Event{Is: Published}), "settle")
	p.want(p.step(Event{Is: Settled, Op: a.Op}), "take")
	p.want(p.step(Event{Is: Taken, Op: a.Op, Units: units}), "permit")
	return a.Op
}

// req: S32
func TestCallsForTheSameShareOneOperation(t *testing.T) {
	p := served(t)
	first := p.h.Ask(0, Request{Timeout: 10})
	p.want(p.does(), "look")
	p.now = 5
	if again := p.h.Ask(5, Request{Timeout: 100}); again != first {
		t.Errorf("the same call got %+v", again)
	}
	if at, _ := p.h.NextDeadline(); at != 10 {
		t.Errorf("the deadline is %d; want the first call's", at)
	}
	for _, r := range []Request{{Mode: RollingUpdate, Version: "1.1.0"}, {Mode: RollingUpdate, Version: "1.2.0"}} {
		if a := p.h.Ask(5, r); a.Op != 0 || a.Result.Outcome != Blocked || a.Result.Reason != OperationInProgress {
			t.Errorf("another call got %+v", a)
		}
	}
	p.want(p.does(), "")
	p.now = 10
	p.want(p.step(Event{Is: Looked, Op: 1}), "publish") // nothing is here
	p.want(p.step(Event{Is: Published}), "settle")
	if p.h.State() != store.Relocating {
		t.Errorf("it is %v", p.h.State())
	}
	p.want(p.step(Event{Is: Settled, Op: 1}), "take")
	p.want(p.step(Event{Is: Taken, Op: 1}), "publish")
	p.want(p.step(Event{Is: Published}), "end 1 Relocated None ")
	for _, r := range []Request{{}, {Mode: RollingUpdate, Version: "1.1.0"}} {
		if a := p.h.Ask(100, r); a.Op != 0 || a.Result != (Result{}) || p.h.State() != store.Relocated {
			t.Errorf("behind it a call got %+v", a)
		}
	}
}

func TestACallIsAnsweredByTheNodesState(t *testing.T) {
	p := &play{T: t, h: New(self, brief)}
	want := func(s store.HostState, r Reason) {
		t.Helper()
		if a := p.h.Ask(0, Request{}); a.Op != 0 || a.Result.Reason != r || a.Result.Outcome != Blocked || p.h.State() != s {
			t.Errorf("%v: %+v, want %v of a node that is %v", p.h.State(), a, r, s)
		}
	}
	want(store.Preparing, RuntimeNotReady)
	p.step(Event{Is: Started})
	p.step(Event{Is: Broken})
	want(store.HostError, RuntimeNotReady)
	p.step(Event{Is: Stopping})
	want(store.Draining, ShutdownRequested)
	p.step(Event{Is: Broken})
	want(store.Draining, ShutdownRequested)
	p.step(Event{Is: Halted})
	want(store.Stopped, RuntimeNotReady)
}

// A relocation that was Blocked is not remembered; the next one starts over.
func TestBlockedIsNotRemembered(t *testing.T) {
	p := served(t)
	a := p.h.Ask(0, Request{Timeout: 10})
	p.want(p.does(), "look")
	p.want(p.step(Event{Is: Looked, Op: a.Op, Loads: []Load{{actors, 1}}}), "")
	p.want(p.step(Event{Is: Nodes, Nodes: []Node{nodeNamed("b")}}), "look") // it looks again
	p.want(p.step(Event{Is: Looked, Op: a.Op, Loads: []Load{{actors, 1}}}), "")
	p.now = 10
	p.want(p.step(Event{Is: Tick}), `end 1 Blocked TargetUnavailable Actor type "player": there is no other node`)
	if p.h.State() != store.Serving || p.h.Busy() {
		t.Errorf("it is %v", p.h.State())
	}
	if next := p.h.Ask(10, Request{}); next.Op != 2 {
		t.Errorf("the next call got %+v", next)
	}
}

// A target that did not take a unit is left out for a moment, and the unit goes to another one.
func TestAUnitThatItsTargetDidNotTakeGoesToAnother(t *testing.T) {
	p := served(t)
	op := p.takes([]Node{nodeNamed("b"), nodeNamed("c")}, unitOf(Actor, actors, NoShell))
	p.want(p.step(Event{Is: Permitted, Op: op}), "move 0 to b until 10")
	p.want(p.step(Event{Is: UnitEnded, Op: op, Ended: Stayed, Reason: TargetUnavailable}), "permit")
	p.want(p.step(Event{Is: Permitted, Op: op}), "move 0 to c until 10")
	p.want(p.step(Event{Is: UnitEnded, Op: op, Ended: Stayed, Reason: TargetUnavailable}), "")
	p.now++
	p.want(p.step(Event{Is: Tick}), "permit")
	p.want(p.step(Event{Is: Permitted, Op: op}), "move 0 to b until 10")
	p.want(p.step(Event{Is: CutOver, Op: op}), "publish")
	p.want(p.step(Event{Is: Published}), "end 1 Relocated None ")
}

// Behind a failure nothing new begins; what is under way comes to its end before the result.
func TestAFailingUnitStopsWhatHasNotBegun(t *testing.T) {
	p := served(t)
	op := p.takes([]Node{nodeNamed("b")}, unitOf(Actor, actors, NoShell), unitOf(Actor, actors, NoShell), unitOf(Actor, actors, NoShell), unitOf(Wide, arenas, NoShell))
	p.want(p.step(Event{Is: Permitted, Op: op}), "move 0 to b until 10; permit")
	p.want(p.step(Event{Is: Permitted, Op: op}), "move 1 to b until 10; permit")
	p.want(p.step(Event{Is: UnitEnded, Op: op, Ended: Stayed, Reason: StateIncompatible, Failure: "no"}), "")
	p.want(p.step(Event{Is: Permitted, Op: op}), "release")
	p.want(p.step(Event{Is: CutOver, Op: op, Unit: 1}), "publish")
	p.want(p.step(Event{Is: Published}), `end 1 Blocked StateIncompatible Actor "player--1": no`)
	p.want(p.step(Event{Is: UnitEnded, Op: op, Unit: 1, Ended: Lost, Failure: "gone"}), "")
	got, _ := p.h.Progress(p.now)
	if c := got.Counts[Actor-1]; c != (Count{Total: 3, Blocked: 1, Lost: 1}) || got.Counts[Wide-1] != (Count{Total: 1}) || got.Running || got.RunsOn {
		t.Errorf("it shows %+v", got)
	}
	if len(got.Blocked) != 2 || got.Blocked[0].Reason != StateIncompatible || got.Blocked[1].Reason != RelocationFailed {
		t.Errorf("it names %+v", got.Blocked)
	}
}

// Members follow their Spot behind the deadline, until all have: the result is there before.
func TestMembersFollowTheirSpotBehindTheDeadline(t *testing.T) {
	p := served(t)
	op := p.takes([]Node{nodeNamed("b"), nodeNamed("c")}, unitOf(Shell, rooms, NoShell), unitOf(Actor, actors, 0), unitOf(Actor, actors, 0))
	p.want(p.step(Event{Is: Permitted, Op: op}), "move 0 to b until 10")
	p.want(p.step(Event{Is: CutOver, Op: op}), "")
	p.want(p.step(Event{Is: UnitEnded, Op: op, Ended: Left}), "permit")
	p.want(p.step(Event{Is: Permitted, Op: op}), "move 1 to b until 10; permit")
	p.now = 10
	p.want(p.step(Event{Is: Tick}), "publish; end 1 Blocked DeadlineExceeded 1 of 3 units have left in time")
	p.want(p.step(Event{Is: UnitEnded, Op: op, Unit: 1, Ended: Stayed, Reason: DeadlineExceeded}), "")
	p.want(p.step(Event{Is: Published}), "")
	if got, _ := p.h.Progress(p.now); p.h.State() != store.Serving || !got.RunsOn || got.Running {
		t.Errorf("it is %v and shows %+v", p.h.State(), got)
	}
	// A call that comes meanwhile waits before it takes the inventory.
	next := p.h.Ask(p.now, Request{Timeout: 10})
	p.want(p.does(), "look")
	p.want(p.step(Event{Is: Looked, Op: next.Op, Nodes: []Node{nodeNamed("b")}}), "publish")
	p.want(p.step(Event{Is: Published}), "settle")
	p.want(p.step(Event{Is: Settled, Op: next.Op}), "")
	p.now++
	p.want(p.step(Event{Is: Tick}), "")
	p.want(p.step(Event{Is: Permitted, Op: op}), "move 2 to b until 21; permit")
	p.want(p.step(Event{Is: Permitted, Op: op}), "move 1 to b until 21")
	p.want(p.step(Event{Is: CutOver, Op: op, Unit: 1}), "")
	p.want(p.step(Event{Is: UnitEnded, Op: op, Unit: 2, Ended: Left}), "take")
}

// req: S34
func TestTheDeadlineLetsWhatHasBegunEnd(t *testing.T) {
	p := served(t)
	op := p.takes([]Node{nodeNamed("b")}, unitOf(Actor, actors, NoShell), unitOf(Actor, actors, NoShell))
	p.want(p.step(Event{Is: Permitted, Op: op}), "move 0 to b until 10; permit")
	p.now = 10
	p.want(p.step(Event{Is: Tick}), "")
	if p.h.State() != store.Relocating {
		t.Errorf("it is %v while a unit is under way", p.h.State())
	}
	p.want(p.step(Event{Is: Permitted, Op: op}), "release")
	p.want(p.step(Event{Is: CutOver, Op: op}), "publish; end 1 Blocked DeadlineExceeded 0 of 2 units have left in time")
	p.want(p.step(Event{Is: Published, Failure: "away"}), "")
	if p.h.State() != store.Serving {
		t.Errorf("it is %v", p.h.State())
	}
	p.now++
	p.want(p.step(Event{Is: Tick}), "publish") // until the Store has it
	p.want(p.step(Event{Is: Published}), "")
}

func TestAnObjectThatMayNotMoveIsFoundBeforeAnythingChanges(t *testing.T) {
	p := served(t)
	fixed := unitOf(Actor, actors, NoShell)
	fixed.Fixed = true
	a := p.h.Ask(0, Request{})
	p.want(p.does(), "look")
	p.want(p.step(Event{Is: Looked, Op: a.Op, Fixed: []Unit{fixed}}), `end 1 Blocked RelocationDisabled Actor "player--1": `+fixedText)
	if got, _ := p.h.Progress(0); len(got.Blocked) != 1 || got.Blocked[0].ID != "player--1" {
		t.Errorf("it names %+v", got.Blocked)
	}
	// One that came into being between the look and the inventory.
	a = p.h.Ask(0, Request{})
	p.want(p.does(), "look")
	p.want(p.step(Event{Is: Looked, Op: a.Op, Nodes: []Node{nodeNamed("b")}}), "publish")
	p.want(p.step(Event{Is: Published}), "settle")
	p.want(p.step(Event{Is: Settled, Op: a.Op}), "take")
	p.want(p.step(Event{Is: Taken, Op: a.Op, Units: []Unit{fixed, unitOf(Actor, actors, NoShell)}}), "publish")
	p.want(p.step(Event{Is: Published}), `end 2 Blocked RelocationDisabled Actor "player--1": `+fixedText)
}

// What a relocation waits for stands in its result.
func TestTheResultSaysWhatWasWaitedFor(t *testing.T) {
	p := served(t)
	a := p.h.Ask(0, Request{Timeout: 10})
	p.want(p.does(), "look")
	p.want(p.step(Event{Is: Looked, Op: a.Op}), "publish")
	p.want(p.step(Event{Is: Published}), "settle")
	p.want(p.step(Event{Is: Waits, Op: a.Op, Failure: "joins: 2"}), "")
	p.now = 10
	p.want(p.step(Event{Is: Tick}), "publish; end 1 Blocked DeadlineExceeded what was under way at the node did not end in time: joins: 2")
}

func TestTheEndIsEstimatedByTheRateSoFar(t *testing.T) {
	p := served(t)
	op := p.takes([]Node{nodeNamed("b")}, unitOf(Actor, actors, NoShell), unitOf(Actor, actors, NoShell), unitOf(Actor, actors, NoShell), unitOf(Actor, actors, NoShell))
	p.want(p.step(Event{Is: Permitted, Op: op}), "move 0 to b until 10; permit")
	if got, _ := p.h.Progress(p.now); got.End != clock.Never || got.Counts[Actor-1] != (Count{Total: 4, Moving: 1}) {
		t.Errorf("it shows %+v", got)
	}
	p.now = 2
	p.want(p.step(Event{Is: CutOver, Op: op}), "")
	if got, _ := p.h.Progress(p.now); got.End != clock.Mono(8) || got.Counts[Actor-1] != (Count{Total: 4, Left: 1}) || !got.Running {
		t.Errorf("it shows %+v", got)
	}
}

// No more than a hundred blocked units are named, and all are counted.
func TestAHundredBlockedUnitsAreNamed(t *testing.T) {
	p := served(t)
	units := make([]Unit, 150)
	for i := range units {
		units[i] = unitOf(Actor, actors, NoShell)
	}
	op := p.takes([]Node{nodeNamed("b")}, units...)
	for range units {
		p.h.Step(p.now, Event{Is: Permitted, Op: op})
	}
	for i := range units {
		p.h.Step(p.now, Event{Is: UnitEnded, Op: op, Unit: i, Ended: Stayed, Reason: RelocationFailed})
	}
	if got, _ := p.h.Progress(p.now); len(got.Blocked) != 100 || got.Counts[Actor-1].Blocked != 150 {
		t.Errorf("%d are named, %+v", len(got.Blocked), got.Counts[Actor-1])
	}
}
