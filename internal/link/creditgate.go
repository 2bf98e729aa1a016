package link

import (
	"errors"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/invariant"
	"github.com/zlnode/zlnode/internal/mpsc"
)

var (
	// ErrGateClosed: the link is gone; the operation ends Unavailable.
	ErrGateClosed = errors.New("link: closed while a record waited for credit")
	// ErrGateFull: all places in line are taken; the operation ends
	// CapacityExceeded.
	ErrGateFull = errors.New("link: too many records wait for credit")
)

// CreditGate is CreditSender for many producers, with a line for those that
// cannot pay at once. Safe for concurrent use; nothing in it blocks.
//
// The line is served in order and nobody passes it: as long as somebody waits,
// TryTake refuses even what could be paid, so that a stream of small records
// cannot starve a large one.
//
// Law: when no call is in progress and somebody waits, the credit left is less
// than the first in line needs. Whatever could break the law runs serve after
// it did so:
//
//   - Give adds to left, then reads waiting. Await adds to waiting, then serve
//     reads left. Atomic operations have one order, so either Give sees the
//     waiter and serves, or the waiter's own look at left sees the credit.
//   - Cancel, and serve itself, put another waiter first; both look again.
//   - TryTake may read waiting just before somebody comes and take after it;
//     that only lowers left, which cannot break the law.
//
// And serve loses no call: see there. The tests run the steps between calls of
// step in every order.
type CreditGate struct {
	window     int64
	waitersMax int64
	left       atomic.Int64
	waiting    atomic.Int64 // places taken in line; one for ever after Close
	closed     atomic.Bool

	calls atomic.Int64 // of serve since somebody serves; 0: nobody does
	line  mpsc.Queue[*Waiter]
	first *Waiter // taken out of line, not yet served; nil if none. Server only.
}

// Waiter is one place in a gate's line.
type Waiter struct {
	n     int64
	ready func(error)
	done  atomic.Bool // served or cancelled, whichever set it
	node  mpsc.Node[*Waiter]
}

// NewCreditGate returns a gate for a link whose peer granted window bytes, with
// at most waitersMax places in line.
func NewCreditGate(window, waitersMax int) *CreditGate {
	g := &CreditGate{window: int64(window), waitersMax: int64(waitersMax)}
	g.left.Store(g.window)
	g.line.Init()
	return g
}

// TryTake pays for a record of n bytes, or reports false and takes nothing:
// there is too little credit, others wait already, or the gate is closed.
func (g *CreditGate) TryTake(n int) bool {
	step()
	return g.waiting.Load() == 0 && g.take(int64(n))
}

func (g *CreditGate) take(n int64) bool {
	for {
		step()
		left := g.left.Load()
		if left < n {
			return false
		}
		step()
		if g.left.CompareAndSwap(left, left-n) {
			return true
		}
	}
}

// Await takes a place in line for a record of n bytes, which must not be more
// than the window. ready is called once, unless Cancel comes first: with nil
// when the credit is taken for this waiter, with ErrGateClosed when there will
// be none. It runs on the goroutine that made it true, perhaps before Await
// returns, and must not block.
//
// Await returns ErrGateClosed or ErrGateFull if there is no place; ready is not
// called then.
func (g *CreditGate) Await(n int, ready func(error)) (*Waiter, error) {
	invariant.Check(int64(n) <= g.window, "a record of %d bytes never passes a window of %d", n, g.window)
	step()
	if g.closed.Load() {
		return nil, ErrGateClosed
	}
	step()
	if g.waiting.Add(1) > g.waitersMax {
		g.waiting.Add(-1)
		return nil, ErrGateFull
	}
	w := &Waiter{n: int64(n), ready: ready}
	w.node.Value = w
	step()
	g.line.Push(&w.node)
	g.serve()
	return w, nil
}

// Cancel gives the place of w up. It returns false if that is too late: ready
// was or will be called, and if it says that credit was taken, the caller uses
// it or, sending nothing, gives it back with PutBack.
//
// A cancelled place is free again once it is the first. Waiters that give up
// after the same time do so in the order of the line, so places do not pile up.
func (g *CreditGate) Cancel(w *Waiter) bool {
	step()
	if !w.done.CompareAndSwap(false, true) {
		return false
	}
	g.serve() // w keeps its place until it is the first; it may be now
	return true
}

// Give adds n bytes that the peer returned. It returns ErrCreditOverflow if
// that is more than was taken.
func (g *CreditGate) Give(n uint64) error {
	step()
	if n > uint64(g.window) || g.left.Add(int64(n)) > g.window {
		return ErrCreditOverflow
	}
	step()
	if g.waiting.Load() != 0 {
		g.serve()
	}
	return nil
}

// PutBack returns credit that was taken for a record that is not sent.
func (g *CreditGate) PutBack(n int) {
	err := g.Give(uint64(n))
	invariant.Check(err == nil, "put %d bytes of credit back that were not taken", n)
}

// Close ends the line with ErrGateClosed. Nothing can be taken afterwards.
func (g *CreditGate) Close() {
	step()
	if g.closed.CompareAndSwap(false, true) {
		step()
		g.waiting.Add(1)
		g.serve()
	}
}

// Left returns the bytes that can be taken, as a moment's view for metrics.
func (g *CreditGate) Left() int { return int(g.left.Load()) }

// serve hands credit to the front of the line as far as it goes. One caller at a
// time does it, the one that raised calls from 0; the others leave their call
// in the count and go. The server stops only by setting the count it saw before
// its last look back to 0, which fails if a call came during the look: then it
// looks again. So everything that a caller did before its call is seen by a look
// that begins after it.
func (g *CreditGate) serve() {
	step()
	if g.calls.Add(1) != 1 {
		return
	}
	for seen := int64(1); ; seen = g.calls.Load() {
		for g.serveFirst() {
		}
		step()
		if g.calls.CompareAndSwap(seen, 0) {
			return
		}
	}
}

// serveFirst serves or drops the first in line and reports whether it did.
// Server only.
func (g *CreditGate) serveFirst() bool {
	if g.first == nil {
		step()
		node := g.line.Pop()
		if node == nil {
			return false // empty, or a push is not finished: its caller will call serve
		}
		g.first = node.Value
	}
	w := g.first
	step()
	switch {
	case w.done.Load(): // cancelled
		g.leave()
	case g.closed.Load():
		g.leave()
		step()
		if w.done.CompareAndSwap(false, true) {
			w.ready(ErrGateClosed)
		}
	case g.take(w.n):
		g.leave()
		step()
		if w.done.CompareAndSwap(false, true) {
			w.ready(nil)
		} else {
			step()
			g.left.Add(w.n) // cancelled since we looked; the next look sees it
		}
	default:
		return false
	}
	return true
}

// leave frees the place of the first in line. Server only.
func (g *CreditGate) leave() {
	g.first = nil
	step()
	g.waiting.Add(-1)
}
