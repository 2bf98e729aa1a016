package redislua

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Embedded is a small Redis inside this process, for development and demos: it
// keeps everything in memory, has one lock, and its data ends with it. It is never
// started unasked. Its clock is the machine's.
type Embedded struct {
	server *miniredis.Miniredis
	stop   chan struct{}
	once   sync.Once
	step   sync.WaitGroup
}

// embeddedStep is how often keys of the embedded Redis are expired. Its keys live
// on until told that time has passed; no decision of the Store hangs on that, since
// scripts compare times of their own.
const embeddedStep = time.Second

// StartEmbedded starts a Redis on addr; "" means a free port of 127.0.0.1. It has
// no password: leave it on the loopback. The caller closes it.
func StartEmbedded(addr string) (*Embedded, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	e := &Embedded{server: miniredis.NewMiniRedis(), stop: make(chan struct{})}
	if err := e.server.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("store: embedded Redis cannot listen on %s: %w", addr, err)
	}
	e.step.Go(e.expire)
	return e, nil
}

// URL is what Options.URL takes.
func (e *Embedded) URL() string { return "redis://" + e.server.Addr() }

// Close ends the server and all connections to it. A second Close does nothing.
func (e *Embedded) Close() {
	e.once.Do(func() {
		close(e.stop)
		e.step.Wait()
		e.server.Close()
	})
}

func (e *Embedded) expire() {
	tick := time.NewTicker(embeddedStep)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-e.stop:
			return
		case now := <-tick.C:
			e.server.FastForward(now.Sub(last))
			last = now
		}
	}
}
