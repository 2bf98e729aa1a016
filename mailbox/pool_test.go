package mailbox

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// stand is a set of mailboxes whose first turns all wait for release.
type stand struct {
	entered chan int
	release chan struct{}
	left    sync.WaitGroup
}

func newStand(t *testing.T, p *Pool, mailboxes int, blocking bool) *stand {
	s := &stand{entered: make(chan int, mailboxes), release: make(chan struct{})}
	s.left.Add(mailboxes)
	for i := range mailboxes {
		m := New(p, &funcs[int]{consume: func(c *Claim[int], v int) {
			turn := func() {
				s.entered <- v
				<-s.release
			}
			if blocking {
				c.Blocking(turn)
			} else {
				turn()
			}
			s.left.Done()
		}}, Limits{})
		mustPush(t, m, i)
	}
	return s
}

func testBlockedTurns(t *testing.T, blocking bool) {
	const workers, mailboxes = 2, 30
	p := startPool(t, Config{Workers: workers})
	s := newStand(t, p, mailboxes, blocking)
	for range mailboxes {
		wait(t, s.entered, "a turn that waits")
	}
	// More turns wait than there are workers; others still run.
	done := make(chan struct{})
	m := New(p, &funcs[int]{consume: func(_ *Claim[int], v int) {
		if v == 99 {
			close(done)
		}
	}}, Limits{})
	for v := range 100 {
		mustPush(t, m, v)
	}
	wait(t, done, "a mailbox beside those that wait")
	if st := p.Stats(); st.Blocked < mailboxes-workers || st.Lent < mailboxes-workers {
		t.Errorf("%+v while %d turns wait", st, mailboxes)
	}
	close(s.release)
	s.left.Wait()
	eventually(t, "the surplus workers have ended", func() bool {
		st := p.Stats()
		return st.Running == 0 && st.Blocked == 0 && st.Workers <= workers && st.Workers == st.Parked
	})
}

func TestWaitsThatThePoolKnowsOfStopTheirMailboxOnly(t *testing.T) { testBlockedTurns(t, true) }

func TestWaitsThatThePoolDoesNotKnowOfStopTheirMailboxOnly(t *testing.T) { testBlockedTurns(t, false) }

func TestOneStuckWorkerIsReplacedWhileTheOthersAreBusy(t *testing.T) {
	p := startPool(t, Config{Workers: 2})
	s := newStand(t, p, 1, false)
	wait(t, s.entered, "the turn that waits")
	// Two mailboxes that keep each other busy.
	var ms [2]*Mailbox[int]
	var ended atomic.Bool
	for i := range ms {
		ms[i] = New(p, &funcs[int]{consume: func(_ *Claim[int], v int) {
			if !ended.Load() {
				mustPush(t, ms[1-i], v)
			}
		}}, Limits{})
	}
	for v := range 4 {
		mustPush(t, ms[v%2], v)
	}
	eventually(t, "the stuck worker's place is lent", func() bool { return p.Stats().Lent > 0 })
	ended.Store(true)
	close(s.release)
	s.left.Wait()
}

func TestAWaitThatBeginsInAnIdlePoolIsFoundWhenItMatters(t *testing.T) {
	p := startPool(t, Config{Workers: 1})
	s := newStand(t, p, 1, false)
	wait(t, s.entered, "the turn that waits")
	eventually(t, "the monitor sleeps, since nothing waits", func() bool { return !p.watching.Load() })
	done := make(chan struct{})
	mustPush(t, New(p, &funcs[int]{consume: func(*Claim[int], int) { close(done) }}, Limits{}), 0)
	wait(t, done, "a mailbox beside the one that waits")
	close(s.release)
	s.left.Wait()
}

