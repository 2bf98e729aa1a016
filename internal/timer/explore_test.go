package timer

import "testing"

// The exploration of how the driver sleeps: two who arm, and the driver, over two
// shards. The steps restate scheduler.go, one atomic action each; what a shard's lock
// encloses is one step as far as no one reads it without the lock.

// exploreNever is later than every instant that is armed; time stands still at exploreNow.
const (
	exploreNever = 15
	exploreNow   = 1
)

type sleepState struct {
	wheel [2]uint16 // a bit per instant that is armed
	next  [2]int8
	lock  [2]bool
	sleep int8
	token bool

	armer  [2]armer
	driver driver
}

// armer carries out armings in turn.
type armer struct {
	done    int8 // of its armings
	pc      armerPC
	earlier bool
	seen    int8 // of sleep, in the mutant that reads it first
}

type armerPC int8

const (
	armSchedule armerPC = iota // takes the lock, schedules and stores next
	armReadSleep
	armUnlock
	armWake
)

type driver struct {
	pc    driverPC
	until int8
	again int8
}

type driverPC int8

const (
	fire0 driverPC = iota
	fire1
	read0 // settle
	read1
	storeSleep
	reread0
	reread1
	decide
	waiting
	clearSleep
)

type sleepMutant int

const (
	sleepRight sleepMutant = iota
	settleReadsOnce
	settleStoresLast // reads again before it stores
	armReadsFirst    // reads sleep before it stores next
	armWakesNobody
)

// arming is a shard and an instant; the instants differ, and those up to now are fired.
type arming struct {
	shard int
	at    int8
}

var armings = [2][]arming{{{0, 5}, {1, 1}, {0, 3}}, {{1, 4}, {0, 0}, {1, 2}}}

func (s *sleepState) earliest(shard int) int8 {
	for at := range int8(exploreNever) {
		if s.wheel[shard]>>at&1 != 0 {
			return at
		}
	}
	return exploreNever
}

// arm takes one step of an armer and reports whether it could.
func (s *sleepState) arm(i int, m sleepMutant) bool {
	a := &s.armer[i]
	if int(a.done) == len(armings[i]) {
		return false
	}
	op := armings[i][a.done]
	switch a.pc {
	case armSchedule:
		if s.lock[op.shard] {
			return false
		}
		s.lock[op.shard] = true
		s.wheel[op.shard] |= 1 << op.at
		a.seen = s.sleep
		a.pc = armReadSleep
		if m == armReadsFirst {
			return true // next is stored one step later
		}
		s.next[op.shard] = min(s.next[op.shard], op.at)
	case armReadSleep:
		if m == armReadsFirst {
			s.next[op.shard] = min(s.next[op.shard], op.at)
		} else {
			a.seen = s.sleep
		}
		a.earlier = s.next[op.shard] == op.at && op.at < a.seen
		a.pc = armUnlock
	case armUnlock:
		s.lock[op.shard] = false
		a.pc = armWake
	case armWake:
		s.token = s.token || a.earlier && m != armWakesNobody
		*a = armer{done: a.done + 1}
	}
	return true
}

// drive takes one step of the driver and reports whether it could.
func (s *sleepState) drive(m sleepMutant) bool {
	d := &s.driver
	switch d.pc {
	case fire0, fire1:
		shard := int(d.pc - fire0)
		if s.next[shard] <= exploreNow {
			if s.lock[shard] {
				return false
			}
			s.wheel[shard] &^= 1<<(exploreNow+1) - 1
			s.next[shard] = s.earliest(shard)
		}
	case read0:
		d.until = s.next[0]
	case read1:
		d.until = min(d.until, s.next[1])
		if m == settleStoresLast {
			d.pc = reread0
			return true
		}
	case storeSleep:
		s.sleep = d.until
		if m == settleReadsOnce || m == settleStoresLast {
			d.pc = waiting
			return true
		}
	case reread0:
		d.again = s.next[0]
	case reread1:
		d.again = min(d.again, s.next[1])
	case decide:
		lower := d.again < d.until
		d.until = min(d.until, d.again)
		d.again = 0
		d.pc = waiting
		if lower || m == settleStoresLast {
			d.pc = storeSleep
		}
		return true
	case waiting:
		if d.until > exploreNow {
			if !s.token {
				return false
			}
			s.token = false
		}
	case clearSleep:
		s.sleep = 0
		*d = driver{}
		return true
	}
	d.pc++
	return true
}

// lost reports whether the driver sleeps too long and nobody will wake it.
func (s *sleepState) lost() bool {
	return s.driver.pc == waiting && s.driver.until > min(s.earliest(0), s.earliest(1))
}

// explore returns how many states there are, and how many of those at the end are lost.
func explore(m sleepMutant) (states, ends, lost int) {
	first := sleepState{next: [2]int8{exploreNever, exploreNever}}
	seen := map[sleepState]bool{first: true}
	for todo := []sleepState{first}; len(todo) > 0; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		states++
		end := true
		for who := range 3 {
			next := s
			moved := false
			if who < 2 {
				moved = next.arm(who, m)
			} else {
				moved = next.drive(m)
			}
			if moved {
				end = false
				if !seen[next] {
					seen[next] = true
					todo = append(todo, next)
				}
			}
		}
		if end {
			ends++
			if s.lost() {
				lost++
			}
		}
	}
	return states, ends, lost
}

func TestNoInterleavingLosesAWakeUp(t *testing.T) {
	states, ends, lost := explore(sleepRight)
	if states < 1000 || ends == 0 || lost > 0 {
		t.Errorf("%d states, %d ends, in %d of them the driver sleeps too long", states, ends, lost)
	}
	for _, m := range []sleepMutant{settleReadsOnce, settleStoresLast, armReadsFirst, armWakesNobody} {
		if _, _, lost := explore(m); lost == 0 {
			t.Errorf("wrong version %d: found nothing; the exploration is blind", m)
		}
	}
}
