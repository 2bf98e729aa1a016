package zlnode_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// estate is two servers, a and b, with Spots that move from one to the other, and c, which has
// clients' Sessions. Its Actors are walkers.
type estate struct {
	*world
	walk    *walkWorld
	a, b, c *zlnode.Node
	notes   journal // "ran <node> <line>", "tick <node>", "did <callback> at <node> …"
	gate    *gate
	makes   atomic.Pointer[func(c *zlnode.SpotContext) error] // in a factory
	opens   atomic.Pointer[func(c *zlnode.SpotCall) error]    // in an OnInitialize
}

// holding is the value of a "hall", which is PerActor, or of a "shelf", an Instance Spot.
type holding struct {
	e    *estate
	Done []string
}

func (h *holding) did(c *zlnode.SpotCall, what string, more ...any) {
	h.e.notes.add("did %s", strings.TrimSpace(fmt.Sprintln(append([]any{what, "at", c.Node().RID()}, more...)...)))
}

func (h *holding) Configure(c *zlnode.SpotCall) error {
	h.did(c, "configure", c.Relocated())
	return nil
}

func (h *holding) OnInitialize(c *zlnode.SpotCall) error {
	h.did(c, "initialize", c.Relocated())
	if f := h.e.opens.Load(); f != nil {
		return (*f)(c)
	}
	return nil
}

func (h *holding) OnClosing(c *zlnode.SpotCall, why zlnode.ClosingReason) error {
	_, bounded := c.Deadline()
	acts := zlnode.Send(c, c.Node().Spot(c.Spot().ID()), "note", "by the old one") == nil
	h.did(c, "closing", why, len(h.Done), bounded, acts)
	return nil
}

func (h *holding) OnDisconnectActor(c *zlnode.SpotCall, actor zlnode.ActorRef) error {
	h.did(c, "gone", actor.ID, actor.ObjectGen != 0 && actor.OwnerGen != 0 && actor.Mesh != "" && actor.RID != "")
	return nil
}

// holdingAdapter keeps the lines of a shelf.
type holdingAdapter struct{}

func (holdingAdapter) Capture(h *holding) ([]byte, error)     { return json.Marshal(h.Done) }
func (holdingAdapter) Restore(h *holding, state []byte) error { return json.Unmarshal(state, &h.Done) }

func (e *estate) app() *zlnode.App {
	app := e.walk.preserving()
	make := func(c *zlnode.SpotContext) (*holding, error) {
		if f := e.makes.Load(); f != nil {
			if err := (*f)(c); err != nil {
				return nil, err
			}
		}
		return &holding{e: e}, nil
	}
	note := func(c *zlnode.SpotCall, h *holding, line string) ([]string, error) {
		h.Done = append(h.Done, line)
		e.notes.add("ran %s %s", c.Node().RID(), line)
		return h.Done, nil
	}
	fixed := zlnode.DefineActor(app, "fixed", func(*zlnode.ActorContext) (*walker, error) { return &walker{w: e.walk}, nil }, zlnode.DisableRelocation)
	zlnode.OnRequest(fixed, "join", func(c *zlnode.ActorCall, v *walker, to walkTo) (struct{}, error) {
		return struct{}{}, to.register(c, v)
	})
	hall := zlnode.DefineUserSpot(app, "hall", make, zlnode.PerActor, zlnode.RecreateOnRelocation)
	zlnode.OnTopic(hall, "note", func(c *zlnode.SpotCall, h *holding, line string) error {
		_, err := note(c, h, line)
		return err
	})
	zlnode.OnSpotRequest(hall, "subscribe", func(c *zlnode.SpotCall, _ *holding, topic string) (struct{}, error) {
		return struct{}{}, c.Subscribe(topic)
	})
	shelf := zlnode.DefineInstanceSpot(app, "shelf", make, zlnode.PreserveStateWith(holdingAdapter{}))
	for _, s := range []*zlnode.SpotType[holding]{hall, shelf} {
		zlnode.OnSpotRequest(s, "ask", note)
		zlnode.OnSpotSend(s, "note", func(c *zlnode.SpotCall, h *holding, line string) error {
			_, err := note(c, h, line)
			return err
		})
		zlnode.OnSpotRequest(s, "where", func(c *zlnode.SpotCall, _ *holding, _ struct{}) (string, error) { return c.Node().RID(), nil })
		zlnode.OnSpotRequest(s, "members", func(c *zlnode.SpotCall, _ *holding, _ struct{}) (int, error) { return c.Members(), nil })
		zlnode.OnSpotRequest(s, "clock", func(c *zlnode.SpotCall, _ *holding, o zlnode.TimerOptions) (struct{}, error) {
			return struct{}{}, c.StartTimer("clock", o)
		})
		zlnode.OnSpotTimer(s, "clock", func(c *zlnode.SpotCall, _ *holding, _ zlnode.Tick) error {
			e.notes.add("tick %s", c.Node().RID())
			return nil
		})
		zlnode.OnSpotRequest(s, "close", func(c *zlnode.SpotCall, _ *holding, _ struct{}) (bool, error) { return c.Close() })
		zlnode.OnSpotRequest(s, "close late", func(c *zlnode.SpotCall, _ *holding, _ struct{}) (bool, error) {
			closes, err := c.Close()
			e.gate.pass()
			return closes, err
		})
		zlnode.OnSpotRequest(s, "wait", func(c *zlnode.SpotCall, h *holding, line string) (struct{}, error) {
			_, err := zlnode.Do(c.Yielding(), c.Node(), zlnode.IO, func(context.Context) (struct{}, error) {
				e.gate.pass()
				return struct{}{}, nil
			})
			_, _ = note(c, h, line)
			return struct{}{}, err
		})
	}
	return app
}

