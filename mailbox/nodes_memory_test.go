package mailbox

import (
	"math/bits"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
)

// live returns the bytes that the collector could not free.
func live() int64 {
	runtime.GC()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// content is as large as a message of a node.
type content [28]uint64

// One message that stays does not keep alive what later ones used and gave back.
func TestAUsedNodeKeepsNoOtherAlive(t *testing.T) {
	p := startPool(t, Config{Workers: 1})
	entered, leave := make(chan struct{}), make(chan struct{})
	stuck := New(p, &funcs[content]{consume: func(c *Claim[content], _ content) {
		c.Blocking(func() { close(entered); <-leave })
	}}, Limits{})

	in, out := make(chan struct{}), make(chan struct{})
	m := New(p, &funcs[content]{consume: func(c *Claim[content], v content) {
		if v[0] == 1 {
			c.Blocking(func() { in <- struct{}{}; <-out })
		}
	}}, Limits{})
	hold := func() { mustPush(t, m, content{1}); wait(t, in, "the turn") }

	before := live()
	hold()
	mustPush(t, stuck, content{})
	wait(t, entered, "the turn that stays")
	const rounds = 100
	for range rounds {
		mustPush(t, m, content{}) // from what there is
		runtime.GC()
		runtime.GC()              // the rest of it goes
		mustPush(t, m, content{}) // from a new slab
		mustPush(t, m, content{1})
		out <- struct{}{}
		wait(t, in, "the next turn")
	}
	out <- struct{}{}
	eventually(t, "all ran", func() bool { return m.Len() == 0 })
	grown := live() - before
	if grown > 1<<20 {
		t.Errorf("%d KiB stay for one message in use", grown>>10)
	}
	close(leave)
	eventually(t, "the stuck one ran", func() bool { return stuck.Len() == 0 })
}

// missing takes all blocks from the list and counts their nodes that are not free.
func missing[T any](s *nodes[T]) (n int) {
	for {
		b, _ := s.blocks.Get().(*block[T])
		if b == nil {
			return n
		}
		n += len(b.nodes) - bits.OnesCount64(b.have|b.free.Load()&^listed)
	}
}

func TestNoNodeIsLostByTheLane(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool forgets at random under the race detector")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	p := startPool(t, Config{Workers: 1})
	h := newHeld()
	block := h.consume
	h.consume = func(c *Claim[int], v int) {
		if v == 1 {
			block(c, v)
		}
	}
	m := New(p, h, Limits{})
	for range 20 {
		mustPush(t, m, 1)
		wait(t, h.entered, "the turn")
		for range 9 {
			m.PushLifecycle(0)
		}
		h.leave <- struct{}{}
		mustPush(t, m, 1)
		wait(t, h.entered, "the turn")
		h.leave <- struct{}{}
		eventually(t, "rest", func() bool { return m.Len() == 0 && p.Stats().Running == 0 })
	}
	if missing := missing(m.nodes); missing != 0 {
		t.Errorf("%d nodes never came back", missing)
	}
}

func TestEachNodeComesBackFromTurnsThatYieldJoinBlock(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool forgets at random under the race detector")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, procs := range []int{1, 2, 4} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		p := startPool(t, Config{Workers: 3})
		g, other := NewGroup(p), NewGroup(p)
		ms := make([]*Mailbox[int], 12)
		var left sync.WaitGroup
		for i := range ms {
			in := other
			group := i%3 != 0
			f := &funcs[int]{consume: func(c *Claim[int], v int) {
				defer left.Done()
				switch {
				case !group:
					if v%17 == 0 {
						c.Blocking(runtime.Gosched)
					}
				case v%5 == 0 && i%3 == 1:
					c.YieldAll(runtime.Gosched)
				case v%7 == 0:
					c.Yield(runtime.Gosched)
				case v%31 == 0 && i%3 == 2:
					c.Join(in)
					if in == g {
						in = other
					} else {
						in = g
					}
				}
			}}
			if group {
				ms[i] = NewIn[int](g, f, Limits{})
			} else {
				ms[i] = New(p, f, Limits{})
			}
		}
		const producers, each = 4, 4000
		left.Add(producers * each)
		for k := range uint64(producers) {
			go func() {
				r := rand.New(rand.NewPCG(k, 7))
				for range each {
					m := ms[r.IntN(len(ms))]
					for m.Push(r.IntN(1000), 0) != nil {
						runtime.Gosched()
					}
				}
			}()
		}
		left.Wait()
		eventually(t, "rest", func() bool {
			n := 0
			for _, m := range ms {
				n += m.Len()
			}
			return n == 0 && p.Stats().Running == 0
		})
		// Those that other processors keep for themselves, one block each, are not looked at.
		if missing := missing(ms[0].nodes) + missing(g.members.nodes); missing != 0 {
			t.Errorf("with %d processors %d nodes never came back", procs, missing)
		}
	}
}

// Long waits among ordinary traffic: of each 100 messages five stay.
func TestLongWaitsAmongTrafficKeepABoundedMultiple(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool forgets at random under the race detector")
	}
	p := startPool(t, Config{Workers: 2})
	entered, leave := make(chan struct{}), make(chan struct{})
	first := true
	slow := New(p, &funcs[content]{consume: func(c *Claim[content], _ content) {
		if first {
			first = false
			c.Blocking(func() { close(entered); <-leave })
		}
	}}, Limits{})
	quick := New(p, &funcs[content]{}, Limits{})
	mustPush(t, slow, content{})
	wait(t, entered, "the turn")
	before := live()
	const cycles, stay = 200, 5
	for range cycles {
		for i := range 100 {
			if i%20 == 0 {
				mustPush(t, slow, content{})
			} else {
				for quick.Push(content{}, 0) != nil {
					runtime.Gosched()
				}
			}
			eventually(t, "it ran", func() bool { return quick.Len() == 0 })
		}
		runtime.GC()
	}
	grown := live() - before
	counted := int64(cycles * stay * messageOverhead)
	if grown > 16*counted {
		t.Errorf("%d messages that wait hold %d KiB, %.1f times what the budget counts", cycles*stay, grown>>10, float64(grown)/float64(counted))
	}
	close(leave)
	eventually(t, "all ran", func() bool { return slow.Len() == 0 })
}
