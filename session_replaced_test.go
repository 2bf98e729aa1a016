package zlnode_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// A Session whose Actor was bound to another one may still send, takes nothing of its client
// for anybody, goes on with heartbeats, and is closed a little after its application was told.
func TestAReplacedSessionSendsUntilItIsClosed(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		g := s.holdReplaced()
		c, second := s.stream(t), s.dial(t)
		c.write(request(1, "login", `{"ID":"other"}`), request(2, "login", `{"ID":"a"}`))
		c.answer(1)
		c.answer(2)
		second.login("a")
		receive(t, g.entered)
		if p := c.read(); string(p.Name) != "replaced" || string(p.Payload) != `"a"` {
			t.Errorf("%q %s came, want the push of OnReplaced", p.Name, p.Payload)
		}
		c.write(send("mark", "1"), request(3, "mark", "2"), request(4, "note", "3"), request(5, "bind", jsonOf(t, s.create("b"))))
		for seq := uint64(3); seq <= 5; seq++ {
			if kind, _, err := session.ParseErrorBody(c.answer(seq).Payload); err != nil || kind != zlnode.InvalidOperation {
				t.Errorf("request %d: %v %v", seq, kind, err)
			}
		}
		c.drained() // a pong comes
		if _, err := s.ask("other", "tick", 1); err != nil {
			t.Errorf("an actor that it still has: %v", err)
		}
		if p := c.read(); string(p.Name) != "tick" {
			t.Errorf("%q came, want the push of its other actor", p.Name)
		}
		if lines := append(s.journal.of("mark"), s.journal.of("note")...); len(lines) != 0 {
			t.Errorf("executed %v", lines)
		}
		ended := time.Now()
		close(g.open)
		e := c.end()
		if !e.orderly || !e.told || e.reason != session.ServerDrain || !strings.HasPrefix(e.diag, "replaced") {
			t.Errorf("the server ended with %+v", e)
		}
		if d := time.Since(ended); d < 90*time.Millisecond {
			t.Errorf("closed %v after the callback", d)
		}
		c.conn.Close()
		if why := receive(t, s.closed); why.Code != zlnode.SessionReplaced {
			t.Errorf("OnDisconnect was told %v", why)
		}
		if got := s.disconnected(1); !slices.Equal(got, []string{"other"}) {
			t.Errorf("the spot heard of %v", got)
		}
		if got := s.journal.of("replaced"); !slices.Equal(got, []string{"a"}) {
			t.Errorf("OnReplaced ran for %v", got)
		}
		if n, err := second.ask("note", 9); n != 9 || err != nil {
			t.Errorf("the present session: %d %v", n, err)
		}
		if st := s.gateway.Stats(); st.SessionsTaken != 1 || st.UpdatesIgnored != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A callback that fails rolls nothing back, and the Session is closed all the same.
func TestAFailingReplacedCallbackRollsNothingBack(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		close(s.holdReplaced().entered) // the callback panics there
		first, second := s.dial(t), s.dial(t)
		first.login("a")
		second.login("a")
		if closed, ok := errors.AsType[*client.ClosedError](receive(t, first.lost)); !ok || closed.Reason != session.ServerDrain {
			t.Errorf("the first session ended with %v", closed)
		}
		if n, err := second.ask("tick", 1); n != 1 || err != nil {
			t.Error(n, err)
		}
		pushed[int](second, "tick")
		if n := s.gateway.Stats().FailedCallbacks; n != 1 {
			t.Errorf("%d callbacks failed, want 1", n)
		}
	})
}

// A Session that takes its own Actor once more is none of another one's.
func TestASessionReplacesItselfByNothing(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		p := s.dial(t)
		ref := p.login("a")
		for range 3 {
			if err := p.bind(ref); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := p.ask("note", 1); n != 1 || err != nil {
			t.Error(n, err)
		}
		if got := s.journal.of("replaced"); len(got) != 0 || s.gateway.Stats().SessionsTaken != 0 {
			t.Errorf("OnReplaced ran for %v", got)
		}
	})
}

// replaced is the record about a binding of m's Session.
func (m *moving) replaced() *wire.BindingReplaced {
	return &wire.BindingReplaced{BindingName: wire.BindingName{ID: []byte("a"), ObjGen: m.old.ref.ObjectGen, Session: m.session, BindingGen: m.gen}}
}

