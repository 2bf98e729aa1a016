package zlnode_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// ballroom is a SpotWide Spot that takes its state along: what it has executed, in order.
type ballroom struct {
	w    *walkWorld
	Done []string
}

type ballroomAdapter struct{ w *walkWorld }

func (a ballroomAdapter) Capture(h *ballroom) ([]byte, error) {
	a.w.notes.add("did capture hall")
	return json.Marshal(h.Done)
}

func (a ballroomAdapter) Restore(h *ballroom, state []byte) error {
	a.w.notes.add("did restore hall")
	return json.Unmarshal(state, &h.Done)
}

func (h *ballroom) OnActorJoin(c *zlnode.JoinSpotCall) (zlnode.Admission, error) {
	if h.w.admit != nil {
		return h.w.admit(c)
	}
	return zlnode.Accept(nil), nil
}

func (h *ballroom) OnInitialize(c *zlnode.SpotCall) error {
	h.w.notes.add("did initialize at %s relocated=%v members=%d", c.Node().RID(), c.Relocated(), c.Members())
	return nil
}

func (h *ballroom) OnJoinedActor(*zlnode.SpotCall, zlnode.ActorRef) error {
	h.w.notes.add("did joined")
	return nil
}

func (h *ballroom) OnLeaveActor(*zlnode.SpotCall, zlnode.ActorRef) error {
	h.w.notes.add("did leave")
	return nil
}

func (h *ballroom) OnClosing(c *zlnode.SpotCall, reason zlnode.ClosingReason) error {
	h.w.notes.add("closing at %s %v %q", c.Node().RID(), reason, h.Done)
	return nil
}

// defineHall adds the User Spot "ballroom".
func (w *walkWorld) defineHall(app *zlnode.App) {
	s := zlnode.DefineUserSpot(app, "ballroom", func(*zlnode.SpotContext) (*ballroom, error) { return &ballroom{w: w}, nil }, zlnode.SpotWide, zlnode.PreserveStateWith(ballroomAdapter{w}))
	zlnode.OnSpotRequest(s, "ask", func(c *zlnode.SpotCall, h *ballroom, line string) ([]string, error) {
		h.Done = append(h.Done, line)
		return h.Done, nil
	})
	zlnode.OnSpotSend(s, "tell", func(c *zlnode.SpotCall, h *ballroom, line string) error {
		h.Done = append(h.Done, line)
		return nil
	})
	zlnode.OnSpotRequest(s, "round", func(c *zlnode.SpotCall, h *ballroom, line string) (struct{}, error) {
		h.Done = append(h.Done, line)
		return struct{}{}, c.RelocationReady().Defer()
	})
	zlnode.OnSpotRequest(s, "stop", func(*zlnode.SpotCall, *ballroom, struct{}) (struct{}, error) {
		w.gate.pass()
		return struct{}{}, nil
	})
	zlnode.OnSpotRequest(s, "bell", func(c *zlnode.SpotCall, _ *ballroom, o zlnode.TimerOptions) (struct{}, error) {
		return struct{}{}, c.StartTimer("bell", o)
	})
	zlnode.OnSpotTimer(s, "bell", func(c *zlnode.SpotCall, _ *ballroom, tick zlnode.Tick) error {
		w.notes.add("bell %s %d", c.Node().RID(), tick.Count)
		return nil
	})
}

// arena is a SpotWide Spot that says itself when it may move.
type arena struct{ w *walkWorld }

func (a *arena) OnRelocationReadyCompleted(c *zlnode.SpotCall) error {
	a.w.notes.add("arena completed at %s", c.Node().RID())
	return nil
}

func (w *walkWorld) defineArena(app *zlnode.App) {
	s := zlnode.DefineUserSpot(app, "arena", func(*zlnode.SpotContext) (*arena, error) { return &arena{w}, nil }, zlnode.SpotWide, zlnode.RecreateOnRelocation)
	zlnode.OnSpotSend(s, "tell", func(c *zlnode.SpotCall, _ *arena, line string) error {
		w.notes.add("arena ran %s at %s", line, c.Node().RID())
		return nil
	})
	zlnode.OnSpotRequest(s, "round", func(c *zlnode.SpotCall, _ *arena, fails bool) (struct{}, error) {
		w.gate.pass()
		if err := c.RelocationReady().Defer(); err != nil || !fails {
			return struct{}{}, err
		}
		return struct{}{}, zlnode.Errorf(zlnode.Rejected, "not yet")
	})
}

// party is a hall at node a with walkers in it, of which the crossing's is the first.
type party struct {
	*crossing
	hall    zlnode.SpotRef
	members []zlnode.ActorRef
	toldAll map[string][]string // what each member, and the hall, was told
}

