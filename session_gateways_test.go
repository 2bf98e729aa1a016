package zlnode_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// Sessions of one gateway race for an Actor. One of them has it in the end, as
// both sides see it.
func TestOneOfManySessionsHasTheActor(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		ref := s.create("a")
		players := make([]*player, 20)
		var wg sync.WaitGroup
		for i := range players {
			p := s.dial(t)
			players[i] = p
			wg.Go(func() {
				if err := p.bind(ref); err != nil {
					t.Errorf("session %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		var bound []*player
		for _, p := range players {
			if _, err := p.ask("tick", 1); err == nil {
				bound = append(bound, p)
			} else {
				refusedOrClosed(t, err)
			}
		}
		if len(bound) != 1 {
			t.Fatalf("%d sessions have the actor", len(bound))
		}
		pushed[int](bound[0], "tick")
	})
}

// refusedOrClosed fails the test unless err is of a Session that was replaced.
func refusedOrClosed(t *testing.T, err error) {
	t.Helper()
	if _, closed := errors.AsType[*client.ClosedError](err); !closed {
		wantRemote(t, err, zlnode.InvalidOperation)
	}
}

// A client may leave at any moment of its login. No Session and no binding is
// left of it.
func TestAClientThatLeavesWhileItIsBoundLeavesNothing(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		const clients = 60
		var ids []string
		for i := range clients {
			ids = append(ids, fmt.Sprint("a", i))
			s.create(ids[i])
		}
		for i, id := range ids {
			c := s.stream(t)
			c.write(request(1, "login", `{"ID":"`+id+`"}`))
			if i%2 == 0 { // a reset instead of an orderly end
				if err := c.conn.SetLinger(0); err != nil {
					t.Fatal(err)
				}
			}
			c.conn.Close()
		}
		s.await("no session", func() bool { return s.gateway.Stats().Sessions == 0 })
		for _, id := range ids {
			s.await("no binding", func() bool {
				n, err := s.ask(id, "bound", nil)
				if err != nil {
					t.Fatal(err)
				}
				return n == 0
			})
		}
	})
}

// Two gateways number their Sessions and bindings alike. One's end is not the
// other's.
func TestEqualNumbersOfTwoGatewaysAreNotConfused(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		s := newStage(w)
		s.owner = s.server("b-owner", s.app())
		first, second := s.newGateway("a1-gateway", 1), s.newGateway("a2-gateway", 1)
		s.gateway = first
		old := s.dial(t)
		old.login("a")
		s.gateway = second
		p := s.dial(t)
		p.login("a")
		_, err := old.ask("note", 1)
		refusedOrClosed(t, err)
		old.Close()
		receive(t, s.closed)
		// What the first gateway said of its Session's end is ahead of this.
		if _, err := zlnode.Request[int](s.ctx, first.Actor("a"), "tick", 1); err != nil {
			t.Fatal(err)
		}
		pushed[int](p, "tick")
		if n, err := p.ask("note", 2); n != 2 || err != nil {
			t.Error(n, err)
		}
	})
}

