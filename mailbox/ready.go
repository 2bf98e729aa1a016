package mailbox

import (
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/mpsc"
)

// gate is the part of a mailbox that the ready set and the workers know. Whoever
// made the mailbox ready puts it in; taking it out is the exclusive claim.
type gate struct {
	link  mpsc.Node[*gate]
	home  *shard
	group *Group // in which it waits instead of in home; the claim's holder sets it
	owner interface{ run(w *worker) }
}

// readySet holds the mailboxes that have work and no worker. It has one shard for
// each place, and each mailbox has a home among them: so producers and workers
// meet on one cache line only where they have to. Each shard is first in, first
// out. A worker serves the shard of its place first, and every strayEvery-th time
// another one in turn, so that no shard depends on one worker.
type readySet struct {
	shards []shard
	homes  atomic.Uint32
}

const strayEvery = 16

type shard struct {
	// n is the number of gates whose put has ended, less those taken: a gate may be
	// taken before its put has counted it, so n may be below 0 for a moment. After
	// it was counted, n is above 0 until it is taken.
	n      atomic.Int64
	taking atomic.Bool // held by the one worker that pops, never waited for
	queue  mpsc.Queue[*gate]
	_      [24]byte // a put and a take of different shards share no cache line
}

func (r *readySet) init(places int) {
	r.shards = make([]shard, places)
	for i := range r.shards {
		r.shards[i].queue.Init()
	}
}

func (g *gate) init(owner interface{ run(w *worker) }, home *shard) {
	g.link.Value = g
	g.owner = owner
	g.home = home
}

// shard returns the home of a new mailbox.
func (r *readySet) shard() *shard {
	return &r.shards[int(r.homes.Add(1)-1)%len(r.shards)]
}

// put appends g. Once it has returned, any reports true until g is taken.
func (s *shard) put(g *gate) {
	s.queue.Push(&g.link)
	s.n.Add(1)
}

// take removes the oldest gate. It returns nil, too, if another worker is just
// taking one, or if the oldest one's put has not ended: so nil is no proof that
// nothing waits, and a worker asks any after it has given up its place.
func (s *shard) take() *gate {
	if s.n.Load() <= 0 || !s.taking.CompareAndSwap(false, true) {
		return nil
	}
	n := s.queue.Pop()
	s.taking.Store(false)
	if n == nil {
		return nil
	}
	s.n.Add(-1)
	return n.Value
}

// any reports whether a gate waits.
func (r *readySet) any() bool {
	for i := range r.shards {
		if r.shards[i].n.Load() > 0 {
			return true
		}
	}
	return false
}

// len returns about how many gates wait.
func (r *readySet) len() (n int) {
	for i := range r.shards {
		n += int(max(0, r.shards[i].n.Load()))
	}
	return n
}
