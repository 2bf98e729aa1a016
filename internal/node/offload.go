package node

import (
	"context"
	"runtime"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
)

const (
	opWork = "work"
	// cpuWaitingMax bounds the computations that wait for a processor's place.
	cpuWaitingMax = 4096
	// ioRunningMax bounds what waits for the outside at once, ioWaitingMax what waits
	// to begin.
	ioRunningMax = 1024
	ioWaitingMax = 8192
)

// Work says what a handler hands out of its turn's time.
type Work uint8

// The kinds of work, which are bounded apart from each other.
const (
	CPU Work = iota // computes: as many at once as there are processors
	IO              // waits for something outside: 1,024 at once
)

func newWorkers() [2]*limiter {
	return [2]*limiter{CPU: newLimiter(runtime.GOMAXPROCS(0), cpuWaitingMax), IO: newLimiter(ioRunningMax, ioWaitingMax)}
}

// Do runs f, with a place among the work of its kind, on this goroutine. In a handler's
// turn the worker's place, and with a yielding context the gate, is lent meanwhile. It
// fails with CapacityExceeded if too much waits already, and then f did not run.
func (n *Node) Do(ctx context.Context, w Work, f func(context.Context) error) (err error) {
	if int(w) >= len(n.workers) {
		return fail(errkind.InvalidOperation, opWork, "", "%d is no kind of work", w)
	}
	if err := fenced(ctx); err != nil {
		return err.of(opWork, "")
	}
	deadline := clock.Now().Add(n.cfg.RequestTimeout)
	if at, ok := ctx.Deadline(); ok {
		deadline = clock.At(at)
	}
	refused := suspend(ctx, func() {
		if full := n.workers[w].enter(ctx, deadline); full != nil {
			err = full.of(opWork, "")
			return
		}
		defer n.workers[w].leave()
		if gone := fenced(ctx); gone != nil {
			err = gone.of(opWork, "")
			return
		}
		err = f(ctx)
	})
	if refused != nil {
		return refused.of(opWork, "")
	}
	return err
}
