package zlnode_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/hook"
)

// fort is two object servers: a, from where requests are made, and b. The Actor "near" is at
// a and "far" at b; both stand before the gate when they are asked to. "guard" is a lone
// Actor at a, "member" one of a SpotWide room there; they run the jobs of the test.
type fort struct {
	*world
	a, b *zlnode.Node
	gate *gate
	jobs chan func(context.Context)
	down bool // the test shuts a down
}

// errorAsked is what the Actors of a fort fail with, by the kind that they are asked for.
func errorAsked(k int) error { return zlnode.Errorf(zlnode.Kind(k), "%s", textAsked(k)) }

func textAsked(k int) string { return fmt.Sprintf("kind %d is what was asked for", k) }

func newFort(w *world) *fort {
	f := &fort{world: w, gate: newGate(), jobs: make(chan func(context.Context), 1)}
	f.b = f.server("b", f.app("far"))
	a, err := zlnode.Start(f.ctx, f.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), f.app("near"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.a = a
	f.t.Cleanup(func() {
		if !f.down {
			f.stop(a)
		}
	})
	f.linked(a, 1)
	for id, typ := range map[string]string{"near": "near", "far": "far", "guard": "near", "member": "near"} {
		if r, err := f.a.CreateActor(f.ctx, zlnode.CreateActor{ID: id, Type: typ}); err != nil || (r.Ref.RID == "b") != (id == "far") {
			f.t.Fatalf("%s: %+v, %v", id, r, err)
		}
	}
	inner := hook.Inner(f.a)
	if err := errors.Join(inner.PlaceSpot("room", "room"), inner.PlaceMember("member", "room")); err != nil {
		f.t.Fatal(err)
	}
	return f
}

func (f *fort) app(stableType string) *zlnode.App {
	app := zlnode.NewApp()
	a := zlnode.DefineActor(app, stableType, func(*zlnode.ActorContext) (*struct{}, error) { return &struct{}{}, nil }, zlnode.DisableRelocation)
	zlnode.OnRequest(a, "stop", func(_ *zlnode.ActorCall, _ *struct{}, kind int) (string, error) {
		f.gate.pass()
		if kind >= 0 {
			return "", errorAsked(kind)
		}
		return "passed", nil
	})
	zlnode.OnRequest(a, "fail", func(_ *zlnode.ActorCall, _ *struct{}, kind int) (string, error) { return "", errorAsked(kind) })
	zlnode.OnRequest(a, "wrapped", func(_ *zlnode.ActorCall, _ *struct{}, kind int) (string, error) {
		return "", fmt.Errorf("while it worked: %w", errorAsked(kind))
	})
	zlnode.OnRequest(a, "by far", func(c *zlnode.ActorCall, _ *struct{}, kind int) (string, error) {
		return zlnode.Request[string](c, c.Node().Actor("far"), "fail", kind)
	})
	zlnode.OnRequest(a, "echo", func(_ *zlnode.ActorCall, _ *struct{}, nonce string) (string, error) { return nonce, nil })
	zlnode.OnSend(a, "work", func(c *zlnode.ActorCall, _ *struct{}, _ int) error { (<-f.jobs)(c); return nil })
	zlnode.OnSend(a, "yield", func(c *zlnode.ActorCall, _ *struct{}, _ int) error { (<-f.jobs)(c.Yielding()); return nil })
	s := zlnode.DefineUserSpot(app, "room", func(*zlnode.SpotContext) (*struct{}, error) { return &struct{}{}, nil }, zlnode.SpotWide, zlnode.DisableRelocation)
	zlnode.OnSpotRequest(s, "echo", func(_ *zlnode.SpotCall, _ *struct{}, nonce string) (string, error) { return nonce, nil })
	return app
}

// wait runs the job where a request may be waited for.
type wait func(f *fort, job func(context.Context)) error

var waits = map[string]wait{
	"on a goroutine": func(f *fort, job func(context.Context)) error { go job(f.ctx); return nil },
	"in a handler": func(f *fort, job func(context.Context)) error {
		f.jobs <- job
		return zlnode.Send(f.ctx, f.a.Actor("guard"), "work", 0)
	},
	"in a yield": func(f *fort, job func(context.Context)) error {
		f.jobs <- job
		return zlnode.Send(f.ctx, f.a.Actor("member"), "yield", 0)
	},
}

// terminal is an end of a request.
type terminal struct {
	reply string
	err   error
}

// ask sends a request from where w says. cancel ends its own context; each end of it is one
// value of ended. A request to "stop" stands before the gate when ask returns.
func (f *fort) ask(w wait, id, packet string, kind int, timeout time.Duration) (ended <-chan terminal, cancel context.CancelFunc) {
	f.t.Helper()
	c, cancels := make(chan terminal, 2), make(chan context.CancelFunc, 1)
	err := w(f, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		cancels <- cancel
		reply, err := zlnode.Request[string](ctx, f.a.Actor(id), packet, kind)
		c <- terminal{reply, err}
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if packet == "stop" {
		receive(f.t, f.gate.entered)
	}
	return c, receive(f.t, cancels)
}

// echoes checks that everything still answers, each request with its own reply.
func (f *fort) echoes() {
	f.t.Helper()
	var all sync.WaitGroup
	for i := range 60 {
		to := []zlnode.Addr{f.a.Actor("near"), f.a.Actor("far"), f.a.Actor("guard"), f.a.Actor("member"), f.a.Spot("room")}[i%5]
		all.Go(func() {
			want := fmt.Sprint("nonce ", i)
			if got, err := zlnode.Request[string](f.ctx, to, "echo", want); got != want || err != nil {
				f.t.Errorf("%s answered %q with %q, %v", to.ID(), want, got, err)
			}
		})
	}
	all.Wait()
}

// Whatever ends a request first is its only end, wherever it is waited for; what comes
// later belongs to nobody, not to the next request either.
// req: FO-03
func TestWhatComesFirstEndsARequest(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		f := newFort(w)
		open := func() { f.gate.open <- struct{}{} }
		for where, wait := range waits {
			for _, id := range []string{"near", "far"} {
				expect := func(what string, ended <-chan terminal, late func(), right func(terminal) bool) {
					t.Helper()
					if got := receive(t, ended); !right(got) {
						t.Errorf("%s of %s, waited for %s: it ended with %+v", what, id, where, got)
					}
					late()
					f.echoes()
					if len(ended) != 0 {
						t.Errorf("%s of %s, waited for %s: it ended again with %+v", what, id, where, receive(t, ended))
					}
				}
				ended, cancel := f.ask(wait, id, "stop", -1, time.Minute)
				open()
				expect("reply", ended, cancel, func(e terminal) bool { return e.err == nil && e.reply == "passed" })
				ended, cancel = f.ask(wait, id, "stop", int(zlnode.DataLost), time.Minute)
				open()
				expect("error", ended, cancel, func(e terminal) bool { return errors.Is(e.err, zlnode.DataLost) })
				ended, cancel = f.ask(wait, id, "stop", int(zlnode.DataLost), time.Minute)
				cancel()
				expect("cancellation", ended, open, func(e terminal) bool {
					return errors.Is(e.err, zlnode.DeadlineExceeded) && errors.Is(e.err, context.Canceled)
				})
				f.ask(waits["on a goroutine"], id, "stop", -1, time.Minute) // the next one waits behind it
				ended, _ = f.ask(wait, id, "fail", int(zlnode.DataLost), 50*time.Millisecond)
				expect("deadline", ended, open, func(e terminal) bool {
					return errors.Is(e.err, zlnode.DeadlineExceeded) && !errors.Is(e.err, context.Canceled)
				})
			}
		}
	})
}