// A gateway is gone, as far as the Actor's node can tell, while a request of its
// client is under way; the client comes in by another gateway. When the first
// one is back, nothing of its old Session reaches the Actor or its new binding:
// neither reply, relay nor disconnect.
func TestALateSessionOfALostGatewayTouchesNothing(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		s := newStage(w)
		s.owner = s.start(zlnode.Config{RID: "b-owner", Role: zlnode.RoleServer, Advertise: "127.0.0.2"}, s.app())
		road := newProxy(t, s.owner.Endpoint(), "127.0.0.1")
		first := s.newGateway("a1-gateway", 1)
		s.gateway = first
		old := s.stream(t)
		old.write(request(1, "login", `{"ID":"a"}`), request(2, "stop", `{}`))
		old.answer(1)
		receive(t, s.gate.entered)
		road.cut("a1-gateway")
		unavailable := func(p session.Packet) {
			t.Helper()
			if kind, _, err := session.ParseErrorBody(p.Payload); p.Kind != session.KindError || err != nil || kind != client.Unavailable {
				t.Errorf("%v to %d: %s", p.Kind, p.Seq, p.Payload)
			}
		}
		unavailable(old.answer(2))

		second := s.newGateway("a2-gateway", 1)
		s.gateway = second
		p := s.dial(t)
		_, err := p.ask("note", 1)
		wantRemote(t, err, zlnode.InvalidOperation) // nobody takes the binding over for it
		s.gate.open <- struct{}{}                   // the reply to request 2 is late
		p.login("a")

		road.open("a1-gateway")
		s.linked(first, 1)
		old.write(send("note", "2"), request(3, "note", "3"))
		unavailable(old.answer(3))
		old.conn.Close()
		receive(t, s.closed)
		if _, err := zlnode.Request[int](s.ctx, first.Actor("a"), "tick", 1); err != nil {
			t.Fatal(err)
		}
		pushed[int](p, "tick")
		if n, err := p.ask("note", 4); n != 4 || err != nil {
			t.Error(n, err)
		}
		if notes := s.journal.of("note"); !slices.Equal(notes, []string{"4"}) {
			t.Errorf("executed %v", notes)
		}
		s.gateway = first
		again := s.dial(t)
		again.login("a")
		if n, err := again.ask("note", 5); n != 5 || err != nil {
			t.Error(n, err)
		}
	})
}

// A gateway asks for a binding and is lost before the Actor got to it. The
// binding that the Actor has meanwhile stays.
func TestABindOverALostLinkTakesNothing(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		s := newStage(w)
		s.owner = s.start(zlnode.Config{RID: "b-owner", Role: zlnode.RoleServer, Advertise: "127.0.0.2"}, s.app())
		road := newProxy(t, s.owner.Endpoint(), "127.0.0.1")
		first, second := s.newGateway("a1-gateway", 1), s.newGateway("a2-gateway", 1)
		s.gateway = second
		p := s.dial(t)
		ref := p.login("a")
		s.gate.stop(t, s.world, second.Actor("a"))
		late := dialStream(t, first.SessionAddrs()[0].String())
		late.write(request(1, "bind", jsonOf(t, ref)))
		s.await("the bind on its way", func() bool { return road.passed("a1-gateway", wire.CmdBind) })
		if _, err := zlnode.Request[int](s.ctx, first.Actor("bystander"), "bound", struct{}{}); err != nil { // behind it
			t.Fatal(err)
		}
		road.cut("a1-gateway")
		if kind, _, err := session.ParseErrorBody(late.answer(1).Payload); err != nil || kind != zlnode.Unavailable {
			t.Errorf("the bind ended with %v %v", kind, err)
		}
		s.await("the link's end at the owner", func() bool { return s.owner.Stats().Peers == 1 })
		close(s.gate.open)
		if n, err := p.ask("note", 1); n != 1 || err != nil {
			t.Errorf("the binding is lost: %d %v", n, err)
		}
		if _, err := s.ask("a", "tick", 1); err != nil {
			t.Fatal(err)
		}
		pushed[int](p, "tick")
	})
}

// A client leaves before the Actor got to its bind. The binding that the Actor
// has meanwhile stays.
func TestABindOfAClosedSessionTakesNothing(t *testing.T) {
	oneGateway(t, func(t *testing.T, s *stage) {
		p := s.dial(t)
		ref := p.login("a")
		s.gate.stop(t, s.world, s.gateway.Actor("a"))
		late := s.stream(t)
		late.write(request(1, "bind", jsonOf(t, ref)))
		late.drained()
		late.conn.Close()
		s.await("the session's end", func() bool { return s.gateway.Stats().Sessions == 1 })
		close(s.gate.open)
		receive(t, s.closed) // its last turn, behind that of the bind
		if n, err := p.ask("note", 1); n != 1 || err != nil {
			t.Errorf("the binding is lost: %d %v", n, err)
		}
	})
}
