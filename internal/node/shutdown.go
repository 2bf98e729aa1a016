package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/zlnode/zlnode/session"
	"github.com/zlnode/zlnode/store"
)

// Times of a shutdown that its caller does not choose.
const (
	// haltTime bounds what must be done even if the caller's deadline has passed.
	haltTime = 2 * time.Second
	// idlePoll is how often a shutdown looks whether accepted work has finished.
	idlePoll = 5 * time.Millisecond
	// destroyersMax bounds the Store calls of a shutdown that run at once.
	destroyersMax = 32
)

// Shutdown stops the node: nothing new is taken; clients are told; work that was
// accepted finishes; the Actors and then the lease and descriptor leave the
// Store; links and listeners close. When ctx ends, what is left is cut short.
// Calls after the first wait for it and return its result.
func (n *Node) Shutdown(ctx context.Context) error {
	n.stopOnce.Do(func() {
		n.stopErr = n.shutdown(ctx)
		n.failed(nil)
	})
	return n.stopErr
}

func (n *Node) shutdown(ctx context.Context) error {
	n.stopping.Store(true)
	for _, p := range n.ports {
		_ = p.Close() // a listener that fails to close has no use for its error
	}
	var errs []error
	if n.store != nil {
		if err := n.publish(ctx, store.Draining); err != nil {
			errs = append(errs, err)
		}
	}
	n.sessions.Range(func(_ string, s *sessionConn) bool {
		closeSession(s.conn, session.ServerDrain, "")
		return true
	})
	n.settle(ctx)
	if n.store != nil {
		errs = append(errs, n.removeActors(ctx))
	}
	errs = append(errs, n.halt(ctx))
	if err := errors.Join(errs...); err != nil {
		return &Error{Kind: KindOf(err), Op: "shut down", Object: n.cfg.RID, Text: "not all could be ended in order", Err: err}
	}
	return nil
}

// settle waits until the creations under way have ended, the Sessions' last turns
// are over, and every Actor's accepted messages have had theirs.
func (n *Node) settle(ctx context.Context) {
	for busy := true; busy; {
		busy = n.creations.inside.Load() > 0 || n.sessions.Len() > 0 || n.ending.Load() > 0
		n.actors.Range(func(_ string, c *actorCell) bool {
			busy = busy || c.box.Len() > 0
			return !busy
		})
		if busy && !pause(ctx, idlePoll) {
			return
		}
	}
}

// removeActors takes the node's Actors out of the Store, so that their ids can
// be used again at once.
func (n *Node) removeActors(ctx context.Context) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	slots := make(chan struct{}, destroyersMax)
	n.actors.Range(func(_ string, c *actorCell) bool {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if _, err := n.destroyHere(ctx, c.ref, newOpID()); err != nil {
				mu.Lock()
				first = errors.Join(first, err)
				mu.Unlock()
			}
		})
		return true
	})
	wg.Wait()
	return errors.Join(first, ctx.Err())
}

// halt ends everything that runs, in an order in which nothing waits for what
// has ended before. It also cleans up after a start that failed half-way.
func (n *Node) halt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), haltTime)
	defer cancel()
	var errs []error
	if n.store != nil && n.lease.Gen != 0 {
		n.leaseOver.Store(true)
		n.admitUntil.Store(0)
		if _, err := n.store.ReleaseLease(ctx, n.lease); err != nil {
			errs = append(errs, fromStore(err, "release lease", n.cfg.RID))
		}
	}
	n.links.close()
	if n.engine != nil {
		errs = append(errs, n.engine.Close(ctx))
	}
	n.local.fail(errStopping)
	n.kill()
	errs = append(errs, n.tasks.close(ctx))
	if n.pool != nil {
		errs = append(errs, n.pool.Close(ctx))
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}
