package zlnode_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// joinWorld is what Actors that join Spots, and the Spots, do in a test.
type joinWorld struct {
	*world
	notes     journal // "did …" in the order in which it was done
	gate      *gate   // before which "stop" stands
	admit     func(*zlnode.JoinSpotCall) (zlnode.Admission, error)
	joined    func(*zlnode.SpotCall) error
	completed func(*zlnode.ActorCall, zlnode.JoinDone) error
	closing   func(*zlnode.SpotCall)
	done      chan zlnode.JoinDone // of each OnJoinCompleted that did not fail
	values    atomic.Int64         // that factories of Actors have made
}

func newJoinWorld(w *world) *joinWorld {
	return &joinWorld{world: w, gate: newGate(), done: make(chan zlnode.JoinDone, 1000)}
}

func (w *joinWorld) did(format string, args ...any) { w.notes.add("did "+format, args...) }

// nomad is an Actor that joins Spots.
type nomad struct {
	w     *joinWorld
	total int
}

// joinOrder tells a handler what Join to register.
type joinOrder struct {
	Actor   string // of a Spot's handler
	Spot    string // "": the Entry Spot
	Request any
	Timeout time.Duration
	Fail    bool // the handler, behind the registration
}

func (o joinOrder) then() error {
	if o.Fail {
		return zlnode.Errorf(zlnode.Rejected, "as it was told")
	}
	return nil
}

// limited sets the order's timeout.
func (o joinOrder) limited(j *zlnode.JoinCall) *zlnode.JoinCall {
	if o.Timeout != 0 {
		j.Timeout(o.Timeout)
	}
	return j
}

func (a *nomad) OnJoinCompleted(c *zlnode.ActorCall, done zlnode.JoinDone) error {
	a.w.did("complete %s %v", c.Actor().ID(), done.Outcome)
	if a.w.completed != nil {
		if err := a.w.completed(c, done); err != nil {
			return err
		}
	}
	a.w.done <- done
	return nil
}

// tent is a Spot that nomads join.
type tent struct{ w *joinWorld }

func (s *tent) OnActorJoin(c *zlnode.JoinSpotCall) (zlnode.Admission, error) {
	s.w.did("admit %s to %s %s", c.Actor.ID, c.Spot().ID(), c.Request)
	if s.w.admit != nil {
		return s.w.admit(c)
	}
	return zlnode.Accept(nil), nil
}

func (s *tent) OnJoinedActor(c *zlnode.SpotCall, actor zlnode.ActorRef) error {
	s.w.did("joined %s at %s", actor.ID, s.w.name(c.Spot().ID()))
	if s.w.joined != nil {
		return s.w.joined(c)
	}
	return nil
}

func (s *tent) OnLeaveActor(c *zlnode.SpotCall, actor zlnode.ActorRef) error {
	s.w.did("left %s from %s", actor.ID, s.w.name(c.Spot().ID()))
	return nil
}

func (s *tent) OnClosing(c *zlnode.SpotCall, _ zlnode.ClosingReason) error {
	s.w.did("closing %s", s.w.name(c.Spot().ID()))
	if s.w.closing != nil {
		s.w.closing(c)
	}
	return nil
}

// steppe is the Entry Spot of nomads, whom it does not admit.
type steppe struct{ w *joinWorld }

func (s *steppe) OnJoinedActor(c *zlnode.SpotCall, actor zlnode.ActorRef) error {
	return (&tent{s.w}).OnJoinedActor(c, actor)
}

func (s *steppe) OnLeaveActor(c *zlnode.SpotCall, actor zlnode.ActorRef) error {
	return (&tent{s.w}).OnLeaveActor(c, actor)
}

// name is the Spot's id, or "entry" for an Entry Spot's.
func (w *joinWorld) name(spot string) string {
	if strings.Contains(spot, "-entry-") {
		return "entry"
	}
	return spot
}

// app has the Actor type "nomad" and the User Spots "wide" and "apart".
func (w *joinWorld) app() *zlnode.App {
	app := counterApp()
	n := zlnode.DefineActor(app, "nomad", func(*zlnode.ActorContext) (*nomad, error) {
		w.values.Add(1)
		return &nomad{w: w}, nil
	}, zlnode.DisableRelocation)
	zlnode.OnRequest(n, "join", func(c *zlnode.ActorCall, _ *nomad, o joinOrder) (string, error) {
		call := c.JoinEntrySpot()
		if o.Spot != "" {
			call = c.JoinSpot(o.Spot, o.Request)
		}
		if err := o.limited(call).Defer(); err != nil {
			return "", err
		}
		w.did("defer %s", c.Actor().ID())
		return "registered", o.then()
	})
	zlnode.OnRequest(n, "stop", func(*zlnode.ActorCall, *nomad, struct{}) (struct{}, error) {
		w.gate.pass()
		return struct{}{}, nil
	})
	zlnode.OnRequest(n, "add", func(_ *zlnode.ActorCall, a *nomad, n int) (int, error) {
		a.total += n
		return a.total, nil
	})
	zlnode.OnRequest(n, "where", func(c *zlnode.ActorCall, _ *nomad, _ struct{}) (string, error) {
		return w.name(c.Actor().SpotID()), nil
	})
	zlnode.OnSend(n, "note", func(c *zlnode.ActorCall, _ *nomad, n int) error {
		w.did("note %d", n)
		return nil
	})
	for name, mode := range map[string]zlnode.Mode{"wide": zlnode.SpotWide, "apart": zlnode.PerActor} {
		s := zlnode.DefineUserSpot(app, name, func(*zlnode.SpotContext) (*tent, error) { return &tent{w}, nil }, mode, zlnode.RecreateOnRelocation)
		zlnode.OnSpotRequest(s, "join", func(c *zlnode.SpotCall, _ *tent, o joinOrder) (string, error) {
			call := c.JoinEntrySpot(o.Actor)
			if o.Spot != "" {
				call = c.JoinSpot(o.Actor, o.Spot, o.Request)
			}
			if err := o.limited(call).Defer(); err != nil {
				return "", err
			}
			return "registered", o.then()
		})
		zlnode.OnSpotRequest(s, "stop", func(*zlnode.SpotCall, *tent, struct{}) (struct{}, error) {
			w.gate.pass()
			return struct{}{}, nil
		})
	}
	quest := zlnode.DefineInstanceSpot(app, "quest", func(*zlnode.SpotContext) (*struct{}, error) { return &struct{}{}, nil }, zlnode.DisableRelocation)
	zlnode.OnSpotRequest(quest, "ping", func(*zlnode.SpotCall, *struct{}, struct{}) (struct{}, error) { return struct{}{}, nil })
	zlnode.DefineEntrySpot(app, func(*zlnode.SpotContext) (*steppe, error) { return &steppe{w}, nil })
	return app
}

