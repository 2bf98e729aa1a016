package zlnode_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// recorder is an Actor that notes what it is told, in order.
type recorder struct{ seen []int }

// gate stops handlers that pass it.
type gate struct {
	entered chan struct{} // one value for each handler that stands before it
	open    chan struct{} // one value, or closed, lets one handler, or all, pass
}

func newGate() *gate { return &gate{make(chan struct{}, 100), make(chan struct{})} }

func (g *gate) pass() {
	g.entered <- struct{}{}
	<-g.open
}

// stop sends an Actor the request that stands before the gate until it opens.
func (g *gate) stop(t *testing.T, w *world, a zlnode.Addr) (ended <-chan error) {
	t.Helper()
	c := make(chan error, 1)
	go func() {
		_, err := zlnode.Request[struct{}](w.ctx, a, "stop", struct{}{})
		c <- err
	}()
	receive(t, g.entered)
	return c
}

// recorderApp's Actors can be stopped in a handler by the gate.
func recorderApp(gate *gate) *zlnode.App {
	app := zlnode.NewApp()
	r := zlnode.DefineActor(app, "recorder", func(*zlnode.ActorContext) (*recorder, error) { return &recorder{}, nil }, zlnode.DisableRelocation)
	zlnode.OnSend(r, "note", func(_ *zlnode.ActorCall, a *recorder, n int) error {
		a.seen = append(a.seen, n)
		return nil
	})
	zlnode.OnRequest(r, "note", func(_ *zlnode.ActorCall, a *recorder, n int) (int, error) {
		a.seen = append(a.seen, n)
		return len(a.seen), nil
	})
	zlnode.OnRequest(r, "seen", func(_ *zlnode.ActorCall, a *recorder, _ struct{}) ([]int, error) { return a.seen, nil })
	zlnode.OnRequest(r, "stop", func(*zlnode.ActorCall, *recorder, struct{}) (struct{}, error) {
		gate.pass()
		return struct{}{}, nil
	})
	zlnode.OnRequestRaw(r, "echo", func(_ *zlnode.ActorCall, _ *recorder, payload []byte) ([]byte, error) { return payload, nil })
	zlnode.OnRequest(r, "fail", func(_ *zlnode.ActorCall, _ *recorder, how string) (int, error) {
		switch how {
		case "panic":
			panic("boom")
		case "plain":
			return 0, errors.New("secret detail")
		}
		return 0, zlnode.Errorf(zlnode.Rejected, "you may not")
	})
	zlnode.OnRequest(r, "self", func(c *zlnode.ActorCall, _ *recorder, _ struct{}) (int, error) {
		return zlnode.Request[int](c, c.Node().Actor(c.Actor().ID()), "note", 1)
	})
	zlnode.OnRequest(r, "ask", func(c *zlnode.ActorCall, _ *recorder, id string) ([]int, error) {
		return zlnode.Request[[]int](c, c.Node().Actor(id), "seen", struct{}{})
	})
	return app
}

// twoNodes is a server with one recorder, and a client: the same calls are
// tried from where the Actor lives and from elsewhere.
func twoNodes(t *testing.T, w *world, gate *gate) (nodes []*zlnode.Node) {
	t.Helper()
	a := w.server("a", recorderApp(gate))
	c := w.client("c", 1, recorderApp(gate))
	for _, id := range []string{"r", "other"} {
		if _, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "recorder"}); err != nil {
			t.Fatal(err)
		}
	}
	return []*zlnode.Node{a, c}
}

