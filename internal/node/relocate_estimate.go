package node

import (
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
)

// This file says whether an aggregate can be through in the time for which its clients' packets are
// held. One that cannot is not sealed.

// average is one that newer values weigh more in, an eighth each. Safe for concurrent use; 0: there
// was no value.
type average struct{ v atomic.Int64 }

func (a *average) add(v int64) {
	for {
		old := a.v.Load()
		next := v
		if old != 0 {
			next = old + (v-old)/8
		}
		if a.v.CompareAndSwap(old, max(next, 1)) {
			return
		}
	}
}

// estimate is what is known beforehand of a move's time, from moves before: of the same types, and
// to the same node. What is not known counts nothing.
type estimate struct {
	captures time.Duration // all of them, one behind the other
	bytes    int64
	rate     int64 // bytes per second by the link, with what the target does with them; 0: not known
}

func (e *estimate) time() time.Duration {
	if e.rate <= 0 {
		return e.captures
	}
	return e.captures + time.Duration(float64(e.bytes)/float64(e.rate)*float64(time.Second))
}

// estimate sums up what the types of all participants took before.
func (o *moveOut) estimate() (e estimate) {
	for _, m := range o.all() {
		e.bytes += m.cell.typ.captured.v.Load()
		e.captures += time.Duration(m.cell.typ.captures.v.Load())
	}
	if l := o.node.linkOf(o.to); l != nil {
		e.rate = l.moveRate.v.Load()
	}
	return e
}

// fitsSeal returns nil if the aggregate can be through in time, as far as is known.
func (o *moveOut) fitsSeal() *Error {
	n, e := o.node, o.estimate()
	limit := n.cfg.boundMoveTime()
	if e.time() <= limit {
		return nil
	}
	return fail(errkind.DeadlineExceeded, opRelocate, o.cell.ref.ID,
		"its %d objects and %d bytes would take about %v to move at %d bytes/s, and its clients' packets are held for %v at most; a larger SessionRelocationSealTimeout gives it the time",
		len(o.wide.members)+1, e.bytes, e.time().Round(time.Millisecond), e.rate, limit)
}

// tookCapture notes what the capture of an object took.
func (t *ObjectType) tookCapture(began clock.Mono, bytes int) {
	t.captures.add(int64(clock.Now().Sub(began)))
	t.captured.add(int64(bytes))
}

// rateBytes is from which size on a payload says how fast its link is.
const rateBytes = 256 << 10

// tookPayload notes how long it took from the first chunk of a payload to relay-ready.
func (l *linkConn) tookPayload(began clock.Mono, bytes uint64) {
	if took := clock.Now().Sub(began); bytes >= rateBytes && took > 0 {
		l.moveRate.add(int64(float64(bytes) / took.Seconds()))
	}
}
