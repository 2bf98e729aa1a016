package timer

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/invariant"
	"github.com/zlnode/zlnode/internal/timer/wheel"
)

// batchMax bounds how many entries the driver moves or takes out while it holds a
// shard's lock, and so how long one who arms can be kept waiting.
const batchMax = 256

// Config says how a Scheduler works.
type Config[T any] struct {
	// Fire gets the values of entries that are due, of one shard at a time and there in
	// the order of their instants. It is a hint: an entry may be armed anew or disarmed
	// while its firing is under way. Fire runs on the driver's goroutine and delays all
	// that is due after it, so it must only queue. It may arm and disarm any entry. now
	// is not after the present. due is valid during the call only and may be changed.
	Fire func(now clock.Mono, due []T)
	// Shards is how many wheels share the entries; default GOMAXPROCS.
	Shards int
	// Clock is for tests; default the process's.
	Clock Clock
}

// Entry is what a Scheduler arms, embedded in what it belongs to. Its zero value is
// disarmed. It belongs to the Scheduler that arms it first, for good, and must not be
// copied.
type Entry[T any] struct {
	// Value is what Fire gets; it must not change once the entry was armed.
	Value T

	link  wheel.Entry[*Entry[T]] // under its shard's lock
	shard atomic.Uint32          // 1 + its index; 0: none yet
}

// Scheduler fires entries at their instants: one for all objects of a node. Arm and
// Disarm are safe for concurrent use, also for the same entry.
//
// # How the driver sleeps
//
// Each shard publishes in next when it must be looked at; sleep is until when the
// driver sleeps, 0 while it is awake. One who arms stores next and then reads sleep;
// the driver stores sleep and then reads every next. So of the two at least one sees
// what the other wrote: either the driver does not go to sleep for too long, or it is
// woken. An entry that is due later than the driver wakes anyway wakes nobody.
// TestNoInterleavingLosesAWakeUp looks at every order of these steps.
type Scheduler[T any] struct {
	fire   func(clock.Mono, []T)
	clock  Clock
	shards []shard[T]
	wake   chan struct{} // capacity 1
	over   chan struct{} // closed when the driver has ended

	turn     atomic.Uint32 // deals the entries out to the shards
	sleep    atomic.Int64  // a clock.Mono
	stopping atomic.Bool

	// The driver's own.
	batch   []T
	collect func(*wheel.Entry[*Entry[T]]) // appends to batch
}

// shard is one wheel. next is written under mu: a point not later than the wheel's
// Next, once mu is free, unless the driver is at work.
type shard[T any] struct {
	mu    sync.Mutex
	next  atomic.Int64 // a clock.Mono
	wheel wheel.Wheel[*Entry[T]]
	_     [64]byte // the next shard's lock is in another cache line
}

// New starts a Scheduler, which Close ends.
func New[T any](cfg Config[T]) *Scheduler[T] {
	invariant.Check(cfg.Fire != nil, "a scheduler that fires nothing")
	if cfg.Shards == 0 {
		cfg.Shards = runtime.GOMAXPROCS(0)
	}
	if cfg.Clock == nil {
		cfg.Clock = newProcessClock()
	}
	s := &Scheduler[T]{
		fire:   cfg.Fire,
		clock:  cfg.Clock,
		shards: make([]shard[T], cfg.Shards),
		wake:   make(chan struct{}, 1),
		over:   make(chan struct{}),
		batch:  make([]T, 0, batchMax),
	}
	s.collect = func(e *wheel.Entry[*Entry[T]]) { s.batch = append(s.batch, e.Value.Value) }
	for i := range s.shards {
		s.shards[i].next.Store(int64(clock.Never))
	}
	go s.drive()
	return s
}

// Arm makes e fire at the instant at, whether it was armed before or not: at the first
// millisecond of the clock that is not before it, or as soon as possible if it is over.
// An earlier firing may still be under way. After Close nothing fires.
func (s *Scheduler[T]) Arm(e *Entry[T], at clock.Mono) {
	sh := s.shardOf(e)
	earlier := false
	sh.mu.Lock()
	e.link.Value = e
	sh.wheel.Schedule(&e.link, at)
	if int64(at) < sh.next.Load() {
		next, _ := sh.wheel.Next()
		sh.next.Store(int64(next))
		earlier = int64(next) < s.sleep.Load()
	}
	sh.mu.Unlock()
	if earlier {
		s.wakeUp()
	}
}

// Disarm reports whether e was armed. If not, its firing may be under way.
func (s *Scheduler[T]) Disarm(e *Entry[T]) bool {
	i := e.shard.Load()
	if i == 0 {
		return false
	}
	sh := &s.shards[i-1]
	sh.mu.Lock()
	armed := sh.wheel.Cancel(&e.link)
	sh.mu.Unlock()
	return armed
}

// Len returns the number of entries that are armed.
func (s *Scheduler[T]) Len() int {
	n := 0
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n += sh.wheel.Len()
		sh.mu.Unlock()
	}
	return n
}

// Close ends the driver and waits until a callback that runs has returned. After that
// nothing fires. If ctx ends first, its error is returned and the driver ends later: with
// the callback that runs, or that it was about to begin. It may be called more than once,
// but not from Fire.
func (s *Scheduler[T]) Close(ctx context.Context) error {
	s.stopping.Store(true)
	s.wakeUp()
	select {
	case <-s.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("timer: a callback still runs: %w", context.Cause(ctx))
	}
}

// shardOf returns e's shard. Entries are dealt out in turn, so that a million of one
// kind spread evenly.
func (s *Scheduler[T]) shardOf(e *Entry[T]) *shard[T] {
	i := e.shard.Load()
	if i == 0 {
		e.shard.CompareAndSwap(0, s.turn.Add(1)%uint32(len(s.shards))+1)
		i = e.shard.Load()
	}
	return &s.shards[i-1]
}

func (s *Scheduler[T]) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it is being woken already
	}
}

// drive is the driver's goroutine: in turn a batch of each shard, until all is fired.
func (s *Scheduler[T]) drive() {
	defer close(s.over)
	for {
		now := s.clock.Now()
		for i := range s.shards {
			if s.stopping.Load() {
				return
			}
			if sh := &s.shards[i]; now.Reached(clock.Mono(sh.next.Load())) {
				s.fireSome(sh, now)
			}
		}
		if until := s.settle(); !now.Reached(until) {
			s.clock.Wait(until, s.wake)
		}
		s.sleep.Store(0)
	}
}

// settle returns until when the driver may sleep, and has published it.
func (s *Scheduler[T]) settle() clock.Mono {
	for until := s.earliest(); ; {
		s.sleep.Store(int64(until))
		again := s.earliest()
		if again >= until {
			return until
		}
		until = again
	}
}

func (s *Scheduler[T]) earliest() clock.Mono {
	earliest := clock.Never
	for i := range s.shards {
		earliest = min(earliest, clock.Mono(s.shards[i].next.Load()))
	}
	return earliest
}

// fireSome fires a batch of one shard. If more is due, next says so.
func (s *Scheduler[T]) fireSome(sh *shard[T], now clock.Mono) {
	sh.mu.Lock()
	sh.wheel.AdvanceSome(now, batchMax, s.collect)
	next, _ := sh.wheel.Next()
	sh.next.Store(int64(next))
	sh.mu.Unlock()
	if len(s.batch) > 0 {
		s.fire(now, s.batch)
		clear(s.batch) // what it refers to may be forgotten
		s.batch = s.batch[:0]
	}
}