func TestMessagesOfOneSenderStayInOrder(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		for _, n := range twoNodes(t, w, nil) {
			id := "order-" + n.RID()
			if _, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "recorder"}); err != nil {
				t.Fatal(err)
			}
			const count = 3000
			for i := range count {
				var err error
				if i%100 == 99 {
					_, err = zlnode.Request[int](w.ctx, n.Actor(id), "note", i)
				} else {
					err = zlnode.Send(w.ctx, n.Actor(id), "note", i)
				}
				if err != nil {
					t.Fatalf("%s, message %d: %v", n.RID(), i, err)
				}
			}
			seen, err := zlnode.Request[[]int](w.ctx, n.Actor(id), "seen", struct{}{})
			if err != nil || len(seen) != count {
				t.Fatalf("%s: %d seen, want %d: %v", n.RID(), len(seen), count, err)
			}
			for i, v := range seen {
				if v != i {
					t.Fatalf("%s: message %d came at place %d", n.RID(), v, i)
				}
			}
		}
	})
}

// req: FO-04
func TestEveryFailureHasAKindAndNamesTheActor(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		for _, n := range twoNodes(t, w, nil) {
			r := n.Actor("r")
			for _, c := range []struct {
				name string
				call func() error
				kind zlnode.Kind
			}{
				{"no handler", func() error { _, err := zlnode.Request[int](w.ctx, r, "nothing", 1); return err }, zlnode.NotFound},
				{"no actor", func() error { _, err := zlnode.Request[int](w.ctx, n.Actor("nobody"), "note", 1); return err }, zlnode.NotFound},
				{"wrong JSON", func() error { _, err := zlnode.Request[int](w.ctx, r, "note", "text"); return err }, zlnode.ProtocolError},
				{"application", func() error { _, err := zlnode.Request[int](w.ctx, r, "fail", "kind"); return err }, zlnode.Rejected},
				{"plain error", func() error { _, err := zlnode.Request[int](w.ctx, r, "fail", "plain"); return err }, zlnode.InternalFailure},
				{"panic", func() error { _, err := zlnode.Request[int](w.ctx, r, "fail", "panic"); return err }, zlnode.InternalFailure},
				{"itself", func() error { _, err := zlnode.Request[int](w.ctx, r, "self", struct{}{}); return err }, zlnode.InvalidOperation},
				{"too large", func() error { _, err := r.RequestRaw(w.ctx, "echo", make([]byte, 1<<20+1)); return err }, zlnode.InvalidOperation},
				{"empty name", func() error { return r.SendRaw(w.ctx, "", nil) }, zlnode.InvalidOperation},
			} {
				err := c.call()
				if zlnode.KindOf(err) != c.kind || !errors.Is(err, c.kind) {
					t.Errorf("%s from %s: %v, want %v", c.name, n.RID(), err, c.kind)
					continue
				}
				var e *zlnode.Error
				if !errors.As(err, &e) || e.Object == "" || e.Op == "" {
					t.Errorf("%s: %#v names no operation or object", c.name, err)
				}
			}
			// The gate is alive after all of them.
			if _, err := zlnode.Request[int](w.ctx, r, "note", 1); err != nil {
				t.Errorf("after the failures: %v", err)
			}
		}
	})
}

func TestRawPayloadsPassUnchanged(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		for _, n := range twoNodes(t, w, nil) {
			for _, size := range []int{0, 1, 100, 64 << 10, 1 << 20} {
				want := bytes.Repeat([]byte{0xa5, 1, 0}, size/3+1)[:size]
				reply, err := n.Actor("r").RequestRaw(w.ctx, "echo", want)
				if err != nil {
					t.Fatalf("%d bytes from %s: %v", size, n.RID(), err)
				}
				if !bytes.Equal(reply.Payload(), want) {
					t.Errorf("%d bytes from %s came back changed", size, n.RID())
				}
				reply.Release()
			}
		}
	})
}

