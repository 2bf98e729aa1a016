package zlnode_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/store"
)

// cordoned is two object servers, a and b, and a client of both, c.
type cordoned struct {
	*world
	walk    *walkWorld
	a, b, c *zlnode.Node
	made    int
}

func newCordoned(w *world) *cordoned {
	walk := &walkWorld{}
	app := walk.preserving()
	quest := zlnode.DefineInstanceSpot(app, "quest", func(*zlnode.SpotContext) (*struct{}, error) { return new(struct{}), nil }, zlnode.DisableRelocation)
	zlnode.OnSpotRequest(quest, "where", func(c *zlnode.SpotCall, _ *struct{}, _ struct{}) (string, error) { return c.Node().RID(), nil })
	x := &cordoned{world: w, walk: walk}
	x.a = w.start(shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), app)
	x.b = w.start(shortLease(zlnode.Config{RID: "b", Role: zlnode.RoleServer}), app)
	x.c = w.start(shortLease(zlnode.Config{RID: "c", Role: zlnode.RoleClient}), app)
	w.linked(x.c, 2)
	w.linked(x.a, 1)
	w.linked(x.b, 1)
	return x
}

// places tells where two new objects of each kind are, made by the node.
func (x *cordoned) places(n *zlnode.Node, pass string) (at []string) {
	x.t.Helper()
	for range 2 {
		x.made++
		id := fmt.Sprint("new-", x.made)
		actor, err := n.CreateActor(x.ctx, zlnode.CreateActor{ID: id, Type: "walker", Pass: pass})
		if err != nil {
			x.t.Fatal(err)
		}
		spot, err := n.CreateSpot(x.ctx, zlnode.CreateSpot{Type: "wide", Pass: pass})
		if err != nil {
			x.t.Fatal(err)
		}
		at = append(at, actor.Ref.RID, spot.Ref.RID)
		if pass == "" {
			rid, err := zlnode.Request[string](x.ctx, n.Instance("quest-"+id, "quest"), "where", struct{}{})
			if err != nil {
				x.t.Fatal(err)
			}
			at = append(at, rid)
		}
	}
	return at
}

func (x *cordoned) wantAll(at []string, rid string) {
	x.t.Helper()
	if slices.ContainsFunc(at, func(r string) bool { return r != rid }) {
		x.t.Errorf("new objects are at %q, want %s", at, rid)
	}
}

// listed returns what the Store has of node a.
func (x *cordoned) listed(st store.Store) store.Descriptor {
	x.t.Helper()
	list, err := st.ListNodes(x.ctx, 0)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, d := range list.Nodes {
		if d.RID == "a" {
			return d
		}
	}
	return store.Descriptor{}
}

