package session

import (
	"fmt"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/invariant"
)

// LivenessTimes are the times of the sessions of one listener. One value is
// shared by all of them and must not change while they live.
type LivenessTimes struct {
	// Ping is the time between two pings to the client. 0 means 1 s. It must be
	// below Silence, or a client that only answers pings is given up.
	Ping time.Duration
	// Silence closes a session from which nothing was heard, with
	// HeartbeatTimeout. 0 means 5 s.
	Silence time.Duration
	// Idle closes a session without application input, with IdleTimeout;
	// heartbeats do not count. 0 means never. DefaultIdle is the usual value.
	Idle time.Duration
}

// The times that clients of this protocol are built for.
const (
	DefaultPing    = time.Second
	DefaultSilence = 5 * time.Second
	DefaultIdle    = 30 * time.Second
)

// Validate returns an error that names the numbers if the times contradict each
// other.
func (t *LivenessTimes) Validate() error {
	if t.Ping < 0 || t.Silence < 0 || t.Idle < 0 {
		return fmt.Errorf("session: negative time in %+v; use 0 for the default", *t)
	}
	if t.ping() >= t.silence() {
		return fmt.Errorf("session: ping interval %v is not below the silence limit %v; a client that only answers pings would be closed", t.ping(), t.silence())
	}
	return nil
}

// EventKind is what happened to a session.
type EventKind uint8

// The events of a Liveness. All but EventTimer and EventClose are frames that
// arrived.
const (
	EventInput EventKind = iota + 1 // a Send or Request of the client's application
	EventPing                       // a heartbeat ping
	EventPong                       // a heartbeat pong
	EventOther                      // any other frame, or bytes of one that is not complete
	EventTimer                      // the time NextDeadline named may have come
	EventClose                      // the shell wants the session closed, with Reason
)

// Event is one input of a Liveness. Reason is for EventClose.
type Event struct {
	Kind   EventKind
	Reason CloseReason
}

// EffectKind is what a shell is to do.
type EffectKind uint8

// The effects of a Liveness.
const (
	EffectPing  EffectKind = iota + 1 // send PingFrame
	EffectPong                        // send PongFrame
	EffectClose                       // send session-closing with Reason and close; the last effect
)

// Effect is one output of a Liveness. Reason is for EffectClose.
type Effect struct {
	Kind   EffectKind
	Reason CloseReason
}

// Liveness decides for one session of a server when to ping, when to answer a
// ping and when to give the client up.
//
// Invariants: EffectClose is given once and nothing after it; every frame of any
// kind counts against silence, only application input against idleness; at most
// one ping and one pong wait for Effects, however many Steps came between.
//
// It is a plain value without pointers but to the shared times, and belongs to
// whoever steps it, such as the loop of its connection.
type Liveness struct {
	times     *LivenessTimes
	nextPing  clock.Mono
	lastHeard clock.Mono // of any frame
	lastInput clock.Mono // of application input
	excused   bool       // a late timer was excused since the last frame
	pingDue   bool
	pongDue   bool
	closeDue  bool
	closed    bool
	reason    CloseReason
}

// NewLiveness returns the Liveness of a session that opened at now.
func NewLiveness(now clock.Mono, times *LivenessTimes) Liveness {
	return Liveness{times: times, nextPing: now.Add(times.ping()), lastHeard: now, lastInput: now}
}

// Step takes one event in. Timers are judged by now alone, so that an early, a
// late or a repeated one does no harm. After the close it does nothing.
func (l *Liveness) Step(now clock.Mono, ev Event) {
	if l.closed {
		return
	}
	switch ev.Kind {
	case EventInput:
		l.heard(now)
		l.lastInput = now
	case EventPing:
		l.heard(now)
		l.pongDue = true
	case EventPong, EventOther:
		l.heard(now)
	case EventTimer:
		l.expire(now)
	case EventClose:
		l.close(ev.Reason)
	default:
		invariant.Check(false, "session: liveness event %d", ev.Kind)
	}
}

func (l *Liveness) heard(now clock.Mono) { l.lastHeard, l.excused = now, false }

// expire acts on the deadlines that were reached.
func (l *Liveness) expire(now clock.Mono) {
	// A timer that is late by a whole ping interval says that this process stood
	// still, not that the client did: what it sent meanwhile waits to be read.
	// One more interval lets it be heard; once only, so that a silent client is
	// given up however late the timers are.
	if late := l.nextPing.Add(l.times.ping()); now.Reached(late) && !l.excused {
		l.excused = true
		l.lastHeard = max(l.lastHeard, now.Add(l.times.ping()-l.times.silence()))
	}
	switch {
	case now.Reached(l.silentAt()):
		l.close(HeartbeatTimeout)
	case now.Reached(l.idleAt()):
		l.close(IdleTimeout)
	case now.Reached(l.nextPing):
		l.pingDue = true
		l.nextPing = now.Add(l.times.ping())
	}
}

func (l *Liveness) close(reason CloseReason) {
	l.closed, l.closeDue, l.reason = true, true, reason
	l.pingDue = false
}

// Effects appends what is to be done since the last call, in the order in which
// it is to be done, and forgets it.
func (l *Liveness) Effects(dst []Effect) []Effect {
	if l.pongDue {
		dst = append(dst, Effect{Kind: EffectPong})
	}
	if l.pingDue {
		dst = append(dst, Effect{Kind: EffectPing})
	}
	if l.closeDue {
		dst = append(dst, Effect{Kind: EffectClose, Reason: l.reason})
	}
	l.pongDue, l.pingDue, l.closeDue = false, false, false
	return dst
}

// NextDeadline returns the time of the next EventTimer; false after the close.
// It moves with every Step, but a shell need not follow: a timer left at an
// earlier time only has to be set anew when it fires.
func (l *Liveness) NextDeadline() (clock.Mono, bool) {
	if l.closed {
		return clock.Never, false
	}
	return min(l.nextPing, l.silentAt(), l.idleAt()), true
}

func (l *Liveness) silentAt() clock.Mono { return l.lastHeard.Add(l.times.silence()) }

func (l *Liveness) idleAt() clock.Mono {
	if l.times.Idle <= 0 {
		return clock.Never
	}
	return l.lastInput.Add(l.times.Idle)
}

func (t *LivenessTimes) ping() time.Duration {
	if t.Ping <= 0 {
		return DefaultPing
	}
	return t.Ping
}

func (t *LivenessTimes) silence() time.Duration {
	if t.Silence <= 0 {
		return DefaultSilence
	}
	return t.Silence
}