func TestAWorkerWhosePlaceWasTakenEndsItsClaim(t *testing.T) {
	p := startPool(t, Config{Workers: 1, TimeBudget: time.Hour})
	entered, release := make(chan struct{}), make(chan struct{})
	second := New(p, &funcs[int]{consume: func(*Claim[int], int) {
		close(entered)
		<-release // with the only place
	}}, Limits{})
	numbers := make(chan uint64, 2)
	first := New(p, &funcs[int]{consume: func(c *Claim[int], v int) {
		numbers <- c.Number()
		if v == 0 {
			c.Blocking(func() {
				mustPush(t, second, 0)
				wait(t, entered, "the turn that takes the place")
			})
		}
	}}, Limits{})
	mustPush(t, first, 0)
	mustPush(t, first, 1)
	a, b := wait(t, numbers, "the first turn"), wait(t, numbers, "the second turn")
	if a == b {
		t.Error("the claim went on without a place")
	}
	close(release)
}

func TestNestedBlockingLendsOnce(t *testing.T) {
	p := startPool(t, Config{Workers: 1})
	done := make(chan Stats, 1)
	m := New(p, &funcs[int]{consume: func(c *Claim[int], _ int) {
		c.Blocking(func() {
			c.Blocking(func() {})
			// Still lent: another mailbox can run.
			other := make(chan struct{})
			mustPush(t, New(p, &funcs[int]{consume: func(*Claim[int], int) { close(other) }}, Limits{}), 0)
			wait(t, other, "a mailbox beside the outer Blocking")
		})
		done <- p.Stats()
	}}, Limits{})
	mustPush(t, m, 0)
	if st := wait(t, done, "the turn"); st.Lent != 1 {
		t.Errorf("lent %d times, want once", st.Lent)
	}
}

func TestMaxWorkersBoundsThoseThatStandIn(t *testing.T) {
	const most, mailboxes = 3, 8
	p := startPool(t, Config{Workers: 1, MaxWorkers: most})
	s := newStand(t, p, mailboxes, true)
	for range most {
		wait(t, s.entered, "a turn")
	}
	if st := p.Stats(); st.Workers != most || st.Ready != mailboxes-most || len(s.entered) != 0 {
		t.Errorf("%+v and %d more turns with %d workers", st, len(s.entered), most)
	}
	close(s.release)
	s.left.Wait() // those that waited for a worker run, too
}

func TestABusyMailboxLetsOthersRun(t *testing.T) {
	p := startPool(t, Config{Workers: 1, MaxWorkers: 1, TimeBudget: time.Microsecond})
	other := make(chan struct{})
	end := make(chan int)
	turns := 0
	m := New(p, &funcs[int]{consume: func(c *Claim[int], _ int) {
		if turns++; turns == 1 {
			mustPush(t, New(p, &funcs[int]{consume: func(*Claim[int], int) { close(other) }}, Limits{}), 0)
		}
		select {
		case <-other:
			end <- turns
		default:
			c.m.PushControl(0) // never empty
		}
	}}, Limits{})
	mustPush(t, m, 0)
	// A microsecond is over after some dozen turns, and never after so many.
	if n := wait(t, end, "the other mailbox"); n > 10_000 {
		t.Errorf("the other mailbox ran after %d turns only", n)
	}
}

func TestReadySetIsFirstInFirstOut(t *testing.T) {
	var r readySet
	r.init(1)
	gates := make([]gate, 5)
	for i := range gates {
		gates[i].init(nil, r.shard())
		r.shards[0].put(&gates[i])
	}
	for i := range gates {
		if g := r.shards[0].take(); g != &gates[i] {
			t.Fatalf("take %d: another gate", i)
		}
		r.shards[0].put(&gates[i])
	}
	if n := r.len(); n != len(gates) || !r.any() {
		t.Errorf("%d gates wait, want %d", n, len(gates))
	}
}

func TestAMailboxIsTakenThoughItsWorkerIsAway(t *testing.T) {
	const places = 4
	p := &Pool{}
	p.ready.init(places)
	w := &worker{pool: p} // of the first place
	busy, waiting := new(gate), new(gate)
	busy.init(nil, &p.ready.shards[0])
	waiting.init(nil, &p.ready.shards[places-1])
	busy.home.put(busy)
	waiting.home.put(waiting)
	for range strayEvery * places {
		g := p.take(w)
		if g == waiting {
			return
		}
		g.home.put(g)
	}
	t.Error("the worker never looked beyond its own shard, which is never empty")
}