// A cordoned node takes nothing new but by a pass, and what is there goes on; a new epoch, in
// which its descriptor is lost, changes nothing of that.
func TestACordonedNodeTakesNothingNewButByAPass(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		x := newCordoned(w)
		st := w.location()
		settled, room := w.createActorAt(x.c, "a", "walker"), w.createSpotAt(x.c, "a", "wide")
		guest := w.createActorAt(x.c, "b", "walker")
		quest := ""
		for i := 0; quest == ""; i++ {
			id := fmt.Sprint("old-", i)
			if rid, err := zlnode.Request[string](w.ctx, x.c.Instance(id, "quest"), "where", struct{}{}); err != nil {
				t.Fatal(err)
			} else if rid == "a" {
				quest = id
			}
		}

		const pass = "a long and random word"
		for range 2 { // again is the same
			if err := x.a.Cordon(w.ctx, zlnode.Cordon{Passes: []string{"another", pass, pass}}); err != nil {
				t.Fatal(err)
			}
		}
		if d := x.listed(st); !x.a.Cordoned() || !d.Cordoned || d.Weight != 0 || len(d.Passes) != 2 || strings.Contains(fmt.Sprint(d.Passes), pass) {
			t.Errorf("cordoned %v, listed %+v", x.a.Cordoned(), d)
		}
		for _, n := range []*zlnode.Node{x.a, x.b, x.c} {
			x.wantAll(x.places(n, ""), "b")
			x.wantAll(x.places(n, "A long and random word"), "b")
		}
		x.eventually("who has a pass is let in", func() bool { return slices.Contains(x.places(x.c, pass), "a") })
		x.wantAll(x.places(x.c, pass), "a")
		x.wantAll(x.places(x.a, pass), "a")

		// What is there goes on.
		if _, err := zlnode.Request[[]string](w.ctx, x.c.Actor(settled.ID), "ask", "hello"); err != nil {
			t.Error(err)
		}
		if rid, err := zlnode.Request[string](w.ctx, x.b.Instance(quest, "quest"), "where", struct{}{}); err != nil || rid != "a" {
			t.Errorf("a spot that is there is at %q: %v", rid, err)
		}
		for _, ref := range []zlnode.ActorRef{settled, guest} {
			to := walkTo{Spot: room.ID, Timeout: 10 * time.Second}
			if _, err := zlnode.Request[struct{}](w.ctx, x.c.Actor(ref.ID), "join", to); err != nil {
				t.Fatal(err)
			}
			if done := receive(t, x.walk.ended); done.Outcome != zlnode.JoinAccepted || done.Ref.RID != "a" {
				t.Errorf("a join to a spot of the cordoned node ended %+v", done)
			}
		}

		w.forget()
		w.eventually("it is cordoned in the new epoch, too", func() bool { d := x.listed(st); return d.Cordoned && len(d.Passes) == 2 })
		x.eventually("what is new is placed", func() bool {
			_, err := x.c.CreateActor(w.ctx, zlnode.CreateActor{ID: "first", Type: "walker"})
			return err == nil || zlnode.KindOf(err) == zlnode.AlreadyExists
		})
		x.wantAll(x.places(x.c, ""), "b")

		for range 2 {
			if err := x.a.Uncordon(w.ctx); err != nil {
				t.Fatal(err)
			}
		}
		if d := x.listed(st); x.a.Cordoned() || d.Cordoned || d.Weight != 100 || len(d.Passes) != 0 {
			t.Errorf("cordoned %v, listed %+v", x.a.Cordoned(), d)
		}
		x.eventually("it takes what is new", func() bool { return slices.Contains(x.places(x.c, ""), "a") })
	})
}

// What cannot be cordoned, or by such passes, is refused, and a pass of nobody's is no fault.
func TestACordonIsChecked(t *testing.T) {
	t.Parallel()
	w := onEmbedded(t)
	a := w.server("a", counterApp())
	c := w.client("c", 1, counterApp())
	many := make([]string, 17)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for _, passes := range [][]string{{""}, {strings.Repeat("x", 256)}, {"\xff"}, many} {
		wantKind(t, a.Cordon(w.ctx, zlnode.Cordon{Passes: passes}), zlnode.InvalidOperation)
	}
	if a.Cordoned() {
		t.Error("it is cordoned by a call that was refused")
	}
	wantKind(t, c.Cordon(w.ctx, zlnode.Cordon{}), zlnode.NotConfigured)
	wantKind(t, c.Uncordon(w.ctx), zlnode.NotConfigured)
	if err := a.Cordon(w.ctx, zlnode.Cordon{Passes: many[:16]}); err != nil {
		t.Fatal(err)
	}
	_, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "counter"})
	wantKind(t, err, zlnode.Unavailable)
	_, err = a.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "counter", Pass: strings.Repeat("x", 256)})
	wantKind(t, err, zlnode.InvalidOperation)
	if _, err = a.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "counter", Pass: many[7]}); err != nil {
		t.Error(err)
	}
	w.stop(a)
	wantKind(t, a.Uncordon(w.ctx), zlnode.ShuttingDown)
}
