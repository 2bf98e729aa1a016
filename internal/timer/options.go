package timer

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/zlnode/zlnode/internal/errkind"
)

const (
	// NameBytesMax: a name's length travels in one byte.
	NameBytesMax = 255
	// SpanMin is the resolution of the Scheduler.
	SpanMin = time.Millisecond
	// SpanMax is 10 years: what is longer is a mistake of units most likely. Sums of a
	// few of them stay far from the end of clock.Mono.
	SpanMax = 10 * 365 * 24 * time.Hour
	// CatchUpLimit bounds how long one timer can keep its object busy after a pause.
	CatchUpLimit = 1024
	// LimitDefault is for an object that has a handful of timers.
	LimitDefault = 64
	// LimitMax: a Set is searched from end to end.
	LimitMax = 1024
)

// What Register refuses. Each is of the errkind.Kind that it names.
var (
	// ErrName: the name is empty, longer than NameBytesMax or no UTF-8.
	ErrName = fmt.Errorf("timer: a name has 1 to %d bytes of UTF-8 (%w)", NameBytesMax, errkind.InvalidOperation)
	// ErrDelay: the delay is neither 0 nor from SpanMin to SpanMax.
	ErrDelay = fmt.Errorf("timer: a delay is 0 or from %v to %v (%w)", SpanMin, SpanMax, errkind.InvalidOperation)
	// ErrPeriod: the period is neither 0 nor from SpanMin to SpanMax.
	ErrPeriod = fmt.Errorf("timer: a period is 0 or from %v to %v (%w)", SpanMin, SpanMax, errkind.InvalidOperation)
	// ErrMode: there is no such mode, or CatchUpMax does not go with it.
	ErrMode = fmt.Errorf("timer: unknown mode, or CatchUpMax is not from 1 to %d with CatchUp or not 0 without (%w)", CatchUpLimit, errkind.InvalidOperation)
	// ErrTooMany: the object has as many timers as its Set allows.
	ErrTooMany = fmt.Errorf("timer: too many timers of one object (%w)", errkind.CapacityExceeded)
	// ErrFenced: the Set is fenced: the object is not this process's any more.
	ErrFenced = fmt.Errorf("timer: the object has moved or ended (%w)", errkind.Unavailable)
)

// Mode says what becomes of scheduled instants that pass while the tick before is
// queued or runs, or while the process stands still. See the package comment.
type Mode uint8

// The modes and their numbers in an encoded State.
const (
	Coalesce   Mode = 0
	Skip       Mode = 1
	CatchUp    Mode = 2
	FixedDelay Mode = 3
)

func (m Mode) String() string {
	switch m {
	case Coalesce:
		return "coalesce"
	case Skip:
		return "skip"
	case CatchUp:
		return "catch up"
	case FixedDelay:
		return "fixed delay"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Options says when a timer is due. The zero value is once, at once.
type Options struct {
	Delay      time.Duration // from the registration to the first tick; 0: at once
	Period     time.Duration // between ticks; 0: there is one tick only
	Mode       Mode          // without a Period it makes no difference
	CatchUpMax int           // with CatchUp: callbacks without a pause; else 0
}

func (o *Options) validate() error {
	switch {
	case o.Delay != 0 && !validSpan(o.Delay):
		return ErrDelay
	case !validPeriod(o.Period):
		return ErrPeriod
	case !validMode(o.Mode, o.CatchUpMax):
		return ErrMode
	}
	return nil
}

func validName(name string) bool {
	return len(name) >= 1 && len(name) <= NameBytesMax && utf8.ValidString(name)
}

func validSpan(d time.Duration) bool { return d >= SpanMin && d <= SpanMax }

func validPeriod(d time.Duration) bool { return d == 0 || validSpan(d) }

func validMode(m Mode, catchUpMax int) bool {
	if m == CatchUp {
		return catchUpMax >= 1 && catchUpMax <= CatchUpLimit
	}
	return m <= FixedDelay && catchUpMax == 0
}