// A node that stops ends what it waits for, when its time is over.
// req: FO-03
func TestAShutdownEndsARequest(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		for where, wait := range waits {
			for _, id := range []string{"near", "far"} {
				f := newFort(newWorld(t, w.url))
				ended, _ := f.ask(wait, id, "stop", -1, time.Minute)
				f.down = true
				var stopping sync.WaitGroup
				stopping.Go(func() {
					ctx, cancel := context.WithTimeout(f.ctx, 100*time.Millisecond)
					defer cancel()
					_ = f.a.Shutdown(ctx) // who waited in a turn was not ended in order
				})
				got := receive(t, ended)
				f.gate.open <- struct{}{} // a reply now is late
				if zlnode.KindOf(got.err) != zlnode.ShuttingDown {
					t.Errorf("a request to %s, waited for %s, ended with %+v", id, where, got)
				}
				stopping.Wait()
				if len(ended) != 0 {
					t.Errorf("a request to %s, waited for %s, ended again with %+v", id, where, receive(t, ended))
				}
				_, err := zlnode.Request[string](f.ctx, f.a.Actor(id), "echo", "late")
				wantKind(t, err, zlnode.ShuttingDown)
			}
		}
	})
}

// req: FO-03
func TestTheNodesTimeoutEndsARequestWithoutADeadline(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		gate := newGate()
		hasty := func(rid string, role zlnode.Role) *zlnode.Node {
			return w.start(zlnode.Config{RID: rid, Role: role, RequestTimeout: 50 * time.Millisecond}, recorderApp(gate))
		}
		nodes := []*zlnode.Node{hasty("a", zlnode.RoleServer), hasty("b", zlnode.RoleClient), w.client("patient", 1, recorderApp(gate))}
		w.linked(nodes[1], 1)
		if _, err := nodes[2].CreateActor(w.ctx, zlnode.CreateActor{ID: "r", Type: "recorder"}); err != nil {
			t.Fatal(err)
		}
		stopped := gate.stop(t, w, nodes[2].Actor("r"))
		for _, n := range nodes[:2] {
			_, err := zlnode.Request[int](context.WithoutCancel(w.ctx), n.Actor("r"), "note", 1)
			wantKind(t, err, zlnode.DeadlineExceeded)
		}
		close(gate.open)
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
	})
}