func newEstate(w *world) *estate { return newEstateWith(w, zlnode.Config{}) }

// newEstateWith has servers of that Config.
func newEstateWith(w *world, server zlnode.Config) *estate {
	e := &estate{world: w, gate: newGate(), walk: &walkWorld{}}
	app := e.app()
	server.Role = zlnode.RoleServer
	server.RID = "a"
	e.a = e.start(server, app)
	server.RID = "b"
	e.b = e.start(server, app)
	e.c = e.start(zlnode.Config{RID: "c", Role: zlnode.RoleClient, Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "player"}}}, app)
	e.linked(e.c, 2)
	e.linked(e.a, 1)
	return e
}

func onEstate(t *testing.T, f func(t *testing.T, e *estate)) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) { f(t, newEstate(w)) })
}

// shelfAt brings shelves into being until one is at the node.
func (e *estate) shelfAt(rid string) string {
	e.t.Helper()
	for {
		e.made++
		id := fmt.Sprint("shelf-", e.made)
		at, err := zlnode.Request[string](e.ctx, e.c.Instance(id, "shelf"), "where", struct{}{})
		if err != nil {
			e.t.Fatal(err)
		}
		if at == rid {
			return id
		}
	}
}

// asks has the Spot note a line, and returns all that it has noted.
func (e *estate) asks(spot zlnode.Addr, line string) []string {
	e.t.Helper()
	done, err := zlnode.Request[[]string](e.ctx, spot, "ask", line)
	if err != nil {
		e.t.Fatalf("asked %q: %v", line, err)
	}
	return done
}

func (e *estate) sends(spot zlnode.Addr, lines ...string) {
	e.t.Helper()
	for _, line := range lines {
		if err := zlnode.Send(e.ctx, spot, "note", line); err != nil {
			e.t.Fatalf("sent %q: %v", line, err)
		}
	}
}

func (e *estate) publishes(topic string, lines ...string) {
	e.t.Helper()
	for _, line := range lines {
		if _, err := zlnode.Publish(e.ctx, e.c.Topic(topic), "note", line); err != nil {
			e.t.Fatal(err)
		}
	}
}

// did returns what callbacks have run, each node's in their order, a's first.
func (e *estate) did(what ...string) (all []string) {
	for _, rid := range []string{" at a", " at b"} {
		for _, line := range e.notes.of("did") {
			if strings.Contains(line, rid) && (what == nil || slices.ContainsFunc(what, func(w string) bool { return strings.HasPrefix(line, w) })) {
				all = append(all, line)
			}
		}
	}
	return all
}

// ran waits until that many lines ran, and fails unless they are these.
func (e *estate) ran(want ...string) {
	e.t.Helper()
	e.eventually(fmt.Sprint(len(want), " lines"), func() bool { return len(e.notes.of("ran")) >= len(want) })
	if got := e.notes.of("ran"); !slices.Equal(got, want) {
		e.t.Errorf("ran %q, want %q", got, want)
	}
}

// stopsMove returns when the factory of the Spot at the target is under way, which goes on when the
// gate opens.
func (e *estate) stopsMove(id string) <-chan error {
	e.t.Helper()
	e.making(func(c *zlnode.SpotContext) error {
		if c.ID() == id && c.Node().RID() == "b" {
			e.gate.pass()
		}
		return nil
	})
	moved := e.relocates(e.a, id, "b")
	receive(e.t, e.gate.entered)
	return moved
}

func (e *estate) making(f func(c *zlnode.SpotContext) error) { e.makes.Store(&f) }
func (e *estate) opening(f func(c *zlnode.SpotCall) error)   { e.opens.Store(&f) }

func (e *estate) inOrder() { (&joinWorld{world: e.world}).balanced() }

// ticks waits for a tick of a Spot's timer at the node.
func (e *estate) ticks(rid string) {
	e.t.Helper()
	count := func() int {
		return len(slices.DeleteFunc(e.notes.of("tick"), func(at string) bool { return at != rid }))
	}
	before := count()
	e.eventually("a tick at "+rid, func() bool { return count() > before })
}

var everyFew = zlnode.TimerOptions{Period: 5 * time.Millisecond}
