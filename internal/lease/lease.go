// Package lease is the pure core that keeps a process's owner lease alive and
// says until when the process may act on it.
//
// The admission deadline is the law: past it a node takes no message, runs no
// timer and changes no object, whatever else works. It is counted on the local
// monotonic clock from before the call that renewed the lease, so a late answer
// never makes it longer than the Store would.
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
	return c
}

// Validate checks that a renewal may take its whole time and still end before
// acting would.
func (c Config) Validate() error {
	if c.Renew <= 0 || c.Timeout <= 0 || c.TTL <= 0 || c.Margin < 0 {
		return fmt.Errorf("lease: renew %v, timeout %v, ttl %v and margin %v: all must be positive, the margin may be 0", c.Renew, c.Timeout, c.TTL, c.Margin)
	}
	if c.Renew+c.Timeout >= c.TTL-c.Margin {
		return fmt.Errorf("lease: renew %v + timeout %v must be less than ttl %v - margin %v; raise the ttl or renew more often",
			c.Renew, c.Timeout, c.TTL, c.Margin)
	}
	return nil
}

// Event is what happened: Answered or Failed, or nothing but the passing of
// time (Tick).
type Event interface{ event() }

// Tick: only time passed.
type Tick struct{}

// Answered: the renewal that was started at SentAt succeeded; the Store's clock
// left Remaining when it answered.
type Answered struct {
	SentAt    clock.Mono
	Remaining time.Duration
}

// Failed: the renewal got no answer, or one that says nothing about the lease.
type Failed struct{}

// Superseded: the lease was issued anew to another process.
type Superseded struct{}

func (Tick) event()       {}
func (Answered) event()   {}
func (Failed) event()     {}
func (Superseded) event() {}

// Effect is an action for the shell.
type Effect uint8

const (
	// Renew: start a renewal, bounded by Config.Timeout; tell its end by Answered, Failed or Superseded.
	Renew Effect = iota + 1
	// Lost: another process holds the lease; this one must never act again.
	Lost
)

// Keeper is the core. It is owned by one goroutine; only AdmitUntil's result is
// meant to be published to others.
type Keeper struct {
	config  Config
	admit   clock.Mono // may act before this point
	next    clock.Mono // when the next renewal is due
	running bool       // a renewal is under way
	lost    bool
	effects []Effect
}

// New returns the keeper of a lease that was acquired by a call started at
// sentAt, with remaining left by the Store's clock.
func New(c Config, sentAt clock.Mono, remaining time.Duration) *Keeper {
	k := &Keeper{config: c}
	k.extend(Answered{SentAt: sentAt, Remaining: remaining})
	return k
}

func (k *Keeper) extend(a Answered) {
	if until := a.SentAt.Add(a.Remaining - k.config.Margin); until > k.admit {
		k.admit = until
	}
	k.next = a.SentAt.Add(k.config.Renew)
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
		k.extend(ev)
	case Failed:
		k.running = false
		k.next = now.Add(k.retryAfter())
	case Superseded:
		k.lost, k.admit = true, 0
		k.effects = append(k.effects, Lost)
		return
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
func (k *Keeper) AdmitUntil() clock.Mono { return k.admit }
