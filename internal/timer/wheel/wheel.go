// Package wheel is a hierarchical timing wheel as a value: it holds entries by the
// instant at which they are due and hands them out in that order. It reads no clock,
// starts nothing and takes no lock; it has one owner at a time.
//
// Its resolution is 1 ms (Tick): an entry is due at the first tick that is not before
// the instant it was scheduled for, so never early and less than a tick late. It
// reaches as far as clock.Mono does.
//
// # The idea
//
// A tick's number is written with digits of 6 bits. An entry stands in the slot of
// the highest digit in which its tick differs from the present one: level 0 holds the
// rest of the present 64 ticks, one slot for each; level 1 the rest of the present 64
// rounds of level 0; and so on. As the present enters the range of a slot above level
// 0, the entries of that slot are spread over the levels below. So:
//
//   - all entries of one tick are in one slot at every moment, in the order in which
//     they were scheduled: that is the order in which they fire;
//   - an entry is moved at most once per level: six times if it is due in ten years;
//   - the lowest level in use holds what is due first, and a bit per slot finds it:
//     time in which nothing is due is passed over in one step, however long.
//
// # Costs
//
// Schedule and Cancel take constant time. Nothing allocates: an entry carries its own
// links, and an empty Wheel is about 8 KiB.
package wheel

