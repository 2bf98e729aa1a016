package main

import (
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// entryOften is how many hops there are for each one to the Entry Spot.
const entryOften = 8

// traveller decides when a bot's player hops, and where to, and knows where it is.
// Not safe for concurrent use.
type traveller struct {
	every  time.Duration
	rooms  []roomPlace
	chance *rand.Rand

	due    time.Time
	room   string // where the player is; "": in an Entry Spot
	rid    string
	toward string // the node of the room that it is on its way to; "": it is not, or stays
}

// next returns the room to hop to, if it is time: any but the present one, or now and then
// the Entry Spot, which is "".
func (t *traveller) next(now time.Time) (room string, ok bool) {
	if len(t.rooms) == 0 || now.Before(t.due) {
		return "", false
	}
	t.due = now.Add(t.every/2 + time.Duration(t.chance.Int64N(int64(t.every))))
	if t.room != "" && t.chance.IntN(entryOften) == 0 {
		return "", true
	}
	others := make([]roomPlace, 0, len(t.rooms))
	for _, r := range t.rooms {
		if r.ID != t.room {
			others = append(others, r)
		}
	}
	if len(others) == 0 {
		return "", false
	}
	to := others[t.chance.IntN(len(others))]
	t.toward = to.RID
	return to.ID, true
}

// arrived takes where the player says that it is.
func (t *traveller) arrived(rid, room string) {
	t.rid, t.room, t.toward = rid, "", ""
	for _, r := range t.rooms {
		if r.ID == room {
			t.room = room
		}
	}
}

const outcomeRejected = "Rejected"

// hopMeter counts what became of all hops. Safe for concurrent use.
type hopMeter struct {
	within   atomic.Uint64 // a node
	crossed  atomic.Uint64
	rejected atomic.Uint64
	sealed   latency // from the capture of a player at one node to its first turn at another
	took     latency // from the end of the handler that asked for it to that
	seen     latency // from the op to its answer, at the client
	during   latency // from the packet to its answer, if the player was on its way to another node
	apart    latency // the same of other packets

	mu     sync.Mutex
	failed map[string]uint64 // by kind
}

func newHopMeter() hopMeter {
	return hopMeter{
		sealed: newLatency(), took: newLatency(), seen: newLatency(), during: newLatency(), apart: newLatency(),
		failed: map[string]uint64{},
	}
}

// ended counts a hop that was asked for at that time by the client's clock.
func (m *hopMeter) ended(h *hopped, since time.Duration) {
	switch {
	case h.Failure != "":
		m.mu.Lock()
		defer m.mu.Unlock()
		m.failed[h.Failure]++
	case h.Outcome == outcomeRejected:
		m.rejected.Add(1)
	case h.Crossed:
		m.crossed.Add(1)
		m.sealed.record(time.Duration(h.SealedNS))
		m.took.record(time.Duration(h.TookNS))
		m.seen.record(since)
	default:
		m.within.Add(1)
	}
}

// answered counts a packet's answer.
func (m *hopMeter) answered(s sent, now time.Time) {
	if s.hop != nil && s.hop.crossed {
		m.during.record(now.Sub(s.at))
	} else if s.hop == nil {
		m.apart.record(now.Sub(s.at))
	}
}

// failures returns how many failed, by kind.
func (m *hopMeter) failures() map[string]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.failed)
}