func TestCloseUnderLoadEndsEveryTurn(t *testing.T) {
	p := NewPool(Config{Workers: 3})
	var inside atomic.Int64
	var ms []*Mailbox[int]
	for range 20 {
		ms = append(ms, New(p, &funcs[int]{consume: func(c *Claim[int], v int) {
			inside.Add(1)
			if v%7 == 0 {
				c.Blocking(func() {})
			}
			inside.Add(-1)
		}}, Limits{}))
	}
	stop, closed := make(chan struct{}), make(chan struct{})
	var producers sync.WaitGroup
	for range 3 {
		producers.Go(func() {
			for v := 0; ; v++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := ms[v%len(ms)].Push(v, 10); err != nil && !errors.Is(err, ErrFull) {
					t.Error(err)
				}
			}
		})
	}
	eventually(t, "some turns have run", func() bool { return p.Stats().Turns > 1000 })
	go func() {
		closePool(t, p)
		close(closed)
	}()
	closePool(t, p) // twice at once
	wait(t, closed, "the other Close")
	if n := inside.Load(); n != 0 {
		t.Errorf("%d turns run after Close", n)
	}
	close(stop)
	producers.Wait()
	if st := p.Stats(); st.Workers != 0 || st.Running != 0 {
		t.Errorf("%+v after Close", st)
	}
}

func TestCloseWaitsNoLongerThanItsContext(t *testing.T) {
	p := NewPool(Config{Workers: 2})
	s := newStand(t, p, 1, true)
	wait(t, s.entered, "the turn")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := p.Close(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 workers") {
		t.Errorf("Close with a turn that waits: %v", err)
	}
	close(s.release)
	closePool(t, p)
}

func TestAPoolThatIsIdleHasOnlyParkedWorkers(t *testing.T) {
	p := startPool(t, Config{Workers: 2})
	if st := p.Stats(); st != (Stats{}) {
		t.Errorf("a new pool: %+v", st)
	}
	done := make(chan struct{})
	m := New(p, &funcs[int]{consume: func(_ *Claim[int], v int) {
		if v == 9 {
			close(done)
		}
	}}, Limits{})
	for v := range 10 {
		mustPush(t, m, v)
	}
	wait(t, done, "the messages")
	eventually(t, "the pool is at rest", func() bool {
		st := p.Stats()
		return st.Running == 0 && st.Ready == 0 && st.Parked == st.Workers && st.Turns == 10
	})
	eventually(t, "the monitor sleeps", func() bool { return !p.watching.Load() })
}

func TestDefaultsAreFilledIn(t *testing.T) {
	p := startPool(t, Config{Workers: 10, MaxWorkers: 2})
	if p.cfg.MaxWorkers != 10 || p.cfg.TimeBudget != defaultTimeBudget {
		t.Errorf("%+v", p.cfg)
	}
}

func TestShortTurnsAreTimedTogetherAndLongOnesEach(t *testing.T) {
	var s slice
	s.every = 1
	now := clock.Mono(0)
	read := func(d time.Duration) int {
		now = now.Add(d)
		s.read(now)
		return s.every
	}
	for _, want := range []int{2, 4, 8, 8} {
		if got := read(100); got != want {
			t.Fatalf("next reading after %d turns, want %d", got, want)
		}
	}
	if got := read(8*shortTurn - 1); got != 8 {
		t.Errorf("next reading after %d turns that are just short, want 8", got)
	}
	if got := read(8 * shortTurn); got != 1 {
		t.Errorf("next reading after %d long turns, want 1", got)
	}
}

func TestALateTickLendsOnePlaceAtMost(t *testing.T) {
	p := &Pool{cfg: Config{Workers: 8}}
	if n := p.mayLend(stallAfter); n != 8 {
		t.Errorf("%d places after a tick in time", n)
	}
	if n := p.mayLend(2*stallAfter + 1); n != 1 {
		t.Errorf("%d places after a late tick", n)
	}
}
