package zlnode_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// The client comes back while its Actor moves: it waits for the end of the move. What the
// Actor has pushed from both nodes is in order, and what is said of the old Session
// afterwards touches nothing.
// req: FO-15
func TestAnActorThatMovesMeanwhileIsBoundAtItsNewPlace(t *testing.T) {
	onEachMove(t, func(c *zlnode.Config) {
		c.SessionRelocationSealTimeout = time.Minute
		gracious(c)
	}, func(t *testing.T, m *moving) {
		other := m.hop("d-other", zlnode.ActorRef{ID: "b", ObjectGen: 6, Mesh: "main", Lifecycle: 1, OwnerGen: 1})
		other.typ = "counter"
		bound := m.client.bind(other, 2)
		m.client.write(request(3, "token", `{}`))
		r := &returner{stream: m.client}
		r.answered(3, &r.token)
		m.old.send(m.push("0"))
		r.ticks(0, 1)
		r.drop()
		m.reserved(1)
		m.old.away(m.session, m.gen)
		other.away(m.session, bound.BindingGen)
		m.old.send(m.push("1"))
		m.seal()
		m.old.send(m.push("2"))
		m.new.send(m.end(m.new), m.push("4"))
		m.new.away(m.session, m.gen)
		m.new.quiet()
		r.back(m.stage)
		r.drained()
		m.new.quiet() // it is not asked while the old node may push
		twice := m.stream(t)
		twice.write(request(1, "resume without a token", jsonOf(t, comeBack{Token: r.token, Last: 1})))
		twice.refused(1, zlnode.NotFound)
		m.old.send(m.push("3"), m.drained())
		b, ok := m.new.read().(*wire.Bind)
		if !ok || b.Session == m.session || b.BindingGen <= m.gen || b.Again || string(b.Ref.RID) != "c-new" {
			t.Fatalf("%+v came, want a bind", b)
		}
		next := m.push("6")
		next.Session, next.BindingGen = b.Session, b.BindingGen
		m.new.send(m.push("5"), m.replaced(),
			&wire.Reply{Correlation: b.Correlation, Payload: []byte("avatar")}, next)
		m.new.quiet()
		again, ok := other.read().(*wire.Bind)
		if !ok || again.Session != b.Session {
			t.Fatalf("%+v came, want a bind", again)
		}
		r.drained()
		if len(r.held) != 0 {
			t.Errorf("%+v came, and an actor may still push to the old session", r.held)
		}
		other.send(&wire.Push{Session: m.session, BindingGen: bound.BindingGen, ID: []byte("b"), ObjGen: 6, Name: []byte("b"), Payload: []byte("b")},
			&wire.Reply{Correlation: again.Correlation, Payload: []byte("counter")})
		r.ticks(1, 6)
		if p := r.read(); string(p.Name) != "b" || p.Meta.PushNumber() != r.last+1 {
			t.Errorf("%+v", p)
		}
		r.last++
		r.ticks(6, 7)
		if a := r.resumed().Resumed; len(a.Actors) != 2 || a.Actors[0] != m.new.ref || a.Actors[1] != other.ref || a.Pushes != 6 {
			t.Errorf("%+v", a)
		}
		if why := receive(t, m.closed); why.Code != zlnode.SessionResumed {
			t.Errorf("ended with %v", why)
		}
		// Late records of both nodes.
		m.old.send(m.push("9"), m.sealing(), m.drained())
		m.new.send(m.push("9"), &wire.BindingEnded{BindingName: m.replaced().BindingName},
			&wire.SessionClose{BindingName: m.replaced().BindingName})
		next.Payload = []byte("7")
		m.new.send(next)
		r.ticks(7, 8)
		r.write(send("note", "8"))
		if p := m.new.packet("8"); p.Session != b.Session || p.BindingGen != b.BindingGen {
			t.Errorf("%+v", p)
		}
	})
}