// What is said of another Session, binding, incarnation, or by a node that has not the Actor
// touches nothing; what is said twice counts once.
// req: FO-15
func TestStaleWordOfABindingsEndTouchesNothing(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		wrong := func(change func(*wire.BindingReplaced)) wire.BindingReplaced {
			r := *m.replaced()
			change(&r)
			return r
		}
		ignored := 0
		for _, r := range []wire.BindingReplaced{
			wrong(func(r *wire.BindingReplaced) { r.ObjGen-- }), wrong(func(r *wire.BindingReplaced) { r.BindingGen++ }),
			wrong(func(r *wire.BindingReplaced) { r.Session++ }), wrong(func(r *wire.BindingReplaced) { r.ID = []byte("b") }),
		} {
			end := wire.BindingEnded(r)
			ask := wire.SessionClose{BindingName: r.BindingName}
			m.old.send(&r, &end, &ask)
			if r.Session == m.session && string(r.ID) == "a" {
				ignored += 3
			}
		}
		m.old.quiet()
		end := wire.BindingEnded(*m.replaced())
		m.new.send(m.replaced(), &end) // which is not the Actor's owner
		m.new.quiet()
		m.client.write(send("note", "1"))
		m.old.packet("1")
		m.old.send(m.push("2"))
		m.shows("2")
		if st := m.gateway.Stats(); st.UpdatesIgnored != uint64(ignored+2) || st.SessionsTaken != 0 {
			t.Errorf("%d updates ignored, want %d; %d sessions replaced", st.UpdatesIgnored, ignored+2, st.SessionsTaken)
		}

		g := m.holdReplaced()
		m.old.send(m.replaced(), m.replaced())
		receive(m.t, g.entered)
		m.shows(`"a"`)
		m.old.send(m.replaced())
		m.old.quiet()
		close(g.open)
		if e := m.client.end(); !e.told || !strings.HasPrefix(e.diag, "replaced") {
			t.Errorf("it ended with %+v", e)
		}
		if got := m.journal.of("replaced"); len(got) != 1 || m.gateway.Stats().SessionsTaken != 1 {
			t.Errorf("OnReplaced ran for %v", got)
		}
		m.client.conn.Close()
		m.old.send(m.replaced()) // to a Session that is over
		if u, ok := m.old.read().(*wire.Unbind); !ok || u.BindingGen != m.gen {
			t.Errorf("%+v came, want the end of the binding", u)
		}
	})
}

// The Actor has moved, and its new owner has bound it to another Session before the client
// has been shown all of the old owner's.
func TestASessionIsReplacedRightBehindAMove(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		g := m.holdReplaced()
		m.seal()
		m.new.send(m.end(m.new), m.push("2"), m.replaced())
		m.new.quiet()
		receive(t, g.entered)
		m.shows(`"a"`)
		m.old.send(m.push("1"), m.drained())
		m.shows("1", "2")
		close(g.open)
		if e := m.client.end(); !e.told || !strings.HasPrefix(e.diag, "replaced") {
			t.Errorf("it ended with %+v", e)
		}
	})
}

// The link of the Session that had the Actor is lost when another Session binds it. The old
// binding has ended by that, of which the Actor's Spot hears once.
// req: MB-04
func TestABindingWhoseLinkIsLostEndsOnceThoughTheActorIsBoundAnew(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		s := newStage(w)
		s.owner = s.start(zlnode.Config{RID: "b-owner", Role: zlnode.RoleServer, Advertise: "127.0.0.2"}, s.app())
		road := newProxy(t, s.owner.Endpoint(), "127.0.0.1")
		first, second := s.newGateway("a1-gateway", 1), s.newGateway("a2-gateway", 1)
		s.gateway = first
		old := s.dial(t)
		ref := old.login("a")
		s.gateway = second
		p := s.dial(t)
		s.gate.stop(t, s.world, second.Actor("a")) // so that the new bind waits for its turn
		late := make(chan error, 1)
		go func() { late <- p.bind(ref) }()
		s.await("the bind on its way", func() bool { return road.passed("a2-gateway", wire.CmdBind) })
		if _, err := zlnode.Request[int](s.ctx, second.Actor("bystander"), "bound", struct{}{}); err != nil { // behind it
			t.Fatal(err)
		}
		road.cut("a1-gateway")
		s.await("the link's end at the owner", func() bool { return s.owner.Stats().Peers == 1 })
		close(s.gate.open)
		if err := receive(t, late); err != nil {
			t.Fatal(err)
		}
		if got := s.disconnected(1); !slices.Equal(got, []string{"a"}) {
			t.Errorf("the spot heard of %v", got)
		}
		if n, err := p.ask("note", 1); n != 1 || err != nil {
			t.Error(n, err)
		}
		road.open("a1-gateway")
		s.linked(first, 1)
		if _, err := zlnode.Request[int](s.ctx, first.Actor("a"), "tick", 1); err != nil {
			t.Fatal(err)
		}
		pushed[int](p, "tick")
		if got := s.journal.of("disconnected"); len(got) != 1 || len(s.journal.of("replaced")) != 0 {
			t.Errorf("the spot heard of %v", got)
		}
	})
}
