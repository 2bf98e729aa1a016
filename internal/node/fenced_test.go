package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/timer"
	"github.com/zlnode/zlnode/store"
)

// A turn that waits while its object ends here, as its row is another's, can do nothing
// any more with what it knows.
// req: RL-17
func TestATurnOfAnObjectThatHasEndedIsRefusedEverything(t *testing.T) {
	w := newJoins(t)
	a, b := w.actor("ada"), w.actor("bob")
	a.typ.Timers["beat"] = func(*Call, any, Tick) error { return nil }
	waits, ended := make(chan struct{}), make(chan struct{})
	over := make(chan map[string]error, 1)
	w.tell(a, func(c *Call) error {
		r := c.Registration()
		close(waits)
		c.gate.Blocking(func() { <-ended })
		to := w.node.Target("bob", false)
		note := &Outgoing{Name: "note", Payload: []byte{'x'}}
		_, requested := w.node.Request(c, &to, note)
		_, created := w.node.Create(c, CreateRequest{ID: "new", Type: "journal"})
		_, destroyed := w.node.Destroy(c, b.ref)
		over <- map[string]error{
			"send":     w.node.Send(c, &to, note),
			"request":  requested,
			"create":   created,
			"destroy":  destroyed,
			"work":     w.node.Do(c, CPU, func(context.Context) error { t.Error("it ran"); return nil }),
			"push":     c.Push("p", 0, nil, nil),
			"timer":    c.StartTimer("beat", timer.Options{Period: 1e9}),
			"join":     r.Defer(Join{Spot: "room"}),
			"send all": w.node.Send(context.WithoutCancel(c), &to, note),
		}
		return nil
	})
	await(t, "the handler", waits)
	a.refuseAll(errGone)
	close(ended)
	for what, err := range await(t, "what it got", over) {
		if !errors.Is(err, errkind.Unavailable) || !strings.Contains(err.Error(), errFenced.Text) {
			t.Errorf("%s: %v", what, err)
		}
	}
	barrier(t, b)
	w.is("")
}

// What a turn asked for before its object ended, and what has had to wait since, is not
// done either.
// req: RL-17
func TestWhatWaitedWhileItsObjectEndedIsNotDone(t *testing.T) {
	w := newJoins(t)
	w.node.routes = newRoutes(w.node)
	asked, row := make(chan struct{}), make(chan struct{})
	w.store.read = func(_ context.Context, id string) (store.Authority, bool, error) {
		close(asked)
		<-row
		return store.Authority{ID: id, Kind: store.Actor, State: store.Ready, ObjectGen: 1, OwnerGen: 1, RID: "b", LeaseGen: 3, LeaseLeft: time.Hour}, true, nil
	}
	// Nothing but the way is there: what went on to it would panic.
	w.node.home.links.set("b", &linkConn{node: w.node, peer: link.Peer{RID: "b", Lifecycle: 3}})
	far, farther := w.node.Target("far", false), w.node.Target("farther", false)
	w.node.workers[CPU] = newLimiter(1, 10)
	if err := w.node.workers[CPU].enter(t.Context(), clock.Never); err != nil { // the one place
		t.Fatal(err)
	}
	for what, wait := range map[string]struct {
		ask   func(c *Call) error
		until func() // it waits
		goOn  func() // it waits no more
	}{
		"work": {
			func(c *Call) error {
				return w.node.Do(c, CPU, func(context.Context) error { t.Error("it ran"); return nil })
			},
			func() { until(t, "it waits", func() bool { return w.node.workers[CPU].inside.Load() == 2 }) },
			func() { w.node.workers[CPU].leave() },
		},
		"send": {
			func(c *Call) error { return w.node.Send(c, &far, note('x')) },
			func() { await(t, "the Store is asked", asked) },
			func() { close(row) },
		},
		"request": {
			func(c *Call) error { _, err := w.node.Request(c, &farther, note('x')); return err },
			func() { await(t, "the Store is asked", asked) },
			func() { close(row) },
		},
	} {
		asked, row = make(chan struct{}), make(chan struct{})
		a := w.actor("ada " + what)
		got := make(chan error, 1)
		w.tell(a, func(c *Call) error { got <- wait.ask(c); return nil })
		wait.until()
		a.refuseAll(errGone)
		wait.goOn()
		if err := await(t, "the answer", got); err == nil || !strings.Contains(err.Error(), errFenced.Text) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A node whose lease is in doubt asks nobody about a Join.
// req: RL-20
func TestAJoinOfANodeThatMayNotActIsNotDecided(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	var j *PendingJoin
	w.tell(a, func(c *Call) error {
		err := c.Registration().Defer(toRoom7)
		j = a.joining.Load()
		w.node.admitUntil.Store(0)
		return err
	})
	barrier(t, a)
	w.ended(j, JoinFailed, errkind.Unavailable)
	w.none()
}
