package main

import (
	"slices"
	"sync/atomic"
	"time"
)

// timerNames are the timers of each actor.
var timerNames = []string{"timer-0", "timer-1", "timer-2", "timer-3", "timer-4", "timer-5", "timer-6", "timer-7"}

const (
	timerRounds = 8         // of one churn: so often each timer is stopped and started anew
	timerLong   = time.Hour // until a timer is due that is not to fire
	timerSoon   = 300 * time.Millisecond
)

// timerSet is the timers of an actor, used in its turns. start makes one that is due
// once, of a name that has none; stop ends the one of that name, if there is one.
type timerSet interface {
	start(name string, d time.Duration)
	stop(name string)
}

// timerPhase is what an actor is to do with its timers.
type timerPhase int

const (
	timersFill  timerPhase = iota // start all
	timersChurn                   // stop each and start it anew, timerRounds times
	timersEnd                     // leave every second one, which then is due soon
)

var (
	timerStepped = make(chan struct{}, 1) // a step of timersFill or timersEnd is over
	timerFires   []atomic.Int32           // of each name of each actor
)

// Step is called by an actor for each message of Peer.Timers.
func (r *receivers) Step(actor int, phase timerPhase, t timerSet) {
	switch phase {
	case timersFill:
		for _, name := range timerNames {
			t.start(name, timerLong)
		}
		timerStepped <- struct{}{}
	case timersChurn:
		for range timerRounds {
			for _, name := range timerNames {
				t.stop(name)
				t.start(name, timerLong)
			}
			r.actors[actor].pairs.Add(int64(len(timerNames)))
		}
		r.Recv(actor, 0)
	case timersEnd:
		for i, name := range timerNames {
			t.stop(name)
			t.start(name, timerSoon)
			if !isLeft(i) {
				t.stop(name)
			}
		}
		timerStepped <- struct{}{}
	}
}

// Fired is called by an actor for each callback of a timer.
func (r *receivers) Fired(actor int, name string) {
	timerFires[actor*len(timerNames)+slices.Index(timerNames, name)].Add(1)
}

// measureTimers counts pairs of a stop and a start while all timers of all actors are
// started, and then checks that those that are left fire.
func measureTimers(p Peer) {
	if p.Timers == nil {
		skip(p)
		return
	}
	*fWindow = min(*fWindow, 256) // a message is worth many
	timerFires = make([]atomic.Int32, *fActors*len(timerNames))
	chunk := startReceivers()
	step, stop := p.Timers(*fActors)
	stepAll(p, step, timersFill)
	measureSends(p, chunk, func(producer, actor int, _ int64) { step(producer, actor, timersChurn) }, env.pairs)
	stepAll(p, step, timersEnd)
	checkFires(p)
	end(stop)
}

func (r *receivers) pairs() (n int64) {
	for i := range r.actors {
		n += r.actors[i].pairs.Load()
	}
	return n
}

// stepAll has one actor after the other do it: where all wait for one lock, a timer would
// be due between its start and its stop.
func stepAll(p Peer, step func(producer, actor int, phase timerPhase), phase timerPhase) {
	end := time.After(40 * time.Second)
	for a := range *fActors {
		step(0, a, phase)
		select {
		case <-timerStepped:
		case <-end:
			warn(p, "only %d actors of %d have done what they should with their timers", a, *fActors)
			return
		}
	}
}

// checkFires waits for the timers that were left, and as long again for others.
func checkFires(p Peer) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && wrongFires(1) > 0; {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(timerSoon)
	if late, others := wrongFires(1), wrongFires(0); late+others > 0 {
		warn(p, "of timers that were left %d did not fire once, of those that were stopped %d fired", late, others)
	}
}

// isLeft says of the timers of timersEnd, numbered on over all actors, which is left.
func isLeft(i int) bool { return i%2 == 0 }

// wrongFires counts the timers that did not fire as often as they should: of those that were
// left once, of the others never.
func wrongFires(times int32) (wrong int) {
	for i := range timerFires {
		if isLeft(i) == (times == 1) && timerFires[i].Load() != times {
			wrong++
		}
	}
	return wrong
}
