package zlnode_test

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/zlnode/zlnode"
)

// walker is an Actor that moves: its state is what it has executed, in order.
type walker struct {
	w    *walkWorld
	Done []string // of each message "<sender> <number>"
}

// walkWorld is what all nodes of a test share.
type walkWorld struct {
	notes   journal
	mu      sync.Mutex
	ended   chan zlnode.JoinDone
	capture func(*walker) ([]byte, error)
	restore func(*walker, []byte) error
	admit   func(*zlnode.JoinSpotCall) (zlnode.Admission, error)
	joined  func(*zlnode.SpotCall, zlnode.ActorRef) error
	done    func(*zlnode.ActorCall, zlnode.JoinDone) error
}

type walkAdapter struct{ w *walkWorld }

func (a walkAdapter) Capture(v *walker) ([]byte, error) {
	if a.w.capture != nil {
		return a.w.capture(v)
	}
	return json.Marshal(v.Done)
}

func (a walkAdapter) Restore(v *walker, state []byte) error {
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

type walkTo struct {
	Spot  string
	Entry bool
}

// app has the Actors "walker" and the User Spots "wide" and "single".
func (w *walkWorld) app(policy zlnode.RelocationPolicy) *zlnode.App {
	w.ended = make(chan zlnode.JoinDone, 64)
	app := zlnode.NewApp()
	t := zlnode.DefineActor(app, "walker", func(*zlnode.ActorContext) (*walker, error) { return &walker{w: w}, nil }, policy)
	zlnode.OnRequest(t, "join", func(c *zlnode.ActorCall, v *walker, to walkTo) (struct{}, error) {
		if to.Entry {
			return struct{}{}, c.JoinEntrySpot().Defer()
		}
		return struct{}{}, c.JoinSpot(to.Spot, nil).Defer()
	})
	add := func(c *zlnode.ActorCall, v *walker, line string) ([]string, error) {
		v.Done = append(v.Done, line)
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
	for name, mode := range map[string]zlnode.Mode{"wide": zlnode.SpotWide, "single": zlnode.PerActor} {
		zlnode.DefineUserSpot(app, name, func(*zlnode.SpotContext) (*place, error) { return &place{w}, nil }, mode, zlnode.RecreateOnRelocation)
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