// Clients lose their connections again and again, in the middle of what their Actors push.
// Nothing is lost, comes twice, or out of order.
func TestClientsThatComeBackAgainAndAgainMissNothing(t *testing.T) {
	const clients, drops, once, ahead = 8, 20, 7, 200 // pushes at once, and how often before the client has them
	roomy := func(c *zlnode.Config) {
		gracious(c)
		c.Sessions[0].ReconnectBytes = 1 << 20
	}
	onEachStageWith(t, roomy, func(t *testing.T, s *stage) {
		stop := make(chan struct{})
		var pushing, playing sync.WaitGroup
		defer pushing.Wait()
		defer close(stop)
		for i := range clients {
			id := fmt.Sprint("a", i)
			r := s.returner(t, id)
			room := make(chan struct{}, ahead)
			pushing.Go(func() {
				for {
					select {
					case <-stop:
						return
					case room <- struct{}{}:
					}
					if _, err := s.ask(id, "tick", once); err != nil {
						t.Errorf("%s: %v", id, err)
						return
					}
				}
			})
			playing.Go(func() {
				next, taken := 0, 0
				for range drops {
					r.ticks(next, next+2*once)
					r.drop()
					r.back(s)
					for next = r.resumedAmid(next + 2*once); taken < next/once; taken++ {
						<-room
					}
				}
			})
		}
		playing.Wait()
		if st := s.gateway.Stats(); st.SessionsResumed != clients*drops || st.SessionsReserved != 0 || st.PushesRefused != 0 {
			t.Errorf("%+v", st)
		}
		if lost := s.journal.of("disconnected"); len(lost) != 0 {
			t.Errorf("told of %v", lost)
		}
	})
}

// resumedAmid is resumed while ticks come, from next on. It returns the next one then.
func (r *returner) resumedAmid(next int) int {
	for {
		p := r.read()
		if p.Kind == session.KindResponse {
			r.held = append([]session.Packet{p}, r.held...)
			r.resumed()
			return next
		}
		r.held = append([]session.Packet{p}, r.held...)
		r.ticks(next, next+1)
		next++
	}
}

// The Actor pushes from the node that it leaves, and from the one to which it moves, while its
// client is away and comes back.
func TestAnActorThatMovesPushesToAClientThatIsAway(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		entered, release := x.inRestore()
		s := &stage{world: x.world, gateway: x.c}
		r := &returner{stream: s.stream(t)}
		r.write(request(1, "bind", jsonOf(t, x.ref)), request(2, "token", `{}`))
		r.answered(1, nil)
		r.answered(2, &r.token)
		x.asks(x.c, "here")
		if p := r.read(); string(p.Payload) != `"here"` || p.Meta.PushNumber() != 1 {
			t.Errorf("%+v", p)
		}
		r.drop()
		s.reserved(1)
		r.last = 1
		x.asks(x.c, "away")
		x.goes(walkTo{})
		receive(t, entered)
		x.tells(x.c, "moving")
		r.back(s)
		r.drained()
		if len(r.held) != 0 {
			t.Errorf("%+v came before the move was over", r.held)
		}
		release()
		x.arrives("b", x.spot.ID)
		x.tells(x.c, "there")
		var got []string
		for answered := false; !answered || len(got) < 3; {
			p := r.read()
			if p.Kind == session.KindSend {
				got = append(got, string(p.Payload))
				if n := p.Meta.PushNumber(); n != uint64(len(got)) {
					t.Errorf("number %d of %q", n, got)
				}
				continue
			}
			if p.Kind != session.KindResponse {
				t.Fatalf("%v %s", p.Kind, p.Payload)
			}
			answered = true
		}
		if !slices.Equal(got, []string{`"away"`, `"moving"`, `"there"`}) {
			t.Errorf("pushed were %q", got)
		}
		r.write(request(3, "ask", `"last"`))
		if p := r.read(); string(p.Payload) != `"last"` {
			t.Errorf("%+v", p)
		}
		if ref, err := zlnode.Request[string](x.ctx, x.c.Actor(x.ref.ID), "where", struct{}{}); err != nil || !strings.HasPrefix(ref, "b ") {
			t.Errorf("it is at %s: %v", ref, err)
		}
	})
}

