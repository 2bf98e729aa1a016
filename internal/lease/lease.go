// Package lease is the pure core that keeps a process's owner lease alive and
// says until when the process may act on it.
//
// The admission deadline is the law: past it a node takes no message, runs no
// timer and changes no object, whatever else works. It is counted on the local
// monotonic clock from before the call that renewed the lease, so a late answer
// never makes it longer than the Store would.
//
// A renewal may tell of a new epoch of the Store, whose past may have been undone. It
// began after the renewal before was sent, and for Hold from then on nothing new is
// created in the Store. Until all that the process owns is written again, it acts no
// longer than that, less the margin; and if it might not act when it heard of the
// epoch, not at all before.
package lease

import (
	"fmt"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// Config says how a lease is kept. Zero fields get the defaults.
type Config struct {
	Renew   time.Duration // between renewals; default 5 s
	Timeout time.Duration // of one renewal; default 3 s
	TTL     time.Duration // of the lease at the Store; default 15 s
	Margin  time.Duration // by which acting ends before the lease does; default 5 s
	Hold    time.Duration // after an epoch's begin, nothing new is created; default TTL + Margin; < 0: not so
}

// WithDefaults fills the zero fields.
func (c Config) WithDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.Renew, 5*time.Second)
	set(&c.Timeout, 3*time.Second)
	set(&c.TTL, 15*time.Second)
	set(&c.Margin, 5*time.Second)
	set(&c.Hold, c.TTL+c.Margin)
	return c
}

// Validate checks that a renewal may take its whole time and still end before
// acting would, and that a process that has not heard of a new epoch acts no longer
// than nothing is created in it.
func (c Config) Validate() error {
	if c.Renew <= 0 || c.Timeout <= 0 || c.TTL <= 0 || c.Margin < 0 {
		return fmt.Errorf("lease: renew %v, timeout %v, ttl %v and margin %v: all must be positive, the margin may be 0", c.Renew, c.Timeout, c.TTL, c.Margin)
	}
	if c.Renew+c.Timeout >= c.TTL-c.Margin {
		return fmt.Errorf("lease: renew %v + timeout %v must be less than ttl %v - margin %v; raise the ttl or renew more often",
			c.Renew, c.Timeout, c.TTL, c.Margin)
	}
	if c.Hold >= 0 && c.Hold < c.TTL {
		return fmt.Errorf("lease: recovery hold %v must not be less than ttl %v: a process acts for nearly that long before it hears of a new epoch that has lost its rows; raise the hold, or make it negative if nothing can be lost",
			c.Hold, c.TTL)
	}
	return nil
}

// Event is what happened: the end of a renewal, the end of what an effect asked for,
// or nothing but the passing of time (Tick).
type Event interface{ event() }

// Tick: only time passed.
type Tick struct{}

// Answered: the renewal that was started at SentAt succeeded; the Store's clock
// left Remaining when it answered, in that epoch.
type Answered struct {
	SentAt    clock.Mono
	Remaining time.Duration
	Epoch     uint64
}

// Failed: the renewal got no answer, or one that says nothing about the lease.
type Failed struct{}

// Superseded: the lease was issued anew to another process.
type Superseded struct{}

// Reasserted: all that the process owns is written again in that epoch, and what is
// another's now is over here.
type Reasserted struct{ Epoch uint64 }

func (Tick) event()       {}
func (Answered) event()   {}
func (Failed) event()     {}
func (Superseded) event() {}
func (Reasserted) event() {}

// Effect is an action for the shell.
type Effect uint8

const (
	// Renew: start a renewal, bounded by Config.Timeout; tell its end by Answered, Failed or Superseded.
	Renew Effect = iota + 1
	// Lost: another process holds the lease; this one must never act again.
	Lost
	// Reassert: write all that the process owns again, in the epoch that Epoch returns,
	// and tell the end by Reasserted. What was begun for an epoch before is void.
	Reassert
)

// Keeper is the core. It is owned by one goroutine; only the points that AdmitUntil and
// LeasedUntil return are meant to be published to others.
type Keeper struct {
	config  Config
	leased  clock.Mono // what the lease alone allows
	epoch   uint64
	heard   clock.Mono // when the last call that told of epoch was sent: a later one began after it
	cap     clock.Mono // while not all is written again in epoch; else Never
	next    clock.Mono // when the next renewal is due
	running bool       // a renewal is under way
	lost    bool
	effects []Effect
}

// New returns the keeper of a lease that was acquired by a call that a says.
func New(c Config, a Answered) *Keeper {
	k := &Keeper{config: c, epoch: a.Epoch, cap: clock.Never}
	k.extend(a)
	return k
}

func (k *Keeper) extend(a Answered) {
	k.leased = max(k.leased, a.SentAt.Add(a.Remaining-k.config.Margin))
	k.heard = max(k.heard, a.SentAt)
	k.next = a.SentAt.Add(k.config.Renew)
}

// enter caps admission in a new epoch: before what was lost with the one before can be
// created elsewhere.
func (k *Keeper) enter(now clock.Mono, epoch uint64) {
	switch {
	case now.Reached(k.AdmitUntil()):
		k.cap = 0
	case k.config.Hold >= 0:
		k.cap = min(k.cap, k.heard.Add(k.config.Hold-k.config.Margin))
	}
	k.epoch = epoch
	k.effects = append(k.effects, Reassert)
}

// retryAfter is the pause after a renewal that failed: short against the margin
// between renewal and expiry, long enough not to burden a Store that recovers.
func (k *Keeper) retryAfter() time.Duration { return k.config.Renew / 10 }

// Step takes one event.
func (k *Keeper) Step(now clock.Mono, ev Event) {
	if k.lost {
		return
	}
	switch ev := ev.(type) {
	case Answered:
		k.running = false
		if ev.Epoch != k.epoch {
			k.enter(now, ev.Epoch) // judges by the answer before
		}
		k.extend(ev)
	case Failed:
		k.running = false
		k.next = now.Add(k.retryAfter())
	case Superseded:
		k.lost, k.leased = true, 0
		k.effects = append(k.effects, Lost)
		return
	case Reasserted:
		if ev.Epoch == k.epoch {
			k.cap = clock.Never
		}
	case Tick:
	}
	if !k.running && now.Reached(k.next) {
		k.running = true
		k.effects = append(k.effects, Renew)
	}
}

// Effects appends the actions since the last call to dst.
func (k *Keeper) Effects(dst []Effect) []Effect {
	dst = append(dst, k.effects...)
	k.effects = k.effects[:0]
	return dst
}

// NextDeadline returns when Step must be called again if nothing else happens.
func (k *Keeper) NextDeadline() (clock.Mono, bool) {
	return k.next, !k.running && !k.lost
}

// AdmitUntil returns the admission deadline; zero once the lease is lost.
func (k *Keeper) AdmitUntil() clock.Mono { return min(k.leased, k.cap) }

// LeasedUntil returns until when the lease alone would allow to act: so long, changes
// that were begun may be ended in the Store, which judges them itself.
func (k *Keeper) LeasedUntil() clock.Mono { return k.leased }

// Epoch returns the Store's, as the last answer told.
func (k *Keeper) Epoch() uint64 { return k.epoch }