// spot and actor make one, which gets its type's name for a Spot, at one of the nodes.
func (w *joinWorld) spot(n *zlnode.Node, id, typ string) zlnode.SpotRef {
	w.t.Helper()
	r, err := n.CreateSpot(w.ctx, zlnode.CreateSpot{ID: id, Type: typ})
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Ref
}

func (w *joinWorld) actor(n *zlnode.Node, id string) zlnode.ActorRef {
	w.t.Helper()
	r, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "nomad"})
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Ref
}

// join has the handler of the Actor, or of the Spot if the order names one, register a Join
// and returns what becomes of it.
func (w *joinWorld) join(to zlnode.Addr, o joinOrder) zlnode.JoinDone {
	w.t.Helper()
	if got, err := zlnode.Request[string](w.ctx, to, "join", o); err != nil || got != "registered" {
		w.t.Fatalf("the join was not registered: %q %v", got, err)
	}
	return receive(w.t, w.done)
}

// joins is join for one that is accepted.
func (w *joinWorld) joins(to zlnode.Addr, o joinOrder) zlnode.JoinDone {
	w.t.Helper()
	done := w.join(to, o)
	if done.Outcome != zlnode.JoinAccepted {
		w.t.Fatalf("the join ended %v: %v", done.Outcome, done.Err)
	}
	return done
}

// fails is join for one that fails with that kind.
func (w *joinWorld) fails(to zlnode.Addr, o joinOrder, kind zlnode.Kind) {
	w.t.Helper()
	done := w.join(to, o)
	if done.Outcome != zlnode.JoinFailed || zlnode.KindOf(done.Err) != kind {
		w.t.Errorf("the join of %+v ended %v with %v, want %v", o, done.Outcome, done.Err, kind)
	}
	namesItsObject(w.t, &done)
}

// namesItsObject fails unless the error of a Join that failed says what failed, and of which
// object.
func namesItsObject(t *testing.T, done *zlnode.JoinDone) {
	t.Helper()
	var e *zlnode.Error
	if !errors.As(done.Err, &e) || e.Op != "join" || e.Object == "" || e.Text == "" && e.Err == nil {
		t.Errorf("the join failed with %+v, of which one does not learn what it is about", done.Err)
	}
}

// where returns the Spot that the Actor is in, as a message of its own finds.
func (w *joinWorld) where(a zlnode.Addr) string {
	w.t.Helper()
	spot, err := zlnode.Request[string](w.ctx, a, "where", struct{}{})
	if err != nil {
		w.t.Fatal(err)
	}
	return spot
}

// await waits until the condition holds.
func (w *joinWorld) await(what string, condition func() bool) {
	w.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// was waits until that many things were done, and fails unless they are these, of which
// the departures, for which nobody waits, may come at any time behind what is before them.
func (w *joinWorld) was(want ...string) {
	w.t.Helper()
	w.await("what is to be done", func() bool { return len(w.notes.of("did")) >= len(want) })
	got := w.notes.of("did")
	isLeave := func(line string) bool { return strings.HasPrefix(line, "left ") }
	for i, line := range want {
		if isLeave(line) && i > 0 && slices.Index(got, line) < slices.Index(got, want[i-1]) {
			w.t.Errorf("%q came before %q", line, want[i-1])
		}
	}
	sorted := func(lines []string) string {
		var rest, left []string
		for _, line := range lines {
			if isLeave(line) {
				left = append(left, line)
			} else {
				rest = append(rest, line)
			}
		}
		slices.Sort(left)
		return fmt.Sprintf("%q and %q", rest, left)
	}
	if sorted(got) != sorted(want) {
		w.t.Errorf("it did %s, want %s", sorted(got), sorted(want))
	}
	w.notes.clear()
}

// balanced fails if the Store's books are not in order.
func (w *joinWorld) balanced() {
	w.t.Helper()
	if diff, err := w.location().Audit(w.ctx); err != nil || len(diff) != 0 {
		w.t.Errorf("the books: %s %v", strings.Join(diff, "; "), err)
	}
}
