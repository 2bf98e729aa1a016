package node

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/timer"
	"github.com/zlnode/zlnode/store"
)

const (
	opStartTimer = "start timer"
	// timerRetry is how long due timers wait while the node may not act.
	timerRetry = 250 * time.Millisecond
)

// objectTimers are the timers of one object, which has none of these until it starts
// one. The claim owns set and held; entry is the node's scheduler's.
type objectTimers struct {
	set   *timer.Set
	entry timer.Entry[*objectCell]
	held  []timer.Tick // due, while the node may not act
}

// Tick is what a timer's handler is told.
type Tick struct {
	Name  string
	Late  time.Duration // since it was due
	Count uint64        // of ticks that fell due since the callback before, this one included
}

// StartTimer registers a timer of the object in whose turn this is, in place of one of
// that name. Its type has a handler of the name.
func (c *Call) StartTimer(name string, o timer.Options) error {
	mustBeInTurn(c.cell != nil)
	a := c.cell
	if err := c.fenced(); err != nil {
		return err.of(opStartTimer, a.ref.ID)
	}
	if c.gate == nil {
		return fail(errkind.InvalidOperation, opStartTimer, a.ref.ID, "the turn has given up its gate; start timers before or after")
	}
	if a.typ.Timers[name] == nil {
		return fail(errkind.InvalidOperation, opStartTimer, a.ref.ID, "type %q has no timer handler %q", a.typ.Name, name)
	}
	if a.timers == nil {
		a.timers = &objectTimers{set: timer.NewSet(0)}
		a.timers.entry.Value = a
	}
	if _, err := a.timers.set.Register(a.node.timerNow(), name, o); err != nil {
		return &Error{Kind: KindOf(err), Op: opStartTimer, Object: a.ref.ID, Text: "timer \"" + name + "\"", Err: err}
	}
	a.armTimers()
	return nil
}

// StopTimer ends the timer of that name and reports whether there was one. No callback
// of it starts any more. While the turn has given up its gate it does nothing.
func (c *Call) StopTimer(name string) bool {
	mustBeInTurn(c.cell != nil)
	a := c.cell
	if c.gate == nil || a.timers == nil || !a.timers.set.Cancel(name) {
		return false
	}
	a.armTimers()
	return true
}

// armTimers has the node's scheduler fire when the object's next timer is due.
func (a *objectCell) armTimers() {
	if len(a.timers.held) > 0 {
		a.node.timers.Arm(&a.timers.entry, a.node.timerNow().Add(timerRetry))
	} else if at, any := a.timers.set.Next(); any {
		a.node.timers.Arm(&a.timers.entry, at)
	} else {
		a.node.timers.Disarm(&a.timers.entry)
	}
}

// fireTimers is the scheduler's: each object learns in its own turn what is due.
func (n *Node) fireTimers(_ clock.Mono, due []*objectCell) {
	for _, a := range due {
		a.ended(a.timersDue)
	}
}

// timersDue queues a turn for each timer that is due: there is one at most for each
// name, so this is bounded. It may be called once more than needed.
func (a *objectCell) timersDue(t *turn) {
	if t.refused != nil || a.gone.Load() {
		return
	}
	if !a.node.mayAct(clock.Now()) {
		a.node.timers.Arm(&a.timers.entry, a.node.timerNow().Add(timerRetry))
		return
	}
	ticks := a.timers.set.Due(a.node.timerNow(), a.timers.held)
	a.timers.held = nil
	for _, tick := range ticks {
		a.ended(func(t *turn) { a.tick(t, tick) })
	}
	a.armTimers()
}

// tick is the turn of a timer, unless it was cancelled or registered anew meanwhile.
// While the node may not act its ticks wait (RL-20).
func (a *objectCell) tick(t *turn, tick timer.Tick) {
	if t.refused != nil || a.gone.Load() {
		return
	}
	defer a.armTimers() // also if the handler ends its goroutine
	if !a.node.mayAct(clock.Now()) {
		a.timers.held = append(a.timers.held, tick)
		return
	}
	if a.timers.set.Started(tick.Name, tick.Generation) {
		defer func() { a.timers.set.Ended(a.node.timerNow(), tick.Name, tick.Generation) }()
		h := a.typ.Timers[tick.Name]
		told := Tick{tick.Name, a.node.timerNow().Sub(tick.Scheduled), tick.Count}
		_ = a.callback(t.claim, "timer "+tick.Name, clock.Never, func(c *Call) error {
			c.registers = a.typ.Kind == store.UserSpot || a.typ.Kind == store.EntrySpot
			return h(c, a.instance, told)
		})
	}
}

// fenceTimers ends all timers of an object that is over. Under its claim.
func (a *objectCell) fenceTimers() {
	if a.timers != nil {
		a.timers.set.Fence()
		a.timers.held = nil
		a.node.timers.Disarm(&a.timers.entry)
	}
}

// timerNow is the present by the clock of the timers.
func (n *Node) timerNow() clock.Mono {
	if n.cfg.TimerClock != nil {
		return n.cfg.TimerClock.Now()
	}
	return clock.Now()
}