import (
	"math"
	"math/bits"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// Tick is the resolution.
const Tick = time.Millisecond

const (
	digitBits = 6
	slots     = 1 << digitBits
	levels    = 8 // 48 bits: clock.Never is tick 2^43 and a bit
)

// tickMax is the last tick whose instant can be written.
const tickMax = int64(clock.Never) / int64(Tick)

// Entry is an element of a Wheel, embedded in what it belongs to. Its zero value is
// not scheduled. It is in at most one Wheel and must not be copied while it is.
type Entry[T any] struct {
	next, prev *Entry[T]
	tick       int64
	slot       uint16 // 1 + level*slots + digit; 0: not scheduled

	// Value is the user's; the Wheel does not look at it.
	Value T
}

// Scheduled reports whether e is in a Wheel.
func (e *Entry[T]) Scheduled() bool { return e.slot != 0 }

// list is a slot's entries, in the order in which they were scheduled.
type list[T any] struct{ first, last *Entry[T] }

// Wheel is the timing wheel; its zero value is empty and begins at instant 0. It must
// not be copied while it has entries.
//
// Invariants, between calls:
//   - no entry's tick is before cur;
//   - an entry is at the level of the highest digit in which its tick differs from
//     cur, or at level 0 if in none; but those that wait to be spread still share the
//     slot of cur at level spread.
type Wheel[T any] struct {
	cur   int64 // every tick before is over; cur may be handed out in part
	floor int64 // what is scheduled is due at floor at the earliest; never less than cur
	// spread is not 0 while cur's slot at that level is being spread over the levels
	// below. What is scheduled meanwhile for a tick of that slot goes to its end.
	spread int
	length int
	used   [levels]uint64 // a bit per slot with entries
	slots  [levels][slots]list[T]
}

// Len returns the number of entries.
func (w *Wheel[T]) Len() int { return w.length }

// Schedule makes e due at the instant at, whether it was scheduled before or not. An
// instant that Advance has passed already means the tick after: also what fire
// schedules is not due in the same Advance.
func (w *Wheel[T]) Schedule(e *Entry[T], at clock.Mono) {
	if e.slot != 0 {
		w.remove(e)
	}
	e.tick = max(ceil(at), w.floor)
	w.insert(e, max(w.levelOf(e.tick), w.spread))
}

// Cancel takes e out and reports whether it was in.
func (w *Wheel[T]) Cancel(e *Entry[T]) bool {
	if e.slot == 0 {
		return false
	}
	w.remove(e)
	return true
}

// Next returns an instant before which Advance has nothing to do, and false if there
// is no entry. It is never late. For an entry above level 0 it is early, since what
// Advance has to do then is to spread a slot: once per level, and no more.
func (w *Wheel[T]) Next() (clock.Mono, bool) {
	level, digit, ok := w.lowest()
	switch {
	case !ok:
		return clock.Never, false
	case w.spread > 0:
		return instant(w.cur), true
	default:
		return instant(w.begin(level, digit)), true
	}
}

// Advance takes out each entry that is due at now and gives it to fire, in the order
// of their ticks, and within a tick in the order in which they were scheduled. fire
// may schedule and cancel any entry, but not advance the Wheel. A now before an
// earlier one does nothing.
func (w *Wheel[T]) Advance(now clock.Mono, fire func(*Entry[T])) {
	w.AdvanceSome(now, math.MaxInt, fire)
}

// AdvanceSome is Advance that ends after limit entries were fired or moved. If any are
// still due, Next says so; calling it again goes on where it ended, with the same now or
// a later one. In between entries may be scheduled and cancelled.
func (w *Wheel[T]) AdvanceSome(now clock.Mono, limit int, fire func(*Entry[T])) {
	target := floor(now)
	w.floor = max(w.floor, target+1)
	for limit > 0 && (w.cur <= target || w.spread > 0) {
		level, digit, ok := w.lowest()
		switch begin := w.begin(level, digit); {
		case w.spread > 0:
			limit = w.spreadSome(limit)
		case !ok || begin > target:
			w.enter(target + 1)
		case level > 0:
			w.enter(begin)
		default:
			w.enter(begin)
			limit = w.fireSome(limit, digit, fire)
		}
	}
}

// enter makes tick the present one. Every entry before tick must have been taken out:
// so of the levels up to that of the highest digit which changes, only the slot of
// tick itself at that very level may need to be spread.
func (w *Wheel[T]) enter(tick int64) {
	level := w.levelOf(tick)
	w.cur = tick
	if level > 0 && w.used[level]>>digitOf(tick, level)&1 != 0 {
		w.spread = level
	}
}

// spreadSome moves entries of the slot that is being spread to the levels below.
func (w *Wheel[T]) spreadSome(limit int) (left int) {
	l := &w.slots[w.spread][digitOf(w.cur, w.spread)]
	for ; l.first != nil && limit > 0; limit-- {
		e := l.first
		w.remove(e)
		w.insert(e, w.levelOf(e.tick))
	}
	if l.first == nil {
		w.spread = 0
	}
	return limit
}

// fireSome fires entries of the present tick, whose slot at level 0 is digit, and goes
// on to the next tick if no more are left.
func (w *Wheel[T]) fireSome(limit int, digit uint, fire func(*Entry[T])) (left int) {
	l := &w.slots[0][digit]
	for ; l.first != nil && limit > 0; limit-- {
		e := l.first
		w.remove(e)
		fire(e)
	}
	if l.first == nil {
		w.enter(w.cur + 1)
	}
	return limit
}

// lowest returns the slot in use that holds what is due first; if none is in use, ok
// is false and the slot means nothing.
func (w *Wheel[T]) lowest() (level int, digit uint, ok bool) {
	for level, used := range w.used {
		if used != 0 {
			return level, uint(bits.TrailingZeros64(used)), true
		}
	}
	return 0, 0, false
}

// begin returns the first tick of a slot in use.
func (w *Wheel[T]) begin(level int, digit uint) int64 {
	shift := level * digitBits
	return (w.cur>>shift&^(slots-1) | int64(digit)) << shift
}

// levelOf returns the highest digit in which tick differs from the present one.
func (w *Wheel[T]) levelOf(tick int64) int {
	return (bits.Len64(uint64(tick^w.cur)|1) - 1) / digitBits
}

func digitOf(tick int64, level int) uint {
	return uint(tick>>(level*digitBits)) % slots
}

func (w *Wheel[T]) insert(e *Entry[T], level int) {
	digit := digitOf(e.tick, level)
	l := &w.slots[level][digit]
	if l.last == nil {
		l.first = e
		w.used[level] |= 1 << digit
	} else {
		l.last.next = e
	}
	e.prev = l.last
	l.last = e
	e.slot = uint16(1 + level*slots + int(digit))
	w.length++
}

func (w *Wheel[T]) remove(e *Entry[T]) {
	level, digit := int(e.slot-1)/slots, uint(e.slot-1)%slots
	l := &w.slots[level][digit]
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	if l.first == nil {
		w.used[level] &^= 1 << digit
	}
	e.next, e.prev, e.slot = nil, nil, 0
	w.length--
}

// ceil returns the first tick that is not before at; Never is never reached.
func ceil(at clock.Mono) int64 {
	tick := floor(at)
	if int64(at) > tick*int64(Tick) {
		tick++
	}
	return tick
}

// floor returns the last tick that is not after at; there is none before 0.
func floor(at clock.Mono) int64 { return max(int64(at), 0) / int64(Tick) }

func instant(tick int64) clock.Mono {
	if tick > tickMax {
		return clock.Never
	}
	return clock.Mono(tick * int64(Tick))
}
