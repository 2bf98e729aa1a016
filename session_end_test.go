package zlnode_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
	"github.com/zlnode/zlnode/store/redislua"
)

// A client that does not read is closed, told why, and counted once, however
// many Actors push to it; the bytes that wait for it are bounded, and nobody else
// is held up.
func TestAClientThatDoesNotReadIsClosed(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		p := s.dial(t)
		p.login("other")
		slow := s.stream(t)
		const pushers, size = 4, 64 << 10
		ids := []string{"a", "b", "c", "d"}
		for i, id := range ids {
			slow.write(request(uint64(i+1), "login", `{"ID":"`+id+`"}`))
			slow.answer(uint64(i + 1))
		}
		var wg sync.WaitGroup
		for _, id := range ids {
			wg.Go(func() {
				var err error
				for zlnode.KindOf(err) != zlnode.InvalidOperation { // until the binding is over
					if _, err = s.ask(id, "flood", size); err != nil && s.ctx.Err() != nil {
						t.Errorf("actor %s still pushes: %v", id, err)
						return
					}
				}
			})
		}
		s.await("a slow session", func() bool { return s.gateway.Stats().SlowSessions > 0 })
		e := slow.end()
		slow.conn.Close()
		switch {
		case e.frames*size > 32<<20: // the node's queue, and the kernel's on both sides
			t.Errorf("%d bytes waited for a client that did not read", e.frames*size)
		case e.orderly && (!e.told || e.reason != session.TransportError || e.diag == ""):
			t.Errorf("the server ended with %+v", e)
		}
		wg.Wait()
		if why := receive(t, s.closed); why.Code != zlnode.ClientSlow {
			t.Errorf("OnDisconnect was told %v", why)
		}
		if n, err := p.ask("note", 1); n != 1 || err != nil {
			t.Errorf("another client: %d %v", n, err)
		}
		if st := s.gateway.Stats(); st.SlowSessions != 1 || st.Sessions != 1 {
			t.Errorf("%d slow sessions counted, %d left; want 1 and 1", st.SlowSessions, st.Sessions)
		}
	})
}

