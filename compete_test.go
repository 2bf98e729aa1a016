package zlnode_test

import (
	"context"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// S02: who lost against a creation that is then rejected competes again with its own
// request, of which one more wins; nobody gets what another one was answered.
// req: CR-12
func TestALoserCompetesAgainWithItsOwnRequest(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		type trial struct {
			request string
			verdict chan zlnode.Admission
		}
		trials := make(chan trial)
		things := thingWorld{admit: func(c *zlnode.CreateActorCall) (zlnode.Admission, error) {
			one := trial{string(c.Request), make(chan zlnode.Admission)}
			trials <- one
			return <-one.verdict, nil
		}}
		w.server("a", things.app())
		c := w.client("c", 1, things.app())
		type end struct {
			zlnode.Creation
			err error
		}
		ask := func(request string) <-chan end {
			ended := make(chan end, 1)
			go func() {
				r, err := c.GetOrCreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "thing", Request: []byte(request)})
				ended <- end{r, err}
			}()
			return ended
		}
		first := ask("first")
		winner := receive(t, trials)
		if winner.request != "first" {
			t.Fatalf("the factory got %q", winner.request)
		}
		losers := map[string]<-chan end{"second": ask("second"), "third": ask("third")}
		_, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "thing"}) // while it is Creating
		wantKind(t, err, zlnode.AlreadyExists)

		winner.verdict <- zlnode.Reject([]byte("not the first"))
		if e := receive(t, first); e.err != nil || e.Outcome != zlnode.OutcomeRejected || string(e.Reply) != "not the first" {
			t.Errorf("the first: %+v", e)
		}
		winner = receive(t, trials)
		loser := losers[winner.request]
		if loser == nil {
			t.Fatalf("the factory got %q", winner.request)
		}
		delete(losers, winner.request)
		winner.verdict <- zlnode.Accept([]byte("welcome " + winner.request))
		e := receive(t, loser)
		if e.err != nil || e.Outcome != zlnode.OutcomeCreated || string(e.Reply) != "welcome "+winner.request {
			t.Errorf("%s: %+v", winner.request, e)
		}
		for name, ended := range losers {
			if last := receive(t, ended); last.err != nil || last.Outcome != zlnode.OutcomeExisting || last.Ref != e.Ref || last.Reply != nil {
				t.Errorf("%s: %+v, want what %s created, without its reply", name, last, winner.request)
			}
		}
		if n := things.factories.Load(); n != 2 {
			t.Errorf("%d factories ran, want one for each reservation", n)
		}
	})
}

// S03: what a node has learnt of an id that is missing, or is being created, or of a Store that
// did not answer, holds for that call alone.
// req: CR-14
func TestNothingIsKeptOfAnIdThatIsNotReady(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		let := make(chan struct{})
		began := make(chan struct{}, 1)
		things := thingWorld{admit: func(*zlnode.CreateActorCall) (zlnode.Admission, error) {
			began <- struct{}{}
			<-let
			return zlnode.Accept(nil), nil
		}}
		a := w.server("a", things.app())
		own := *w
		proxy := own.behindProxy()
		b := own.client("b", 1, things.app()) // which asks the Store through the proxy
		reach := func() error { return zlnode.Send(w.ctx, b.Actor("x"), "anything", 0) }
		wantKind(t, reach(), zlnode.NotFound)
		created := make(chan error, 1)
		go func() {
			_, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "thing"})
			created <- err
		}()
		receive(t, began)
		wantKind(t, reach(), zlnode.NotFound) // it is Creating
		close(let)
		if err := receive(t, created); err != nil {
			t.Fatal(err)
		}
		proxy.goAway()
		ctx, cancel := context.WithTimeout(w.ctx, 2*time.Second)
		defer cancel()
		if err := zlnode.Send(ctx, b.Actor("x"), "anything", 0); err == nil {
			t.Error("b reached an actor of which it knew nothing")
		}
		proxy.heal()
		for err := reach(); err != nil; err = reach() { // its connections come back first
			wantKind(t, err, zlnode.Unavailable)
			if w.ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	})
}

// A route is a snapshot: the node that it names judges for itself, and what it does not
// have it says so, whatever the route says.
// req: ID-05
func TestARouteDecidesNothing(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		app := counterApp()
		a, b := w.server("a", app), w.server("b", app)
		c := w.client("c", 2, app)
		w.linked(a, 1)
		w.linked(b, 1)
		old := w.createAt(c, "a")
		if _, err := zlnode.Request[int](w.ctx, c.Actor(old.ID), "add", 5); err != nil { // c has its route now
			t.Fatal(err)
		}
		if gone, err := b.DestroyActor(w.ctx, old); err != nil || !gone {
			t.Fatal(gone, err)
		}
		var now zlnode.ActorRef
		for now.RID != "b" { // of another node, of which c hears nothing
			r, err := b.CreateActor(w.ctx, zlnode.CreateActor{ID: old.ID, Type: "counter"})
			if err != nil {
				t.Fatal(err)
			}
			if now = r.Ref; now.RID != "b" {
				if _, err := b.DestroyActor(w.ctx, now); err != nil {
					t.Fatal(err)
				}
			}
		}
		if total, err := zlnode.Request[int](w.ctx, c.Actor(old.ID), "add", 1); err != nil || total != 1 {
			t.Errorf("by the old route: %d %v, want the new incarnation's 1", total, err)
		}
		if total, err := zlnode.Request[int](w.ctx, a.Actor(old.ID), "add", 1); err != nil || total != 2 {
			t.Errorf("from its former owner: %d %v", total, err)
		}
	})
}
