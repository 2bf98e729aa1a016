package timer

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

const ms = clock.Mono(time.Millisecond)

// patience is how long a test waits for what must happen; only a failing test waits
// that long.
const patience = 20 * time.Second

// fakeClock stands still until it is set.
type fakeClock struct {
	mu      sync.Mutex
	now     clock.Mono
	until   clock.Mono // of the last Wait
	waits   int
	reached chan struct{} // capacity 1
}

func newFakeClock() *fakeClock { return &fakeClock{reached: make(chan struct{}, 1)} }

func (c *fakeClock) Now() clock.Mono {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) Wait(until clock.Mono, wake <-chan struct{}) {
	c.mu.Lock()
	c.until = until
	c.waits++
	select {
	case <-c.reached:
	default:
	}
	over := c.now.Reached(until)
	c.mu.Unlock()
	if over {
		return
	}
	select {
	case <-c.reached:
	case <-wake:
	}
}

// set lets time pass and waits until the driver has done what there is to do.
func (c *fakeClock) set(now clock.Mono) {
	c.mu.Lock()
	c.now = now
	if now.Reached(c.until) {
		select {
		case c.reached <- struct{}{}:
		default:
		}
	}
	c.mu.Unlock()
	synctest.Wait()
}

// asleep returns until when the driver sleeps, and how often it has gone to sleep.
func (c *fakeClock) asleep() (until clock.Mono, waits int) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until, c.waits
}

