package zlnode_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// defineNoticed registers the Sessions of walkers whose clients get notices.
func (w *walkWorld) defineNoticed(app *zlnode.App) {
	v := zlnode.DefineSession(app, "noticed", func(*zlnode.SessionContext) (*visitor, error) { return &visitor{}, nil })
	zlnode.NoticePacket(v, "notice")
	zlnode.OnNotice(v, func(c *zlnode.SessionCall, _ *visitor, n zlnode.Notice) {
		w.notes.add("notice %v of %s at %s", n.Kind, n.Type, n.Actor.RID)
	})
	zlnode.Relay(v, "ask", "walker")
	zlnode.OnPacketRequest(v, "bind", func(c *zlnode.SessionCall, _ *visitor, ref zlnode.ActorRef) (string, error) {
		return "bound", c.Bind(ref)
	})
	zlnode.OnPacketRequest(v, "bind or get", func(c *zlnode.SessionCall, _ *visitor, id string) (zlnode.ActorRef, error) {
		return c.BindOrGet("walker", id, nil)
	})
	zlnode.OnPacketRequest(v, "quit", func(c *zlnode.SessionCall, _ *visitor, text string) (int, error) {
		c.Session().Close(text)
		return 0, nil
	})
}

// noticeBody is a notice as a client gets it.
type noticeBody struct {
	Notice string `json:"notice"`
	Type   string `json:"actor_type"`
	Actor  string `json:"actor"`
	Text   string `json:"text"`
}

// noticed connects a client that gets notices.
func (x *crossing) noticed() *player {
	x.t.Helper()
	p := &player{t: x.t, pushes: make(chan *client.Message, 10_000), lost: make(chan error, 1)}
	c, err := client.Dial(x.ctx, client.Options{
		Addr: x.c.SessionAddrs()[1].String(), OnPush: func(m *client.Message) { p.pushes <- m.Clone() },
		OnState: func(_ client.State, err error) { p.lost <- err },
	})
	if err != nil {
		x.t.Fatal(err)
	}
	p.Client = c
	x.t.Cleanup(func() { c.Close() })
	return p
}

// A Session and its client hear that the Actor has moved, and that it is gone, in this order.
// req: SB-01
func TestASessionHearsWhatBecomesOfItsActor(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		p := x.noticed()
		if err := p.bind(x.ref); err != nil {
			t.Fatal(err)
		}
		told := func(kind string) {
			t.Helper()
			if got := pushed[noticeBody](p, "notice"); got.Notice != kind || got.Type != "walker" || got.Actor != x.ref.ID {
				t.Errorf("the client was told %+v, want %s", got, kind)
			}
		}
		x.goes(walkTo{})
		x.arrives("b", x.spot.ID)
		told("moved")
		x.goes(walkTo{Entry: true})
		done := receive(t, x.walk.ended)
		if gone, err := x.c.DestroyActor(x.ctx, done.Ref); !gone || err != nil {
			t.Fatal(gone, err)
		}
		told("ended")
		want := []string{"moved of walker at b", "ended of walker at b"}
		x.await("the session has heard", func() bool { return slices.Equal(x.walk.notes.of("notice"), want) })
		_, err := p.ask("ask", "x")
		wantRemote(t, err, zlnode.NotFound)

		again, err := x.c.GetOrCreateActor(x.ctx, zlnode.CreateActor{ID: x.ref.ID, Type: "walker"})
		if err != nil || again.Ref.ObjectGen == x.ref.ObjectGen {
			t.Fatalf("%+v %v", again, err)
		}
		_, err = p.ask("ask", "x")
		wantRemote(t, err, zlnode.NotFound)
		if err := p.bind(again.Ref); err != nil {
			t.Fatal(err)
		}
		if err := p.RequestJSON(x.ctx, "ask", "y", nil); err != nil {
			t.Error(err)
		}
		if n := x.c.Stats().UpdatesIgnored; n != 0 {
			t.Errorf("%d updates were ignored", n)
		}
	})
}

// A client is told why its Session ends before it ends.
func TestAClientIsToldWhyItsSessionEnds(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		first, second, third := x.noticed(), x.noticed(), x.noticed()
		told := func(p *player, notice, text string, reason session.CloseReason) {
			t.Helper()
			closed, ok := errors.AsType[*client.ClosedError](receive(t, p.lost))
			if !ok || closed.Reason != reason {
				t.Errorf("it ended with %v", closed)
			}
			got := pushed[noticeBody](p, "notice")
			if got.Notice != notice || !strings.HasPrefix(got.Text, text) || got.Actor != "" || len(p.pushes) != 0 {
				t.Errorf("it was told %+v, and %d more, want %s", got, len(p.pushes), notice)
			}
		}
		for _, p := range []*player{first, second} {
			if err := p.bind(x.ref); err != nil {
				t.Fatal(err)
			}
		}
		told(first, "kicked", "another session", session.ServerDrain)
		if _, err := second.ask("quit", "banned"); err != nil {
			if _, closed := errors.AsType[*client.ClosedError](err); !closed {
				t.Error(err)
			}
		}
		told(second, "kicked", "banned", session.ServerDrain)
		x.stop(x.c)
		told(third, "stopping", "", session.ServerDrain)
	})
}

