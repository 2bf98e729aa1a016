package engine

import (
	"fmt"
	"slices"
	"testing"
)

// This file walks through all states of a model of the token (sched.go, direct.go): two
// senders, each with one message, that use SendAlone or Send, the loop with a call of its own
// beside the dirty list, a socket that takes nothing for a while, and a Close. Each step of an
// actor is one access that others see; all orders of the steps are taken. The names of the
// steps are those of the functions that they are of.
//
// It is about the protocol: that the functions do the same, each access as one step, is to be
// kept by who changes them.

// schedState is all that there is. It is a value, so that a map tells which are known.
type schedState struct {
	sched  uint32
	listed int8 // entries in the dirty list
	// at says where each message is, and above which others it was put.
	at      [2]place
	order   [2]int8 // of the messages that were put, oldest first; message + 1
	shut    bool    // outQueue.close was called
	stop    bool    // Conn.stopping
	woken   bool    // Conn.writable
	full    bool    // the socket takes nothing
	armed   bool    // the watcher tells when it does
	blocked bool    // Conn.blocked
	closed  bool    // the descriptor

	sender [2]int8 // where each is in its code; see schedModel
	loop   int8
	owned  bool // of the loop's present call
	lent   bool
	read   int8 // calls of the loop that are to come by themselves: input, or a timer
	closer int8
}

type place int8

const (
	absent place = iota
	half         // on top, and its producer is still copying
	top
	takenHalf // taken by the loop or a writer before it was whole
	taken
	written
	dropped
)

// steps of a sender
const (
	entering int8 = iota // outQueue.put: enter, then the message's place, then its contents
	pushing
	copying
	seeking // sendAlone: the compare-and-swap; wantFlush
	writerTakes
	writerWrites
	writerLeaves
	writerHands // the token to the loop
	senderDone
)

// steps of the loop
const (
	loopIdle   int8 = iota
	loopClaims      // a call that comes by itself: Conn.claim
	loopPosts       // serve and finish: what was asked for besides the queue
	loopTakes       // flush: outQueue.take
	loopWrites
	loopGives // giveBack: the store
	loopLooks // hasWork
	loopEnds  // closeNow: the queue is shut
	loopAwaits
)

type schedModel struct {
	t     *testing.T
	alone [2]bool // which senders use SendAlone
	seen  map[schedState]bool
	path  []string
	rest  int // states in which nothing can happen any more
}

func (m *schedModel) fail(s *schedState, format string, args ...any) {
	m.t.Fatalf("%s\n%+v\nby %q", fmt.Sprintf(format, args...), *s, m.path)
}

// walk takes all steps that are possible in s.
func (m *schedModel) walk(s schedState) {
	if m.seen[s] {
		return
	}
	m.seen[s] = true
	if s.listed > 1 {
		m.fail(&s, "it is in the dirty list twice")
	}
	moved := false
	try := func(name string, step func(*schedState) bool) {
		next := s
		m.path = append(m.path, name)
		if step(&next) {
			moved = true
			m.walk(next)
		}
		m.path = m.path[:len(m.path)-1]
	}
	for i := range s.sender {
		try(fmt.Sprintf("sender %d at %d", i, s.sender[i]), func(n *schedState) bool { return m.send(n, i, false) })
		if s.sender[i] == writerWrites {
			try(fmt.Sprintf("sender %d at a full socket", i), func(n *schedState) bool { return m.send(n, i, true) })
		}
	}
	try(fmt.Sprintf("loop at %d", s.loop), func(n *schedState) bool { return m.turn(n, false) })
	if s.loop == loopWrites {
		try("loop at a full socket", func(n *schedState) bool { return m.turn(n, true) })
	}
	try("loop is called", func(n *schedState) bool {
		if n.loop != loopIdle || n.read == 0 {
			return false
		}
		n.read--
		n.loop = loopClaims
		return true
	})
	try("watcher", func(n *schedState) bool { // it tells, and takes the token if it can
		if !n.armed || n.closed {
			return false
		}
		n.full, n.armed, n.woken = false, false, true
		n.seek(0)
		return true
	})
	try(fmt.Sprintf("closer at %d", s.closer), func(n *schedState) bool {
		switch n.closer {
		case 1:
			n.shut, n.stop = true, true
		case 2:
			n.seek(0)
		default:
			return false
		}
		n.closer = (n.closer + 1) % 3
		return true
	})
	if moved {
		return
	}
	m.rest++
	for i, at := range s.at {
		if at != written && at != dropped && !(s.stop && at == absent) {
			m.fail(&s, "nothing moves any more, and message %d is at %d", i, at)
		}
	}
	if s.stop != s.closed {
		m.fail(&s, "nothing moves any more: asked to close %v, closed %v", s.stop, s.closed)
	}
	if s.sched&(tokenTaken|outWriter) != 0 && !s.closed {
		m.fail(&s, "nobody has the token and it is taken: %b", s.sched)
	}
}

