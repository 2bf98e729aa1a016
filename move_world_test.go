package zlnode_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/zlnode/zlnode"
)

// walker is an Actor that moves: its state is what it has executed, in order.
type walker struct {
	w    *walkWorld
	Done []string // of each message "<sender> <number>"
}

// walkWorld is what all nodes of a test share.
type walkWorld struct {
	notes   journal // "did …" in the order in which it was done, "tick <node> <count>"
	gate    *gate
	ended   chan zlnode.JoinDone
	capture func(*walker) ([]byte, error)
	restore func(*walker, []byte) error
	admit   func(*zlnode.JoinSpotCall) (zlnode.Admission, error)
	joined  func(*zlnode.SpotCall, zlnode.ActorRef) error
	done    func(*zlnode.ActorCall, zlnode.JoinDone) error
	factory func(*zlnode.ActorContext) error
	closing func(*zlnode.SpotCall)
}

type walkAdapter struct{ w *walkWorld }

func (a walkAdapter) Capture(v *walker) ([]byte, error) {
	a.w.notes.add("did capture")
	if a.w.capture != nil {
		return a.w.capture(v)
	}
	return json.Marshal(v.Done)
}

func (a walkAdapter) Restore(v *walker, state []byte) error {
	a.w.notes.add("did restore")
	if a.w.restore != nil {
		return a.w.restore(v, state)
	}
	return json.Unmarshal(state, &v.Done)
}

func (v *walker) OnJoinCompleted(c *zlnode.ActorCall, done zlnode.JoinDone) error {
	v.w.notes.add("did completed %v at %s", done.Outcome, c.Node().RID())
	if v.w.done != nil {
		if err := v.w.done(c, done); err != nil {
			return err
		}
	}
	v.w.ended <- done
	return nil
}

// place is a User Spot that walkers go to.
type place struct{ w *walkWorld }

func (p *place) OnActorJoin(c *zlnode.JoinSpotCall) (zlnode.Admission, error) {
	p.w.notes.add("did admit at %s", c.Node().RID())
	if p.w.admit != nil {
		return p.w.admit(c)
	}
	return zlnode.Accept(nil), nil
}

func (p *place) OnJoinedActor(c *zlnode.SpotCall, actor zlnode.ActorRef) error {
	p.w.notes.add("did joined at %s", c.Node().RID())
	if p.w.joined != nil {
		return p.w.joined(c, actor)
	}
	return nil
}

func (p *place) OnLeaveActor(c *zlnode.SpotCall, actor zlnode.ActorRef) error {
	p.w.notes.add("did leave at %s", c.Node().RID())
	return nil
}

func (p *place) OnReconnectingActor(c *zlnode.SpotCall, _ zlnode.ActorRef) error {
	p.w.notes.add("client away at %s", c.Node().RID())
	return nil
}

func (p *place) OnReconnectedActor(c *zlnode.SpotCall, _ zlnode.ActorRef) error {
	p.w.notes.add("client back at %s", c.Node().RID())
	return nil
}

func (p *place) OnDisconnectActor(c *zlnode.SpotCall, _ zlnode.ActorRef) error {
	p.w.notes.add("client gone at %s", c.Node().RID())
	return nil
}

func (p *place) OnClosing(c *zlnode.SpotCall, _ zlnode.ClosingReason) error {
	if p.w.closing != nil {
		p.w.closing(c)
	}
	return nil
}

// station is the Entry Spot of walkers.
type station struct{ w *walkWorld }

func (s *station) OnJoinedActor(c *zlnode.SpotCall, _ zlnode.ActorRef) error {
	s.w.notes.add("did joined entry at %s", c.Node().RID())
	return nil
}

func (s *station) OnLeaveActor(c *zlnode.SpotCall, _ zlnode.ActorRef) error {
	s.w.notes.add("did leave entry at %s", c.Node().RID())
	return nil
}

// walkTo tells a walker's handler what Join to register.
type walkTo struct {
	Spot    string
	Entry   bool
	Timeout time.Duration
	Stop    bool   // before the gate, before the registration
	Then    string // the handler tells the walker that, behind the registration
}

func (to walkTo) register(c *zlnode.ActorCall, v *walker) error {
	if to.Stop {
		v.w.gate.pass()
	}
	j := c.JoinEntrySpot()
	if !to.Entry {
		j = c.JoinSpot(to.Spot, nil)
	}
	if to.Timeout != 0 {
		j.Timeout(to.Timeout)
	}
	if err := j.Defer(); err != nil {
		return err
	}
	if to.Then != "" {
		return zlnode.Send(c, c.Node().Actor(c.Actor().ID()), "tell", to.Then)
	}
	return nil
}

