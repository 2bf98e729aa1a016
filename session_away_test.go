package zlnode_test

import (
	"slices"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
)

// isAway fails unless the Actor's client is away, or is not, as the Actor knows.
func (s *stage) isAway(id string, want bool) {
	s.t.Helper()
	if got, err := zlnode.Request[bool](s.ctx, s.gateway.Actor(id), "away", struct{}{}); got != want || err != nil {
		s.t.Errorf("the client of %s being away is %v, %v", id, got, err)
	}
}

// hears waits until the Entry Spot has been told all of that, and fails if it is told otherwise.
func (s *stage) hears(want ...string) {
	s.t.Helper()
	s.await("what the spot is told", func() bool { return len(s.journal.of("client")) >= len(want) })
	if got := s.journal.of("client"); !slices.Equal(got, want) {
		s.t.Errorf("the spot was told %q, want %q", got, want)
	}
	s.journal.clear()
}

// The Actor knows that its client is away until that is back, or gone, and its Spot is told of
// each once, in order: of a client that resumes, that logs in anew, that stays away, and that
// is lost a second time. Of a client that may not come back it is told that it is gone, alone.
func TestAnActorKnowsThatItsClientIsAway(t *testing.T) {
	onEachStageWith(t, gracious, func(t *testing.T, s *stage) {
		r := s.returner(t, "a")
		s.isAway("a", false)
		for range 2 {
			r.drop()
			s.reserved(1)
			s.hears("a away")
			s.isAway("a", true)
			r.back(s)
			r.resumed()
			s.isAway("a", false)
			s.hears("a back")
			if why := receive(t, s.closed); why.Code != zlnode.SessionResumed {
				t.Errorf("ended with %v", why)
			}
		}

		r.drop()
		s.reserved(1)
		s.hears("a away")
		anew := s.returner(t, "a")
		s.isAway("a", false)
		if why := receive(t, s.closed); why.Code != zlnode.SessionReplaced {
			t.Errorf("ended with %v", why)
		}
		s.hears("a back")

		anew.drop()
		s.reserved(1)
		s.hears("a away")
		if _, err := s.ask("a", "kick", "enough"); err != nil {
			t.Fatal(err)
		}
		receive(t, s.closed)
		s.hears("a gone")
		s.isAway("a", false)

		c := s.stream(t) // without a token
		c.write(request(1, "login", `{"ID":"b"}`))
		c.answered(1, nil)
		c.drop()
		receive(t, s.closed)
		s.hears("b gone")
	})
}

// An Actor that is bound to a Session which is reserved already is told that its client is
// away.
func TestAnActorIsBoundToASessionWhoseClientIsAway(t *testing.T) {
	onEachStageWith(t, gracious, func(t *testing.T, s *stage) {
		r, b := s.returner(t, "a"), s.create("b")
		r.write(request(3, "aside", `{}`))
		r.answered(3, nil)
		own := receive(t, s.aside)
		r.drop()
		s.reserved(1)
		s.hears("a away")
		if err := own.Bind(s.ctx, b); err != nil {
			t.Fatal(err)
		}
		s.hears("b away")
		s.isAway("b", true)
		if err := own.NotifyDisconnected(s.ctx, "b"); err != nil {
			t.Fatal(err)
		}
		s.hears("b gone")
		s.isAway("b", false)
		s.isAway("a", true)
	})
}

// A node says that the client of its binding is away: the Actor is told once, however often it
// says so, and of nobody else's binding.
// req: FO-15
func TestWordOfAClientThatIsAwayIsHeardOnce(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		ref, other := s.create("a"), s.create("b")
		p := s.member(t)
		bind := func(ref zlnode.ActorRef, session, gen uint64) wire.BindingName {
			t.Helper()
			p.send(&wire.Bind{Correlation: gen, Session: session, BindingGen: gen, Ref: wire.Ref{
				ID: []byte(ref.ID), ObjGen: ref.ObjectGen, Mesh: []byte(ref.Mesh), RID: []byte(ref.RID), Lifecycle: ref.Lifecycle, OwnerGen: ref.OwnerGen,
			}})
			if r, ok := p.read().(*wire.Reply); !ok || r.Correlation != gen {
				t.Fatalf("%+v, want the actor bound", r)
			}
			return wire.BindingName{ID: []byte(ref.ID), ObjGen: ref.ObjectGen, Session: session, BindingGen: gen}
		}
		a := bind(ref, 1, 1)
		bind(other, 1, 2)
		for _, change := range []func(*wire.BindingName){
			func(b *wire.BindingName) { b.ID = []byte("b") }, func(b *wire.BindingName) { b.ObjGen++ },
			func(b *wire.BindingName) { b.Session++ }, func(b *wire.BindingName) { b.BindingGen++ },
		} {
			wrong := a
			change(&wrong)
			p.send(&wire.SessionReconnecting{BindingName: wrong})
		}
		again := bind(ref, 1, 3)
		p.send(&wire.SessionReconnecting{BindingName: a}) // late
		bind(other, 1, 4)                                 // behind all of them
		s.isAway("a", false)
		s.isAway("b", false)
		for range 1000 {
			p.send(&wire.SessionReconnecting{BindingName: again})
		}
		bind(other, 1, 5)
		s.isAway("a", true)
		p.send(&wire.Unbind{BindingName: again, Reason: wire.UnbindClosed})
		s.hears("a away", "a gone")
		s.isAway("a", false)
	})
}

// That its client is away goes along with an Actor that moves, and is not told again at its new
// place; a loss in the middle of a move is told there. So is its return.
func TestThatAClientIsAwayMovesWithItsActor(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		s := &stage{world: x.world, gateway: x.c}
		home := x.createSpotAt(x.c, "a", "single")
		away := func(want bool) {
			t.Helper()
			s.isAway(x.ref.ID, want)
		}
		told := func(want ...string) {
			t.Helper()
			x.await("what the spots are told", func() bool { return len(x.walk.notes.of("client")) >= len(want) })
			if got := x.walk.notes.of("client"); !slices.Equal(got, want) {
				t.Errorf("the spots were told %q, want %q", got, want)
			}
		}
		r := &returner{stream: s.stream(t)}
		r.write(request(1, "bind", jsonOf(t, x.ref)), request(2, "token", `{}`))
		r.answered(1, nil)
		r.answered(2, &r.token)

		entered, release := x.inRestore()
		x.goes(walkTo{})
		receive(t, entered)
		r.drop()
		s.reserved(1)
		release()
		x.arrives("b", x.spot.ID)
		told("away at b")
		away(true)
		r.back(s)
		r.resumed()
		away(false)
		told("away at b", "back at b")

		r.drop()
		told("away at b", "back at b", "away at b")
		x.goes(walkTo{Spot: home.ID})
		x.arrives("a", home.ID)
		away(true)
		r.back(s)
		r.resumed()
		away(false)
		told("away at b", "back at b", "away at b", "back at a")
	})
}