// seek is Conn.seek, with the push that follows it.
func (s *schedState) seek(unless uint32) (taken, writer bool) {
	switch have := s.sched; {
	case have&(tokenTaken|unless) == 0:
		s.sched |= tokenTaken
		s.listed++
		return true, false
	case have&outWriter == 0:
		return false, false
	default:
		s.sched |= outAsked
		return false, true
	}
}

// take is outQueue.take: all on top is the consumer's then.
func (s *schedState) take() {
	for i, at := range s.at {
		switch at {
		case half:
			s.at[i] = takenHalf
		case top:
			s.at[i] = taken
		}
	}
}

func (s *schedState) onTop() bool { return s.holds(half, top) }
func (s *schedState) first() bool { return s.holds(takenHalf, taken) }
func (s *schedState) holds(at ...place) bool {
	return slices.Contains(at, s.at[0]) || slices.Contains(at, s.at[1])
}

// oldest is the first message that the consumer has taken; -1: none.
func (s *schedState) oldest() int {
	for _, m := range s.order {
		if m > 0 && (s.at[m-1] == taken || s.at[m-1] == takenHalf) {
			return int(m - 1)
		}
	}
	return -1
}

// waits is outQueue.waits, as a look without others between: only the consumer takes.
func (s *schedState) waits() bool {
	if !s.first() {
		s.take()
	}
	i := s.oldest()
	return i >= 0 && s.at[i] == taken
}

// write is the system call for one message. An older one goes first.
func (m *schedModel) write(s *schedState, i int) {
	if s.closed {
		m.fail(s, "written to a descriptor that is closed, or another's")
	}
	for _, before := range s.order {
		if int(before-1) == i {
			break
		}
		if before > 0 && s.at[before-1] != written {
			m.fail(s, "message %d is written before an older one", i)
		}
	}
	s.at[i] = written
}

// send is a step of a sender.
func (m *schedModel) send(s *schedState, i int, full bool) bool {
	at := &s.sender[i]
	switch *at {
	case entering:
		if *at = pushing; s.shut {
			*at = senderDone
		}
	case pushing:
		s.at[i] = half
		s.order[slices.Index(s.order[:], 0)] = int8(i + 1)
		*at = copying
	case copying:
		switch s.at[i] {
		case half:
			s.at[i] = top
		case takenHalf:
			s.at[i] = taken
		}
		*at = seeking
	case seeking:
		if m.alone[i] && s.sched == 0 {
			s.sched = tokenTaken | outWriter
			*at = writerTakes
			return true
		}
		s.seek(outBlocked)
		*at = senderDone
	case writerTakes: // write, and writeFirst up to the call
		switch *at = writerHands; {
		case s.shut:
		case !s.waits():
			*at = writerLeaves
		case s.at[0] == taken && s.at[1] == taken || s.holds(takenHalf): // not a single one
		default:
			*at = writerWrites
		}
	case writerWrites:
		if *at = writerHands; full {
			s.full = true // which the loop finds
			return true
		}
		if s.full {
			return true
		}
		m.write(s, s.oldest())
		*at = writerLeaves
	case writerLeaves:
		if *at = writerHands; s.sched == tokenTaken|outWriter {
			s.sched = 0
			*at = senderDone
		}
	case writerHands:
		if s.sched&(tokenTaken|outWriter) != tokenTaken|outWriter {
			m.fail(s, "a writer has lost the token: %b", s.sched)
		}
		s.sched = tokenTaken
		s.listed++
		*at = senderDone
	default:
		return false
	}
	return true
}