// While the Session is resumed, its Actor pushes so much that what the client has not got is
// not kept any more. Both Sessions end, and it is sent none of it.
func TestPushesThatAreLostDuringAResumptionEndBothSessions(t *testing.T) {
	onEachMove(t, func(c *zlnode.Config) {
		c.SessionRelocationSealTimeout = time.Minute
		gracious(c)
		c.Sessions[0].ReconnectBytes = 1 << 10
	}, func(t *testing.T, m *moving) {
		r := &returner{stream: m.client}
		r.write(request(2, "token", `{}`))
		r.answered(2, &r.token)
		large := strings.Repeat("1", 200)
		m.old.send(m.push(large), m.push(large))
		m.old.quiet()
		half := r.stream
		r.back(m.stage)
		b, ok := m.old.read().(*wire.Bind)
		if !ok {
			t.Fatalf("%+v came, want a bind", b)
		}
		for range 12 { // which drive out no more than those two
			m.old.send(m.push("2"))
		}
		m.old.send(&wire.Reply{Correlation: b.Correlation, Payload: []byte("avatar")})
		if e := r.end(); !e.told || e.reason != session.TransportError || e.frames != 0 {
			t.Errorf("ended with %+v", e)
		}
		r.conn.Close()
		half.conn.Close()
		receive(t, m.closed)
		receive(t, m.closed)
		if st := m.gateway.Stats(); st.KeptBytes != 0 || st.Sessions != 0 || st.SessionsReserved != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A push has no room for its number.
func TestAPushWithoutRoomForItsNumberIsRefused(t *testing.T) {
	onEachPushWorld(t, zlnode.SessionListener{ReconnectGrace: time.Minute}, func(t *testing.T, w *pushWorld) {
		c, s := w.login(t, "a")
		if _, err := s.ResumeToken(); err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{994, 995} { // of a block with one entry
			meta, err := session.NewMetadata(map[string]string{"k": strings.Repeat("v", size-5)})
			if err != nil {
				t.Fatal(err)
			}
			err = s.PushWith(zlnode.PushOptions{Metadata: meta}, "own", size)
			if size > 994 {
				wantKind(t, err, zlnode.InvalidOperation)
				continue
			}
			p := c.read()
			if v, _ := p.Meta.Lookup("k"); err != nil || len(v) != size-5 || p.Meta.PushNumber() != 1 {
				t.Errorf("%v %+v", err, p)
			}
		}
	})
}

// The connection is reset in the middle of a burst, most of which it had not taken.
func TestABurstGoesOnWhereItWasCutOff(t *testing.T) {
	for name, least := range map[string]int{"plain": 0, "compressed": 1 << 10} {
		t.Run(name, func(t *testing.T) {
			onEachPushWorld(t, zlnode.SessionListener{ReconnectGrace: time.Minute, ReconnectBytes: 8 << 20, CompressMin: least}, func(t *testing.T, w *pushWorld) {
				c, s := w.login(t, "a")
				token, err := s.ResumeToken()
				if err != nil {
					t.Fatal(err)
				}
				next := 0
				read := func(class string) {
					t.Helper()
					p := c.read()
					if p.Compressed != (least > 0) {
						t.Errorf("compressed is %v", p.Compressed)
					}
					plain, err := session.DecodePayload(&p, 1<<20)
					if want := fmt.Sprint(next, " "); err != nil || string(p.Name) != class || len(plain) != 10<<10 || !strings.HasPrefix(string(plain), want) {
						t.Fatalf("%v %q %.40q of %d bytes came, want number %d of class %s: %v", p.Kind, p.Name, plain, len(plain), next, class, err)
					}
					next++
				}
				w.mustPush("a", batch{Size: 10 << 10, Count: 350})
				for range 100 {
					read("MustDeliver")
				}
				c.drop()
				w.mustPush("a", batch{Size: 10 << 10, Count: 50})
				w.reserved(1)
				w.mustPush("a", batch{Class: zlnode.NewestPerKey, Keys: []string{"x", "y"}, Size: 10 << 10, Count: 2})
				w.mustPush("a", batch{Class: zlnode.DropOldest, Size: 10 << 10, Count: 2})
				c = w.stream(t)
				c.write(request(1, "resume", jsonOf(t, comeBack{token, 100})))
				for range 300 {
					read("MustDeliver")
				}
				read("NewestPerKey")
				read("NewestPerKey")
				read("DropOldest")
				read("DropOldest")
				var a cameBack
				if c.answered(1, &a); a.Resumed.Pushes != 304 {
					t.Errorf("%d pushes were sent again", a.Resumed.Pushes)
				}
			})
		})
	}
}

// A WebSocket that is closed in order is not reserved; one whose connection is lost is.
func TestAWebSocketIsReservedUnlessItIsClosed(t *testing.T) {
	onEachStageWith(t, func(c *zlnode.Config) {
		gracious(c)
		c.Sessions[0].Transport = zlnode.WS
	}, func(t *testing.T, s *stage) {
		enter := func(id string) *carried {
			c := s.carry(t, zlnode.WS, 0, nil)
			c.ask(1, "login", `{"ID":"`+id+`"}`)
			c.ask(2, "token", `{}`)
			return c
		}
		enter("a").conn.Close()
		s.reserved(1)
		c := enter("b")
		if err := ws.WriteFrame(c.conn, ws.MaskFrameInPlace(ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusGoingAway, "")))); err != nil {
			t.Fatal(err)
		}
		c.conn.Close()
		if why := receive(t, s.closed); why.Code != zlnode.ClientClosed {
			t.Errorf("ended with %v", why)
		}
		if lost := s.disconnected(1); len(lost) != 1 || lost[0] != "b" {
			t.Errorf("told of %v", lost)
		}
		s.reserved(1)
	})
}

// The usual way: the token comes with the request to authenticate. What is sent again comes
// before the answer. A Session that has not authenticated is not reserved.
func TestAClientResumesAsItAuthenticates(t *testing.T) {
	t.Parallel()
	s := guestStage(t, func(s *stage, g *guests) {
		zlnode.Authenticate(g, "come", func(c *zlnode.SessionCall, _ *visitor, q comeBack) (a cameBack, err error) {
			if a.Token, err = c.Session().ResumeToken(); err != nil {
				return a, err
			}
			if q.Token == "wait" {
				s.gate.pass()
				return a, nil
			}
			a.Resumed, err = c.Session().Resume(c, q.Token, q.Last)
			if k := zlnode.KindOf(err); err != nil && (k == zlnode.NotFound || k == zlnode.DataLost) {
				_, err = c.BindOrGet("avatar", "a", nil)
			}
			return a, err
		})
	}, gracious, nil)
	r := &returner{stream: s.stream(t)}
	r.write(request(1, "come", `{}`))
	r.resumed()
	s.tick("a", 2)
	r.ticks(0, 2)
	r.drop()
	s.tick("a", 2)
	s.reserved(1)
	q := comeBack{r.token, 1}
	r.stream, r.last = s.stream(t), 0
	r.write(request(1, "come", jsonOf(t, q)))
	r.ticks(1, 4)
	if a := r.resumed().Resumed; len(a.Actors) != 1 || a.Pushes != 3 {
		t.Errorf("%+v", a)
	}
	r.write(send("note", "5"), request(6, "mark", "6"))
	r.answered(6, nil)
	s.await("the note", func() bool { return len(s.journal.of("note")) == 1 })
	if why := receive(t, s.closed); why.Code != zlnode.SessionResumed {
		t.Errorf("ended with %v", why)
	}

	c := s.stream(t)
	c.write(request(1, "come", `{"Token":"wait"}`))
	receive(t, s.gate.entered)
	c.drop()
	s.await("the session's end", func() bool { return s.gateway.Stats().Sessions == 1 })
	s.gate.open <- struct{}{}
	if why := receive(t, s.closed); why.Code == zlnode.SessionResumed {
		t.Errorf("ended with %v", why)
	}
	if st := s.gateway.Stats(); st.SessionsReserved != 0 {
		t.Errorf("%+v", st)
	}
}