func closeScheduler[T any](t testing.TB, s *Scheduler[T]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

// stand is a Scheduler on a clock that stands still, and what it has fired. A test reads
// it only while the driver sleeps.
type stand struct {
	*Scheduler[int]
	clock   *fakeClock
	fired   []int
	largest int
}

// onStand runs f with a Scheduler that fires into its stand; fire comes before that.
func onStand(t *testing.T, shards int, fire func(*stand, []int), f func(*testing.T, *stand)) {
	synctest.Test(t, func(t *testing.T) {
		st := &stand{clock: newFakeClock()}
		st.Scheduler = New(Config[int]{
			Shards: shards,
			Clock:  st.clock,
			Fire: func(now clock.Mono, due []int) {
				if now > st.clock.Now() {
					t.Errorf("fires at %d, it is %d", now, st.clock.Now())
				}
				if fire != nil {
					fire(st, due)
				}
				st.fired = append(st.fired, due...)
				st.largest = max(st.largest, len(due))
			},
		})
		defer closeScheduler(t, st.Scheduler)
		f(t, st)
	})
}

func TestFiresAtItsMillisecondAndNotBefore(t *testing.T) {
	onStand(t, 3, nil, func(t *testing.T, st *stand) {
		entries := make([]Entry[int], 100)
		for i := range entries {
			entries[i].Value = i
			st.Arm(&entries[i], clock.Mono((i+2)*(i+2))*ms/3)
		}
		for i := range entries {
			due := clock.Mono(((i+2)*(i+2)+2)/3) * ms // rounded up
			st.clock.set(due - 1)
			if slices.Contains(st.fired, i) {
				t.Fatalf("%d has fired before its time", i)
			}
			st.clock.set(due)
			if !slices.Contains(st.fired, i) {
				t.Fatalf("%d has not fired at its time", i)
			}
		}
		if len(st.fired) != len(entries) || st.Len() != 0 {
			t.Errorf("%d fired, %d are armed", len(st.fired), st.Len())
		}
	})
}

func TestThePastFiresAtOnce(t *testing.T) {
	onStand(t, 1, nil, func(t *testing.T, st *stand) {
		st.clock.set(clock.Mono(time.Hour))
		var e Entry[int]
		st.Arm(&e, clock.Mono(time.Minute))
		synctest.Wait()
		if len(st.fired) != 1 {
			t.Error("not fired")
		}
	})
}

func TestOnlyAnEarlierDeadlineWakesTheDriver(t *testing.T) {
	onStand(t, 2, nil, func(t *testing.T, st *stand) {
		if until, _ := st.clock.asleep(); until != clock.Never {
			t.Errorf("with nothing to do it sleeps until %d", until)
		}
		entries := make([]Entry[int], 8)
		st.Arm(&entries[0], 40*ms)
		until, before := st.clock.asleep()
		if until != 40*ms {
			t.Fatalf("sleeps until %d", until)
		}
		for i := range entries[1:] { // in both shards
			st.Arm(&entries[1+i], 40*ms+clock.Mono(i)*ms)
		}
		st.Disarm(&entries[0])
		if _, waits := st.clock.asleep(); waits != before {
			t.Errorf("woken %d times for what is not earlier", waits-before)
		}
		st.Arm(&entries[0], 39*ms)
		if until, waits := st.clock.asleep(); until != 39*ms || waits != before+1 {
			t.Errorf("woken %d times for what is earlier, sleeps until %d", waits-before, until)
		}
	})
}

func TestWhatFireArmsWakesNobody(t *testing.T) {
	var next Entry[int]
	onStand(t, 1, func(st *stand, _ []int) { st.Arm(&next, 10*ms) }, func(t *testing.T, st *stand) {
		_, before := st.clock.asleep()
		var e Entry[int]
		st.Arm(&e, 0)
		if until, waits := st.clock.asleep(); until != 10*ms || waits != before+1 {
			t.Errorf("went to sleep %d times, until %d", waits-before, until)
		}
	})
}

func TestWhatIsDisarmedDoesNotFire(t *testing.T) {
	onStand(t, 2, nil, func(t *testing.T, st *stand) {
		entries := make([]Entry[int], 2)
		for i := range entries {
			entries[i].Value = i
		}
		if st.Disarm(&entries[0]) {
			t.Error("disarmed what never was armed")
		}
		st.Arm(&entries[0], 5*ms)
		st.Arm(&entries[1], 5*ms)
		if !st.Disarm(&entries[0]) || st.Disarm(&entries[0]) {
			t.Error("it was armed once")
		}
		st.Arm(&entries[1], 9*ms) // instead
		st.clock.set(8 * ms)
		if len(st.fired) != 0 {
			t.Errorf("fired %v", st.fired)
		}
		st.clock.set(9 * ms)
		if !slices.Equal(st.fired, []int{1}) || st.Disarm(&entries[1]) {
			t.Errorf("fired %v; what has fired is armed no more", st.fired)
		}
	})
}

func TestFireMayArmAndDisarm(t *testing.T) {
	entries := make([]Entry[int], 6)
	onStand(t, 2, func(st *stand, due []int) {
		for _, i := range due {
			if i < 2 { // a beat, in each shard
				st.Arm(&entries[i], st.clock.Now().Add(10*time.Millisecond))
				st.Disarm(&entries[i+2])
			}
		}
		_ = st.Len()
	}, func(t *testing.T, st *stand) {
		for i := range entries {
			entries[i].Value = i
			at := 10 * ms
			if i >= 2 {
				at = 35 * ms
			}
			st.Arm(&entries[i], at)
		}
		for now := clock.Mono(0); now <= 50*ms; now += ms {
			st.clock.set(now)
		}
		slices.Sort(st.fired)
		// 0 and 1 disarm 2 and 3, so 4 and 5 fire as well.
		if want := []int{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 4, 5}; !slices.Equal(st.fired, want) {
			t.Errorf("fired %v, want %v", st.fired, want)
		}
	})
}

func TestAfterALongPauseAllFireInBatches(t *testing.T) {
	onStand(t, 2, nil, func(t *testing.T, st *stand) {
		rnd := rand.New(rand.NewPCG(1, 2))
		entries := make([]Entry[int], 10_000)
		at := make([]clock.Mono, len(entries))
		for i := range entries {
			entries[i].Value = i
			at[i] = clock.Mono(rnd.Int64N(int64(time.Hour)))
			st.Arm(&entries[i], at[i])
		}
		st.clock.set(clock.Mono(24 * time.Hour))
		if len(st.fired) != len(entries) || st.largest > batchMax {
			t.Errorf("%d fired, at most %d at once", len(st.fired), st.largest)
		}
		if slices.Max(st.batch[:cap(st.batch)]) != 0 {
			t.Error("the driver still refers to what it has fired")
		}
		var last [2]clock.Mono
		for _, i := range st.fired {
			tick := at[i] / ms
			if shard := entries[i].shard.Load() - 1; tick < last[shard] {
				t.Fatal("out of order")
			} else {
				last[shard] = tick
			}
		}
	})
}

func TestCloseWaitsForTheCallbackThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeClock()
		release := make(chan struct{})
		fired := 0
		s := New(Config[int]{Clock: c, Fire: func(clock.Mono, []int) {
			fired++
			<-release
		}})
		entries := make([]Entry[int], 4*batchMax*len(s.shards))
		for i := range entries {
			s.Arm(&entries[i], ms)
		}
		c.set(ms)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a callback runs, and Close says %v", err)
		}
		closed := make(chan error, 1)
		go func() { closed <- s.Close(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("Close has returned %v", err)
		default:
		}
		close(release)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if s.Arm(&entries[0], 0); fired != 1 {
			t.Errorf("fired %d times", fired)
		}
		synctest.Wait()
		if err := s.Close(t.Context()); err != nil || fired != 1 {
			t.Errorf("closed again: %v; fired %d times", err, fired)
		}
	})
}