// turn is a step of the loop.
func (m *schedModel) turn(s *schedState, full bool) bool {
	switch s.loop {
	case loopIdle:
		if s.listed == 0 {
			return false
		}
		s.listed--
		s.owned, s.lent = true, false
		if s.loop = loopPosts; s.closed {
			m.drop(s)
			s.loop = loopGives
		}
	case loopClaims:
		if s.closed {
			s.loop = loopIdle
			return true
		}
		listed := s.listed
		s.owned, s.lent = s.seek(0)
		s.listed = listed // a claim hands the connection to nobody
		s.loop = loopPosts
	case loopPosts:
		if s.woken {
			s.woken, s.blocked = false, false
		}
		switch s.loop = loopTakes; {
		case s.stop:
			s.loop = loopEnds
		case s.blocked || s.lent:
			s.loop = loopGives
		}
	case loopTakes:
		if s.sched&outWriter != 0 {
			m.fail(s, "the loop has the queue beside a writer")
		}
		if s.loop = loopGives; s.waits() {
			s.loop = loopWrites
		}
	case loopWrites:
		s.loop = loopGives
		if full || s.full {
			s.full, s.blocked, s.armed = true, true, true
			return true
		}
		for i := s.oldest(); i >= 0 && s.at[i] == taken; i = s.oldest() {
			m.write(s, i)
		}
	case loopGives:
		if s.loop = loopIdle; !s.owned {
			return true
		}
		s.owned = false
		free := uint32(0)
		switch {
		case s.blocked:
			free = outBlocked
		case s.waits():
			s.listed++
			return true
		case s.first():
			free = outBegun
		}
		s.sched = free
		s.loop = loopLooks
	case loopLooks:
		s.loop = loopIdle
		writers := s.sched&(outBlocked|outBegun) == 0
		var work bool
		if s.closed {
			work = s.onTop() || s.waits()
		} else {
			work = s.stop || s.woken || !s.blocked && (writers && s.onTop() || !writers && s.waits())
		}
		if work {
			s.seek(0)
		}
	case loopEnds: // an Abort: in an orderly close the queue is written before
		s.shut = true
		s.loop = loopAwaits
	case loopAwaits:
		if s.sched&outWriter != 0 {
			return false
		}
		s.closed = true
		m.drop(s)
		s.loop = loopGives
	default:
		return false
	}
	return true
}

// drop is Conn.drop, of a connection that is closed. What is not whole yet stays.
func (m *schedModel) drop(s *schedState) {
	s.blocked, s.woken = false, false
	for s.waits() {
		s.at[s.oldest()] = dropped
	}
}

// No wake-up is lost, none has the queue beside another, and nobody writes to a descriptor
// that is closed, whatever the order in which senders, loop, watcher and Close come.
func TestTheTokenKeepsItsLawInEveryOrder(t *testing.T) {
	for _, alone := range [][2]bool{{true, true}, {true, false}, {false, false}} {
		for _, closer := range []int8{0, 1} {
			for _, read := range []int8{0, 1} {
				m := &schedModel{t: t, alone: alone, seen: map[schedState]bool{}}
				m.walk(schedState{closer: closer, read: read})
				t.Logf("alone %v, closes %d, called %d: %d states, %d ends", alone, closer, read, len(m.seen), m.rest)
			}
		}
	}
}