// A message that no client's queue can hold is refused to who sends it, and the
// Session goes on.
func TestAMessageTooLargeForAClientCostsNoSession(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		p := s.dial(t)
		p.login("a")
		_, err := s.ask("a", "flood", 1<<20)
		wantKind(t, err, zlnode.InvalidOperation)
		_, err = p.ask("push to self", 1<<20)
		wantRemote(t, err, zlnode.InvalidOperation)
		for _, packet := range []string{"blow", "blow session"} {
			_, err = p.ask(packet, 1<<20-2)
			wantRemote(t, err, zlnode.CapacityExceeded)
		}
		const most = 1<<20 - 2<<10
		for _, packet := range []string{"flood", "push to self"} {
			if _, err := p.ask(packet, most); err != nil {
				t.Errorf("%s: %v", packet, err)
			}
			if m := receive(t, p.pushes); len(m.Payload) != most {
				t.Errorf("%s: a push of %d bytes", packet, len(m.Payload))
			}
		}
		for _, packet := range []string{"blow", "blow session"} {
			m, err := p.RequestCall(s.ctx, client.Call{Name: packet, Codec: session.CodecJSON, Payload: []byte("1046526")})
			if err != nil || len(m.Payload) != most {
				t.Errorf("%s: %v", packet, err)
			}
		}
		if st := s.gateway.Stats(); st.SlowSessions != 0 || st.Sessions != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAHandlerEndsItsSession(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`))
		c.answer(1)
		c.write(request(2, "quit", `"banned"`))
		if p := c.read(); string(p.Name) != "farewell" || string(p.Payload) != `"banned"` {
			t.Errorf("%q %s", p.Name, p.Payload)
		}
		if e := c.end(); !e.orderly || !e.told || e.reason != session.ServerDrain || e.diag != "kicked: banned" {
			t.Errorf("the server ended with %+v", e)
		}
		c.conn.Close()
		if why := receive(t, s.closed); why != (zlnode.Disconnect{Code: zlnode.SessionKicked, Text: "banned"}) {
			t.Errorf("OnDisconnect was told %v", why)
		}
		_, err := s.ask("a", "tick", 1)
		wantKind(t, err, zlnode.InvalidOperation)
	})
}

// oneGateway runs f where one node is all, once: it is about connections, which
// know nothing of the Store. The node's second session port wants input from its
// clients.
func oneGateway(t *testing.T, f func(t *testing.T, s *stage)) {
	t.Parallel()
	e, err := redislua.StartEmbedded("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	s := newStage(newWorld(t, e.URL()))
	s.gateway = s.startWith(zlnode.Config{RID: "a-both", Role: zlnode.RoleServer}, func(c *zlnode.Config) {
		c.Sessions = append(c.Sessions, zlnode.SessionListener{Addr: "127.0.0.1:0", Type: "player", IdleTimeout: 300 * time.Millisecond})
	})
	s.owner = s.gateway
	f(t, s)
}

// A client from which nothing is heard is closed; one that only answers pings
// stays.
func TestASilentClientIsClosed(t *testing.T) {
	oneGateway(t, func(t *testing.T, s *stage) {
		silent, alive := s.stream(t), s.stream(t)
		answered := make(chan int, 1)
		go func() {
			n := 0
			for {
				p, err := alive.next()
				if err != nil || p.Kind == session.KindResponse {
					answered <- n
					return
				}
				if p.Kind == session.KindControl && string(p.Name) == session.PingName {
					n++
					_, _ = alive.conn.Write(session.PongFrame()) // a failure shows as the end of the stream
				}
			}
		}()
		if e := silent.end(); !e.orderly || !e.told || e.reason != session.HeartbeatTimeout || e.frames != 0 {
			t.Errorf("the server ended with %+v", e)
		}
		alive.write(request(1, "mark", "1"))
		if n := receive(t, answered); n < 3 {
			t.Errorf("%d pings in the time that a silent client is given", n)
		}
		if got := s.journal.of("mark"); len(got) != 1 {
			t.Error("the client that answered pings was closed")
		}
	})
}

func TestPingsAreAnsweredOnBothSides(t *testing.T) {
	oneGateway(t, func(t *testing.T, s *stage) {
		s.stream(t).drained() // the server's side
		var spy *pongSpy
		c, err := client.Dial(s.ctx, client.Options{
			Addr: s.gateway.SessionAddrs()[0].String(), HeartbeatInterval: -1,
			Dialer: func(ctx context.Context, addr string) (net.Conn, error) {
				var d net.Dialer
				conn, err := d.DialContext(ctx, "tcp", addr)
				spy = &pongSpy{Conn: conn, seen: make(chan struct{})}
				return spy, err
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		receive(t, spy.seen) // the client's, once the server has pinged
		if st := s.gateway.Stats(); st.Dropped != 0 || st.FailedSends != 0 {
			t.Errorf("heartbeats reached a handler: %+v", st)
		}
	})
}

// pongSpy tells when a pong is written.
type pongSpy struct {
	net.Conn
	seen chan struct{}
	once sync.Once
}

func (p *pongSpy) Write(b []byte) (int, error) {
	if bytes.Contains(b, session.PongFrame()) {
		p.once.Do(func() { close(p.seen) })
	}
	return p.Conn.Write(b)
}

// Heartbeats keep a connection, but not a Session without input.
func TestAnIdleSessionIsClosed(t *testing.T) {
	oneGateway(t, func(t *testing.T, s *stage) {
		c := dialStream(t, s.gateway.SessionAddrs()[1].String())
		c.write(request(1, "mark", "1"))
		c.answer(1)
		began := time.Now()
		c.writeBytes(session.PingFrame())
		for told := false; !told; {
			p, err := c.next()
			if err != nil {
				t.Fatalf("the server ended without a word: %v", err)
			}
			switch string(p.Name) {
			case session.PongName:
				_, _ = c.conn.Write(session.PingFrame()) // a failure shows as the end of the stream
			case session.ClosingName:
				told = true
				if reason, _, err := session.ParseClosing(&p); err != nil || reason != session.IdleTimeout {
					t.Errorf("the server ended with %v %v", reason, err)
				}
			}
		}
		if d := time.Since(began); d < 250*time.Millisecond {
			t.Errorf("closed after %v", d)
		}
		c.conn.Close()
		if why := receive(t, s.closed); why.Code != zlnode.ClientIdle {
			t.Errorf("OnDisconnect was told %v", why)
		}
	})
}

// A gateway that stops tells its clients; nothing can be pushed to them any more.
func TestAGatewayThatStopsTellsItsClients(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		p, c := s.dial(t), s.stream(t)
		p.login("a")
		c.write(request(1, "login", `{"ID":"b"}`))
		c.answer(1)
		addr := s.gateway.SessionAddrs()[0].String()
		stopped := make(chan struct{})
		go func() {
			s.stop(s.gateway)
			close(stopped)
		}()
		closed, ok := errors.AsType[*client.ClosedError](receive(t, p.lost))
		if !ok || closed.Reason != session.ServerDrain {
			t.Errorf("the client was told %v", closed)
		}
		if e := c.end(); !e.orderly || !e.told || e.reason != session.ServerDrain {
			t.Errorf("the server ended with %+v", e)
		}
		c.conn.Close()
		receive(t, stopped)
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			t.Error("the session port is still open")
		}
		for range 2 {
			if why := receive(t, s.closed); why.Code != zlnode.NodeStopping {
				t.Errorf("OnDisconnect was told %v", why)
			}
		}
		if n := s.gateway.Stats().Sessions; n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		if s.owner != s.gateway {
			_, err := zlnode.Request[int](s.ctx, s.owner.Actor("a"), "tick", 1)
			wantKind(t, err, zlnode.InvalidOperation)
		}
	})
}
