package engine

import (
	"math/bits"

	"github.com/zlnode/zlnode/internal/clock"
)

// wheelSlots × tick is the wheel's round, 12.8 s: longer deadlines stay in their
// slot and are passed over once per round.
const wheelSlots = 512

// timerKind says what a timer's firing means.
type timerKind uint8

const (
	deadlineTimer timerKind = iota // the engine's deadlines of a connection
	handlerTimer                   // Conn.ArmTimer
)

// timer is an entry of a wheel, embedded in what it belongs to, so that arming
// allocates nothing. Its zero value is disarmed.
type timer struct {
	next, prev *timer // circular list of a slot; nil: disarmed
	tick       int64  // fires once this tick has begun
	conn       *Conn
	kind       timerKind
}

func (t *timer) armed() bool { return t.next != nil }

func (t *timer) unlink() {
	t.prev.next, t.next.prev = t.next, t.prev
	t.next, t.prev = nil, nil
}

// wheel is a hashed timer wheel: arm, re-arm and cancel are O(1) and allocate
// nothing; advance looks at the slots of the ticks that passed. Only the owning
// loop touches it.
//
// Invariant: an armed timer is in the list of slot tick mod wheelSlots, or, while
// advance runs, in the list of those about to fire; its tick is later than done,
// except in that second list. So a timer never fires early, and one armed or
// cancelled by a callback of the same advance behaves as at any other time.
type wheel struct {
	slots [wheelSlots]timer       // heads of circular lists
	used  [wheelSlots / 64]uint64 // a bit per slot with entries
	done  int64                   // the last tick that advance has seen
	due   timer                   // head of the list of those about to fire
}

// init empties the wheel and sets its time.
func (w *wheel) init(now clock.Mono) {
	for i := range w.slots {
		s := &w.slots[i]
		s.next, s.prev = s, s
	}
	w.due.next, w.due.prev = &w.due, &w.due
	w.used = [len(w.used)]uint64{}
	w.done = int64(now) / int64(tick)
}

// arm makes t fire at the first tick that is not before at, whether it was armed
// before or not.
func (w *wheel) arm(t *timer, at clock.Mono) {
	w.cancel(t)
	t.tick = int64(at) / int64(tick)
	if int64(at)%int64(tick) != 0 {
		t.tick++
	}
	t.tick = max(t.tick, w.done+1)
	s := t.tick % wheelSlots
	pushBack(&w.slots[s], t)
	w.used[s/64] |= 1 << (s % 64)
}

// cancel disarms t; an entry that is not armed is left alone.
func (w *wheel) cancel(t *timer) {
	if !t.armed() {
		return
	}
	t.unlink()
	s := t.tick % wheelSlots
	if w.slots[s].next == &w.slots[s] {
		w.used[s/64] &^= 1 << (s % 64)
	}
}

// advance fires what is due at now, in the order of the ticks. fire may arm and
// cancel any timer of the wheel.
func (w *wheel) advance(now clock.Mono, fire func(*timer)) {
	target := int64(now) / int64(tick)
	if target <= w.done {
		return
	}
	first := max(w.done+1, target-wheelSlots+1) // every slot once is enough
	w.done = target
	for k := first; k <= target; k++ {
		w.collect(k % wheelSlots)
	}
	for w.due.next != &w.due {
		t := w.due.next
		t.unlink()
		fire(t)
	}
}

// collect moves the due entries of slot s to the list of those about to fire.
func (w *wheel) collect(s int64) {
	if w.used[s/64]&(1<<(s%64)) == 0 {
		return
	}
	head := &w.slots[s]
	for t := head.next; t != head; {
		next := t.next
		if t.tick <= w.done {
			t.unlink()
			pushBack(&w.due, t)
		}
		t = next
	}
	if head.next == head {
		w.used[s/64] &^= 1 << (s % 64)
	}
}

// next returns a point not later than the earliest entry's, or Never if there is
// none. It may be one of a round too early, which costs an idle advance.
func (w *wheel) next() clock.Mono {
	start := (w.done + 1) % wheelSlots
	for i := int64(0); i <= int64(len(w.used)); i++ {
		word := (start/64 + i) % int64(len(w.used))
		set := w.used[word]
		switch i {
		case 0: // the bits from start on
			set &= ^uint64(0) << (start % 64)
		case int64(len(w.used)): // back at the first word: the bits before start
			set &= 1<<(start%64) - 1
		}
		if set != 0 {
			slot := word*64 + int64(bits.TrailingZeros64(set))
			ticks := (slot - start + wheelSlots) % wheelSlots
			return clock.Mono((w.done + 1 + ticks) * int64(tick))
		}
	}
	return clock.Never
}

func pushBack(head, t *timer) {
	t.prev, t.next = head.prev, head
	head.prev.next = t
	head.prev = t
}