// A request ends once, by whatever comes first; what comes later is dropped.
// req: FO-03
func TestARequestEndsExactlyOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		gate := newGate()
		nodes := twoNodes(t, w, gate)
		for _, n := range nodes {
			r := n.Actor("r")
			stopped := gate.stop(t, w, r)
			short, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
			_, err := zlnode.Request[int](short, r, "note", 1)
			cancel()
			wantKind(t, err, zlnode.DeadlineExceeded)
			gone, cancel := context.WithCancel(w.ctx)
			cancelled := make(chan error, 1)
			go func() {
				_, err := zlnode.Request[int](gone, r, "note", 2)
				cancelled <- err
			}()
			cancel()
			wantKind(t, receive(t, cancelled), zlnode.DeadlineExceeded)
			gate.open <- struct{}{}
			if err := receive(t, stopped); err != nil {
				t.Errorf("the request that waited: %v", err)
			}
			// Replies still find their own callers.
			var wg sync.WaitGroup
			for i := range 200 {
				wg.Go(func() {
					want := fmt.Sprint("nonce ", i)
					reply, err := r.RequestRaw(w.ctx, "echo", []byte(want))
					if err != nil {
						t.Errorf("echo %d: %v", i, err)
						return
					}
					if string(reply.Payload()) != want {
						t.Errorf("echo %d got %q", i, reply.Payload())
					}
					reply.Release()
				})
			}
			wg.Wait()
			// A message whose deadline passed in the queue is not executed. Between
			// nodes a deadline travels as what is left of it, so there it may live
			// longer by the time that the record was on its way; but it runs once.
			seen, err := zlnode.Request[[]int](w.ctx, r, "seen", struct{}{})
			if err != nil {
				t.Fatal(err)
			}
			executed, allowed := 0, 0
			for _, v := range seen {
				if v == 1 {
					executed++
				}
			}
			if n == nodes[1] {
				allowed = 1
			}
			if executed > allowed {
				t.Errorf("a request that had ended was executed %d times: %v", executed, seen)
			}
		}
	})
}

func TestAHandlerThatWaitsStopsOnlyItsOwnActor(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		gate := newGate()
		nodes := twoNodes(t, w, gate)
		var stopped []<-chan error
		for i := range 8 { // more than there are workers
			id := fmt.Sprint("stopped-", i)
			if _, err := nodes[0].CreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "recorder"}); err != nil {
				t.Fatal(err)
			}
			stopped = append(stopped, gate.stop(t, w, nodes[0].Actor(id)))
		}
		// A handler that asks another Actor, while eight block for good.
		if _, err := zlnode.Request[[]int](w.ctx, nodes[1].Actor("r"), "ask", "other"); err != nil {
			t.Error(err)
		}
		close(gate.open)
		for _, c := range stopped {
			if err := receive(t, c); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAFullQueueRefusesAndLosesNothing(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		gate := newGate()
		nodes := twoNodes(t, w, gate)
		r := nodes[0].Actor("r")
		stopped := gate.stop(t, w, r)
		accepted, err := 0, error(nil)
		for err == nil && accepted < 10_000 {
			if err = zlnode.Send(w.ctx, r, "note", accepted); err == nil {
				accepted++
			}
		}
		wantKind(t, err, zlnode.CapacityExceeded) // a queue of this runtime
		_, err = zlnode.Request[int](w.ctx, nodes[1].Actor("r"), "note", 0)
		wantKind(t, err, zlnode.Unavailable) // a queue of another node
		gate.open <- struct{}{}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		seen, err := zlnode.Request[[]int](w.ctx, r, "seen", struct{}{})
		for err != nil && errors.Is(err, zlnode.CapacityExceeded) && w.ctx.Err() == nil {
			seen, err = zlnode.Request[[]int](w.ctx, r, "seen", struct{}{}) // until the queue has room
		}
		if err != nil || len(seen) != accepted {
			t.Errorf("%d executed, %d accepted: %v", len(seen), accepted, err)
		}
	})
}

