package mailbox

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// pace spares the producers of a stream. If messages come about as fast as turns
// take, each look into the inbox finds a few, and takes the cache line from the
// producers, which costs both sides more than the messages do. So after some such
// looks in a row the holder of the claim pauses before each further one and finds
// more at once: BenchmarkPushConsume with one producer takes a third less time that
// way, for at most pauseTime of delay. A pause that brings nothing, as with a
// consumer that sends to itself, is the last one of its claim, and there is none
// while other mailboxes wait.
type pace struct {
	turns  uint64 // the worker's, at the last look
	few    int    // looks in a row that found few messages
	paused bool   // before the last look
	off    bool
}

const (
	fewMessages = 32
	fewLooks    = 4
	pauseTime   = 2 * time.Microsecond
	// A pause that finds no more than this was in vain.
	pauseInVain = 3
)

// due is called before each look into the inbox, with the turns that the worker
// has had. It reports whether a pause should come first.
func (p *pace) due(turns uint64) bool {
	found := turns - p.turns
	p.turns = turns
	p.off = p.off || p.paused && found <= pauseInVain
	if p.few++; found >= fewMessages {
		p.few = 0
	}
	p.paused = p.few > fewLooks && !p.off
	return p.paused
}

// pause waits without yielding: the wait is shorter than a yield might be, and the
// mailbox has messages most likely.
func (p *pace) pause() {
	for end := clock.Now().Add(pauseTime); !clock.Now().Reached(end); {
	}
}