// app has the Actors "walker" and the User Spots "wide" and "single".
func (w *walkWorld) app(policy zlnode.RelocationPolicy) *zlnode.App {
	w.ended, w.gate = make(chan zlnode.JoinDone, 64), newGate()
	app := zlnode.NewApp()
	t := zlnode.DefineActor(app, "walker", func(c *zlnode.ActorContext) (*walker, error) {
		if w.factory != nil {
			if err := w.factory(c); err != nil {
				return nil, err
			}
		}
		return &walker{w: w}, nil
	}, policy)
	zlnode.OnRequest(t, "join", func(c *zlnode.ActorCall, v *walker, to walkTo) (struct{}, error) {
		return struct{}{}, to.register(c, v)
	})
	zlnode.OnSend(t, "join", func(c *zlnode.ActorCall, v *walker, to walkTo) error { return to.register(c, v) })
	add := func(c *zlnode.ActorCall, v *walker, line string) ([]string, error) {
		v.Done = append(v.Done, line)
		w.notes.add("ran %s %s", c.Node().RID(), line)
		if c.Bound() {
			return v.Done, c.Push("done", line)
		}
		return v.Done, nil
	}
	zlnode.OnRequest(t, "ask", add)
	zlnode.OnSend(t, "tell", func(c *zlnode.ActorCall, v *walker, line string) error {
		_, err := add(c, v, line)
		return err
	})
	zlnode.OnRequest(t, "where", func(c *zlnode.ActorCall, _ *walker, _ struct{}) (string, error) {
		return c.Node().RID() + " " + c.Actor().SpotID(), nil
	})
	zlnode.OnRequest(t, "away", func(c *zlnode.ActorCall, _ *walker, _ struct{}) (bool, error) { return c.Reconnecting(), nil })
	zlnode.OnRequest(t, "stop", func(*zlnode.ActorCall, *walker, struct{}) (struct{}, error) {
		w.gate.pass()
		return struct{}{}, nil
	})
	zlnode.OnRequest(t, "linger", func(c *zlnode.ActorCall, _ *walker, other string) (struct{}, error) {
		return zlnode.Request[struct{}](c.Yielding(), c.Node().Actor(other), "stop", struct{}{})
	})
	zlnode.OnRequest(t, "clock", func(c *zlnode.ActorCall, _ *walker, o zlnode.TimerOptions) (struct{}, error) {
		return struct{}{}, c.StartTimer("clock", o)
	})
	zlnode.OnSend(t, "clock", func(c *zlnode.ActorCall, _ *walker, o zlnode.TimerOptions) error { return c.StartTimer("clock", o) })
	zlnode.OnTimer(t, "clock", func(c *zlnode.ActorCall, _ *walker, tick zlnode.Tick) error {
		w.notes.add("tick %s %d", c.Node().RID(), tick.Count)
		return nil
	})
	zlnode.OnRequestRaw(t, "describe", func(c *zlnode.ActorCall, _ *walker, payload []byte) ([]byte, error) {
		_, bounded := c.Deadline()
		return fmt.Appendf(nil, "%s deadline=%v", describe(c, payload), bounded), nil
	})
	zlnode.DefineEntrySpot(app, func(*zlnode.SpotContext) (*station, error) { return &station{w}, nil })
	v := zlnode.DefineSession(app, "player", func(*zlnode.SessionContext) (*visitor, error) { return &visitor{}, nil })
	zlnode.Relay(v, "ask", "walker")
	zlnode.Relay(v, "tell", "walker")
	zlnode.OnPacketRequest(v, "bind", func(c *zlnode.SessionCall, _ *visitor, ref zlnode.ActorRef) (string, error) {
		return "bound", c.Bind(ref)
	})
	defineResuming(v)
	w.defineNoticed(app)
	w.defineHall(app)
	w.defineArena(app)
	for name, mode := range map[string]zlnode.Mode{"wide": zlnode.SpotWide, "single": zlnode.PerActor} {
		s := zlnode.DefineUserSpot(app, name, func(*zlnode.SpotContext) (*place, error) { return &place{w}, nil }, mode, zlnode.RecreateOnRelocation)
		zlnode.OnSpotRequest(s, "stop", func(*zlnode.SpotCall, *place, struct{}) (struct{}, error) {
			w.gate.pass()
			return struct{}{}, nil
		})
	}
	return app
}

func (w *walkWorld) preserving() *zlnode.App {
	return w.app(zlnode.PreserveStateWith(walkAdapter{w}))
}

func numbered(sender string, n int) string { return fmt.Sprintf("%s %d", sender, n) }

// createActorAt creates Actors of the type until one is at the node rid.
func (w *world) createActorAt(n *zlnode.Node, rid, typ string) zlnode.ActorRef {
	w.t.Helper()
	for range 100 {
		w.made++
		r, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: fmt.Sprint(typ, "-", w.made), Type: typ})
		if err != nil {
			w.t.Fatal(err)
		}
		if r.Ref.RID == rid {
			return r.Ref
		}
	}
	w.t.Fatalf("no actor was placed at %s", rid)
	panic("unreachable")
}