// An Actor's messages go to its own queue; no callback of the Spot it is in sees
// them, and Actors of one Entry Spot do not wait for each other.
// req: MB-01
func TestPayloadNeverPassesASpotCallback(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		gate := newGate()
		app := recorderApp(gate)
		var callbacks atomic.Int64
		zlnode.OnCreateActor(app, func(*zlnode.CreateActorCall) (zlnode.Admission, error) {
			callbacks.Add(1)
			return zlnode.Accept(nil), nil
		})
		a := w.server("a", app)
		for _, id := range []string{"r1", "r2"} {
			if _, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "recorder"}); err != nil {
				t.Fatal(err)
			}
		}
		stopped := gate.stop(t, w, a.Actor("r1"))
		for i := range 100 {
			if _, err := zlnode.Request[int](w.ctx, a.Actor("r2"), "note", i); err != nil {
				t.Fatal(err)
			}
		}
		close(gate.open)
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		if n := callbacks.Load(); n != 2 {
			t.Errorf("the Entry Spot's callback ran %d times for two creations", n)
		}
	})
}

func TestAWrongRegistrationIsReportedAtStart(t *testing.T) {
	app := recorderApp(nil)
	r := zlnode.DefineActor(app, "recorder", func(*zlnode.ActorContext) (*recorder, error) { return nil, nil }, zlnode.DisableRelocation)
	zlnode.OnSend(r, "twice", func(*zlnode.ActorCall, *recorder, int) error { return nil })
	zlnode.OnSend(r, "twice", func(*zlnode.ActorCall, *recorder, int) error { return nil })
	zlnode.OnSend(r, "$zlink.x", func(*zlnode.ActorCall, *recorder, int) error { return nil })
	zlnode.DefineActor[recorder](app, "no policy", nil, zlnode.RelocationPolicy{})
	_, err := zlnode.Start(t.Context(), zlnode.Config{}, app)
	wantKind(t, err, zlnode.InvalidOperation)
	for _, mistake := range []string{`"recorder" is defined twice`, `"twice"`, `"$zlink.x"`, `"no policy"`, "no factory", "no relocation policy"} {
		if !strings.Contains(err.Error(), mistake) {
			t.Errorf("the error does not tell of %s:\n%v", mistake, err)
		}
	}
}

func TestACallThatIsKeptSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		app := zlnode.NewApp()
		kept := make(chan *zlnode.ActorCall, 1)
		r := zlnode.DefineActor(app, "keeper", func(*zlnode.ActorContext) (*recorder, error) { return &recorder{}, nil }, zlnode.DisableRelocation)
		zlnode.OnRequest(r, "keep", func(c *zlnode.ActorCall, _ *recorder, _ int) (int, error) { kept <- c; return 0, nil })
		a := w.server("a", app)
		if _, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "keeper"}); err != nil {
			t.Fatal(err)
		}
		if _, err := zlnode.Request[int](w.ctx, a.Actor("x"), "keep", 1); err != nil {
			t.Fatal(err)
		}
		c := receive(t, kept)
		w.stop(a) // so the turn is over and nobody uses the call again
		if err := c.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("Err after the turn: %v", err)
		}
		defer func() {
			if text := fmt.Sprint(recover()); !strings.Contains(text, "used after its turn") {
				t.Errorf("panic: %s", text)
			}
		}()
		_ = c.Push("p", 1)
	})
}

func TestAHandlersOwnFailureIsCountedAndLogged(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		nodes := twoNodes(t, w, nil)
		_, err := zlnode.Request[int](w.ctx, nodes[1].Actor("r"), "fail", "plain")
		wantKind(t, err, zlnode.InternalFailure)
		if !strings.Contains(err.Error(), "secret detail") { // a node may know; clients may not
			t.Errorf("%v", err)
		}
		if n := nodes[0].Stats().FailedRequests; n != 1 {
			t.Errorf("%d failed requests counted", n)
		}
		_, err = zlnode.Request[int](w.ctx, nodes[1].Actor("r"), "fail", "kind")
		wantKind(t, err, zlnode.Rejected)
		if n := nodes[0].Stats().FailedRequests; n != 1 {
			t.Errorf("a rejection counts as a failure: %d", n)
		}
	})
}