func TestCloseEndsADriverThatSleeps(t *testing.T) {
	s := New(Config[int]{Fire: func(clock.Mono, []int) { t.Error("fires") }})
	var e Entry[int]
	s.Arm(&e, clock.Now().Add(time.Hour))
	closeScheduler(t, s)
}

// On the process's clock: a wake-up that is lost would leave a waiter alone.
func TestNoWakeUpIsLost(t *testing.T) {
	s := New(Config[chan struct{}]{Shards: 4, Fire: func(_ clock.Mono, due []chan struct{}) {
		for _, c := range due {
			c <- struct{}{}
		}
	}})
	defer closeScheduler(t, s)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			e := Entry[chan struct{}]{Value: make(chan struct{}, 1)}
			for range 300 {
				at := clock.Now().Add(time.Duration(rnd.Int64N(int64(2 * time.Millisecond))))
				s.Arm(&e, at)
				select {
				case <-e.Value:
				case <-time.After(patience):
					t.Error("never fired")
					return
				}
				if now := clock.Now(); now < at {
					t.Errorf("fired %v early", at.Sub(now))
				}
			}
		})
	}
	wg.Wait()
}

// Each arming ends in a firing or a successful disarming or is replaced by the next.
func TestManyMayArmAndDisarmTheSame(t *testing.T) {
	var fired atomic.Int64
	s := New(Config[int]{Shards: 2, Fire: func(_ clock.Mono, due []int) { fired.Add(int64(len(due))) }})
	defer closeScheduler(t, s)
	entries := make([]Entry[int], 16)
	var armed, disarmed atomic.Int64
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(2, uint64(g)))
			for range 5000 {
				e := &entries[rnd.IntN(len(entries))]
				if rnd.IntN(3) == 0 {
					if s.Disarm(e) {
						disarmed.Add(1)
					}
				} else {
					s.Arm(e, clock.Now().Add(time.Duration(rnd.Int64N(int64(time.Millisecond)))))
					armed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); s.Len() > 0; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d are still armed", s.Len())
		}
	}
	closeScheduler(t, s)
	if fired.Load() == 0 || fired.Load()+disarmed.Load() > armed.Load() {
		t.Errorf("armed %d, disarmed %d, fired %d", armed.Load(), disarmed.Load(), fired.Load())
	}
}

func TestArmingAllocatesNothing(t *testing.T) {
	s := New(Config[int]{Fire: func(clock.Mono, []int) {}})
	defer closeScheduler(t, s)
	entries := make([]Entry[int], 16)
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		e := &entries[i%len(entries)]
		i++
		s.Arm(e, clock.Now().Add(time.Duration(i)*time.Second))
		s.Arm(e, clock.Now().Add(time.Minute))
		s.Disarm(e)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