// newParty makes so many members, and forgets what the application was asked for that.
func newParty(x *crossing, spot string, members int) *party {
	x.t.Helper()
	p := &party{crossing: x, hall: x.createSpotAt(x.c, "a", spot), toldAll: map[string][]string{}}
	p.members = []zlnode.ActorRef{x.ref}
	if x.b != nil { // so that all are placed at a
		if err := x.b.Cordon(x.ctx, zlnode.Cordon{}); err != nil {
			x.t.Fatal(err)
		}
	}
	for len(p.members) < members {
		p.members = append(p.members, x.createActorAt(x.c, "a", "walker"))
	}
	if x.b != nil {
		if err := x.b.Uncordon(x.ctx); err != nil {
			x.t.Fatal(err)
		}
	}
	for _, m := range p.members {
		if err := zlnode.Send(x.ctx, x.c.Actor(m.ID), "join", walkTo{Spot: p.hall.ID}); err != nil {
			x.t.Fatal(err)
		}
	}
	for range p.members {
		if done := receive(x.t, x.walk.ended); done.Outcome != zlnode.JoinAccepted {
			x.t.Fatalf("a member did not join: %+v", done)
		}
	}
	x.walk.notes.clear()
	return p
}

// onParty runs f on each Store.
func onParty(t *testing.T, o crossingOptions, members int, f func(t *testing.T, p *party)) {
	onCrossing(t, o, func(t *testing.T, x *crossing) { f(t, newParty(x, "ballroom", members)) })
}

// tellsAll sends a line to the hall and to each member.
func (p *party) tellsAll(n *zlnode.Node, line string) {
	p.t.Helper()
	send := func(to zlnode.Addr, id string) {
		if err := zlnode.Send(p.ctx, to, "tell", line); err != nil {
			p.t.Fatalf("%s was not sent to %s: %v", line, id, err)
		}
		p.toldAll[id] = append(p.toldAll[id], line)
	}
	for _, m := range p.members {
		send(n.Actor(m.ID), m.ID)
	}
	send(n.Spot(p.hall.ID), p.hall.ID)
}

// asksAll fails unless all that was told was executed, in order.
func (p *party) asksAll(n *zlnode.Node, line string) {
	p.t.Helper()
	ask := func(to zlnode.Addr, id string) {
		p.toldAll[id] = append(p.toldAll[id], line)
		if got, err := zlnode.Request[[]string](p.ctx, to, "ask", line); err != nil || !slices.Equal(got, p.toldAll[id]) {
			p.t.Fatalf("asked from %s %s has executed %q, want %q: %v", n.RID(), id, got, p.toldAll[id], err)
		}
	}
	for _, m := range p.members {
		ask(n.Actor(m.ID), m.ID)
	}
	ask(n.Spot(p.hall.ID), p.hall.ID)
}

// areAt fails unless hall and members are at the node, and the Store says so by its one row.
func (p *party) areAt(rid string) {
	p.t.Helper()
	for _, m := range p.members {
		if where, err := zlnode.Request[string](p.ctx, p.c.Actor(m.ID), "where", struct{}{}); err != nil || where != rid+" "+p.hall.ID {
			p.t.Fatalf("%s is at %q, want %s in the hall: %v", m.ID, where, rid, err)
		}
		if row, found, err := p.location().Read(p.ctx, m.ID); err != nil || !found || row.RID != rid || row.SpotID != p.hall.ID {
			p.t.Fatalf("the row of %s is %+v: %v", m.ID, row, err)
		}
	}
	if row, found, err := p.location().Read(p.ctx, p.hall.ID); err != nil || !found || row.RID != rid || row.Move != nil {
		p.t.Fatalf("the hall's row is %+v: %v", row, err)
	}
}

// stay fails unless all is as it was at a, and goes on.
func (p *party) stay() {
	p.t.Helper()
	p.asksAll(p.c, "after")
	p.areAt("a")
	for _, n := range []*zlnode.Node{p.a, p.b} {
		if n == nil {
			continue
		}
		if stuck := n.StuckObjects(); len(stuck) != 0 {
			p.t.Errorf("stuck at %s are %+v", n.RID(), stuck)
		}
	}
	p.inOrder()
}

// rings starts the hall's timer.
func (p *party) rings() *party {
	p.t.Helper()
	if _, err := zlnode.Request[struct{}](p.ctx, p.c.Spot(p.hall.ID), "bell", zlnode.TimerOptions{Period: 5 * time.Millisecond}); err != nil {
		p.t.Fatal(err)
	}
	return p
}

// tolls waits for a tick of the hall's timer at the node.
func (p *party) tolls(rid string) {
	p.t.Helper()
	before := len(p.walk.notes.of("bell " + rid))
	p.await("the bell at "+rid, func() bool { return len(p.walk.notes.of("bell "+rid)) > before })
}
