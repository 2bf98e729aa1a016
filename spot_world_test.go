package zlnode_test

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/zlnode/zlnode"
)

// room is a User Spot whose callbacks a test controls.
type room struct {
	w     *roomWorld
	total int
}

type roomWorld struct {
	factories  atomic.Int64 // runs of the factory
	factory    func() error
	configure  func(*zlnode.SpotCall) error
	admit      func(*zlnode.CreateSpotCall) (zlnode.Admission, error)
	initialize func(*zlnode.SpotCall) error
	closing    func(*zlnode.SpotCall, zlnode.ClosingReason) error
	gate       *gate // before which "stop" stands
	notes      journal
}

func (r *room) Configure(c *zlnode.SpotCall) error {
	r.w.notes.add("did configure")
	if r.w.configure == nil {
		return nil
	}
	return r.w.configure(c)
}

func (r *room) OnCreate(c *zlnode.CreateSpotCall) (zlnode.Admission, error) {
	r.w.notes.add("did create %s", c.Request)
	if r.w.admit == nil {
		return zlnode.Accept(nil), nil
	}
	return r.w.admit(c)
}

func (r *room) OnInitialize(c *zlnode.SpotCall) error {
	r.w.notes.add("did initialize")
	if r.w.initialize == nil {
		return nil
	}
	return r.w.initialize(c)
}

func (r *room) OnClosing(c *zlnode.SpotCall, reason zlnode.ClosingReason) error {
	r.w.notes.add("did closing %d", reason)
	if r.w.closing == nil {
		return nil
	}
	return r.w.closing(c, reason)
}

// did returns what the rooms noted that begins so, in order.
func (w *roomWorld) did(what string) []string {
	return slices.DeleteFunc(w.notes.of("did"), func(line string) bool { return !strings.HasPrefix(line, what) })
}

// closes is how many OnClosing have run.
func (w *roomWorld) closes() int { return len(w.did("closing")) }

// app has the types "room" (SpotWide), "hall" (PerActor) and the Actors of counterApp.
func (w *roomWorld) app(options ...zlnode.SpotOption) *zlnode.App {
	w.gate = newGate()
	app := counterApp()
	for name, mode := range map[string]zlnode.Mode{"room": zlnode.SpotWide, "hall": zlnode.PerActor} {
		s := zlnode.DefineUserSpot(app, name, func(*zlnode.SpotContext) (*room, error) {
			w.factories.Add(1)
			if w.factory != nil {
				if err := w.factory(); err != nil {
					return nil, err
				}
			}
			return &room{w: w}, nil
		}, mode, zlnode.RecreateOnRelocation, options...)
		zlnode.OnSpotRequest(s, "add", func(_ *zlnode.SpotCall, r *room, n int) (int, error) {
			r.total += n
			return r.total, nil
		})
		zlnode.OnSpotSend(s, "note", func(_ *zlnode.SpotCall, r *room, n int) error {
			r.w.notes.add("did note %d", n)
			return nil
		})
		zlnode.OnSpotRequest(s, "stop", func(_ *zlnode.SpotCall, r *room, _ struct{}) (struct{}, error) {
			r.w.gate.pass()
			return struct{}{}, nil
		})
		zlnode.OnSpotRequest(s, "close", func(c *zlnode.SpotCall, _ *room, _ struct{}) (bool, error) { return c.Close() })
		zlnode.OnSpotRequest(s, "close me", func(c *zlnode.SpotCall, _ *room, _ struct{}) (bool, error) {
			return c.Node().CloseSpot(c, c.Spot().Ref())
		})
		zlnode.OnSpotTimer(s, "tick", func(_ *zlnode.SpotCall, r *room, _ zlnode.Tick) error {
			r.w.notes.add("did tick")
			return nil
		})
	}
	return app
}

// createSpotAt creates rooms until one is at the node rid.
func (w *world) createSpotAt(n *zlnode.Node, rid, typ string) zlnode.SpotRef {
	w.t.Helper()
	for range 100 {
		r, err := n.CreateSpot(w.ctx, zlnode.CreateSpot{Type: typ})
		if err != nil {
			w.t.Fatal(err)
		}
		if r.Ref.RID == rid {
			return r.Ref
		}
	}
	w.t.Fatalf("no spot was placed at %s", rid)
	panic("unreachable")
}