// The Actor moves between the look at where it is and the bind.
func TestBindOrGetFollowsAnActorThatMoves(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		p := x.noticed()
		x.stopped()
		x.queueJoin(walkTo{})
		bound := make(chan error, 1)
		var ref zlnode.ActorRef
		go func() { bound <- p.RequestJSON(x.ctx, "bind or get", x.ref.ID, &ref) }()
		x.await("the bind on its way", func() bool { n, _ := x.roads.Passed("c", "a", wire.CmdBind); return n > 0 })
		close(x.walk.gate.open)
		if err := receive(t, bound); err != nil || ref.RID != "b" {
			t.Fatalf("bound to %+v: %v", ref, err)
		}
		x.arrives("b", x.spot.ID)
		x.player = p
		x.playerReaches("y")
	})
}

// A Session and its client hear that the node of an Actor is out of reach.
func TestASessionHearsOfALostLink(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		s := newStage(w)
		s.owner = s.start(zlnode.Config{RID: "b-owner", Role: zlnode.RoleServer, Advertise: "127.0.0.2"}, s.app())
		road := newProxy(t, s.owner.Endpoint(), "127.0.0.1")
		s.gateway = s.newGateway("a1-gateway", 1)
		p := s.dial(t)
		p.login("a")
		p.login("b")
		if err := p.part("b"); err != nil {
			t.Fatal(err)
		}
		road.cut("a1-gateway")
		s.owner, s.gateway = s.gateway, s.owner // through which to wait
		s.await("the notice", func() bool { return slices.Equal(s.journal.of("notice"), []string{"ended a avatar"}) })
		if got := p.bindings(); len(got) != 1 {
			t.Errorf("the session has %v", got)
		}
	})
}

// No binding is ended by the application while its Actor moves.
func TestABindingWhoseActorMovesIsNotEnded(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		m.seal()
		m.client.write(request(2, "part", `"a"`))
		if kind, _, err := session.ParseErrorBody(m.client.answer(2).Payload); err != nil || kind != zlnode.Unavailable {
			t.Errorf("%v %v", kind, err)
		}
		m.old.quiet()
		m.old.send(m.drained(), m.end(m.old))
		m.old.quiet()
		m.client.write(request(3, "part", `"a"`))
		u, ok := m.old.read().(*wire.Unbind)
		if !ok || u.Correlation == 0 || u.Session != m.session || u.BindingGen != m.gen || u.Reason != wire.UnbindDisconnected {
			t.Fatalf("%+v came, want the end of the binding", u)
		}
		m.old.send(&wire.Reply{Correlation: u.Correlation})
		if p := m.client.answer(3); p.Kind != session.KindResponse {
			t.Errorf("%s", p.Payload)
		}
		m.old.send(m.sealing())
		if e, ok := m.old.read().(*wire.ErrorReply); !ok || zlnode.Kind(e.Kind) != zlnode.NotFound {
			t.Errorf("%+v came, want no binding", e)
		}
		m.client.conn.Close()
		receive(t, m.closed)
		m.old.quiet()
	})
}

// The Actor is gone while its move is not over for the Session: what waits for it is refused,
// and a commit that comes yet is answered with the end of the binding.
func TestAnActorThatEndsWhileItMovesEndsItsBinding(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		m.seal()
		m.client.write(request(2, "note", "2"))
		m.client.drained()
		end := wire.BindingEnded(*m.replaced())
		m.old.send(&end)
		if kind, _, err := session.ParseErrorBody(m.client.answer(2).Payload); err != nil || kind != zlnode.NotFound {
			t.Errorf("%v %v", kind, err)
		}
		m.client.write(request(3, "note", "3"))
		if kind, _, err := session.ParseErrorBody(m.client.answer(3).Payload); err != nil || kind != zlnode.NotFound {
			t.Errorf("%v %v", kind, err)
		}
		m.old.send(m.push("1"))
		m.old.quiet()
		m.new.send(m.end(m.new))
		if u, ok := m.new.read().(*wire.Unbind); !ok || u.Session != m.session || u.BindingGen != m.gen {
			t.Errorf("%+v came, want the end of the binding", u)
		}
		m.client.write(request(4, "mark", "4"))
		m.shows("4")
		if got := m.journal.of("notice"); !slices.Equal(got, []string{"ended a avatar"}) {
			t.Errorf("the session heard %v", got)
		}
		m.client.conn.Close()
		receive(t, m.closed)
		m.old.quiet()
		if n := m.gateway.Stats().PushesRefused; n != 1 {
			t.Errorf("%d pushes refused, want 1", n)
		}
	})
}
