package zlnode_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/session"
	"github.com/zlnode/zlnode/store/redislua"
)

// These tests are about a Session's life in its type: connect, packets, errors, disconnect.

// guests is the type of Sessions that a test defines.
type guests = zlnode.SessionType[visitor]

// guestStage is a stage of one node, whose first session port has a type that the test completes.
// Its Sessions take marks, and relay notes to their avatar. The second port is the stage's own.
func guestStage(t *testing.T, define func(s *stage, g *guests), change func(*zlnode.Config), tune func(*node.Config)) *stage {
	t.Helper()
	e, err := redislua.StartEmbedded("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	s := newStage(newWorld(t, e.URL()))
	app := s.app()
	g := zlnode.DefineSession(app, "guest", func(*zlnode.SessionContext) (*visitor, error) {
		s.journal.add("life made")
		return &visitor{}, nil
	})
	zlnode.Relay(g, "note", "avatar")
	zlnode.OnPacketRequest(g, "mark", func(_ *zlnode.SessionCall, _ *visitor, n int) (int, error) {
		s.journal.add("mark %d", n)
		return n, nil
	})
	zlnode.OnPacket(g, "mark", func(_ *zlnode.SessionCall, _ *visitor, n int) error {
		s.journal.add("mark %d", n)
		return nil
	})
	zlnode.OnPacketRequest(g, "fail", func(_ *zlnode.SessionCall, _ *visitor, how string) (int, error) { return 0, failure(how) })
	zlnode.OnPacket(g, "fail", func(_ *zlnode.SessionCall, _ *visitor, how string) error { return failure(how) })
	zlnode.OnPacketRequest(g, "kick", func(c *zlnode.SessionCall, _ *visitor, text string) (int, error) {
		c.Session().Close(text)
		return 0, nil
	})
	zlnode.OnDisconnect(g, func(_ *zlnode.SessionCall, _ *visitor, why zlnode.Disconnect) {
		s.journal.add("life ended")
		s.closed <- why
	})
	define(s, g)
	c := zlnode.Config{RID: "a-both", Role: zlnode.RoleServer, Sessions: []zlnode.SessionListener{
		{Addr: "127.0.0.1:0", Type: "guest"}, {Addr: "127.0.0.1:0", Type: "player"},
	}}
	if change != nil {
		change(&c)
	}
	s.gateway = s.tuned(c, app, tune)
	s.owner = s.gateway
	return s
}

// bindOnConnect has each Session bound to a new avatar before it takes packets.
func bindOnConnect(s *stage, g *guests, then func()) {
	zlnode.OnConnect(g, func(c *zlnode.SessionCall, _ *visitor) error {
		r, err := c.Node().GetOrCreateActor(c, zlnode.CreateActor{ID: fmt.Sprint("a", c.Session().ID()), Type: "avatar"})
		if err == nil {
			err = c.Bind(r.Ref)
		}
		then()
		s.journal.add("connected %v %q %v", err, c.Packet(), c.Codec())
		return err
	})
}

// Packets for the handler and for the Actor wait for OnConnect, and keep their order.
func TestPacketsWaitForOnConnect(t *testing.T) {
	t.Parallel()
	s := guestStage(t, func(s *stage, g *guests) { bindOnConnect(s, g, s.gate.pass) }, nil, nil)
	c := s.stream(t)
	receive(t, s.gate.entered)
	var packets []session.Packet
	for i := range 20 {
		packets = append(packets, send("note", fmt.Sprint(i)), send("mark", fmt.Sprint(i)))
	}
	c.write(append(packets, request(1, "mark", "20"), request(2, "note", "20"))...)
	c.drained()
	if _, err := s.gateway.GetOrCreateActor(s.ctx, zlnode.CreateActor{ID: "bystander", Type: "avatar"}); err != nil {
		t.Fatal(err)
	}
	if notes, marks := s.journal.of("note"), s.journal.of("mark"); len(notes)+len(marks) != 0 {
		t.Errorf("before the end of OnConnect ran notes %v and marks %v", notes, marks)
	}
	s.gate.open <- struct{}{}
	c.answer(1)
	c.answer(2)
	c.write(send("note", "21"), send("mark", "21"), request(3, "note", "22"))
	c.answer(3)
	if got := s.journal.of("connected"); !slices.Equal(got, []string{`<nil> "" Raw`}) {
		t.Errorf("OnConnect: %v", got)
	}
	for _, word := range []string{"note", "mark"} {
		for i, line := range s.journal.of(word) {
			if line != fmt.Sprint(i) {
				t.Fatalf("%s %s was executed at place %d", word, line, i)
			}
		}
	}
	c.conn.Close()
	receive(t, s.closed)
	if got := s.journal.of("life"); !slices.Equal(got, []string{"made", "ended"}) {
		t.Errorf("the Session's life: %v", got)
	}
}

// An error of OnConnect closes the Session: its client is told why as far as the error is
// meant for clients, and nothing that it has sent is executed.
func TestOnConnectRefusesASession(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		how    string
		reason session.CloseReason
		diag   string
	}{
		{"kind", session.ProtocolError, "you may not"},
		{"plain", session.ServerDrain, "internal failure"},
		{"panic", session.ServerDrain, "internal failure"},
		{"exit", session.ServerDrain, "internal failure"},
		{"unavailable", session.ServerDrain, "unavailable now"},
	} {
		t.Run(r.how, func(t *testing.T) {
			t.Parallel()
			s := guestStage(t, func(s *stage, g *guests) {
				zlnode.OnConnect(g, func(*zlnode.SessionCall, *visitor) error {
					s.gate.pass()
					if r.how == "unavailable" {
						return zlnode.Unavailable
					}
					return failure(r.how)
				})
			}, nil, nil)
			c := s.stream(t)
			receive(t, s.gate.entered)
			c.write(send("mark", "1"), request(1, "mark", "2"), send("note", "3"))
			c.drained()
			s.gate.open <- struct{}{}
			if e := c.end(); !e.orderly || !e.told || e.reason != r.reason || e.diag != r.diag || e.frames != 0 {
				t.Errorf("the server ended with %+v", e)
			}
			c.conn.Close()
			if why := receive(t, s.closed); why.Code != zlnode.SessionRefused || why.Text != r.diag {
				t.Errorf("OnDisconnect was told %v", why)
			}
			if got := append(s.journal.of("mark"), s.journal.of("note")...); len(got) != 0 {
				t.Errorf("executed %v", got)
			}
			if st := s.gateway.Stats(); st.SessionsRefused != 1 || st.Sessions != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// OnDisconnect tells the ends apart, and runs for a Session without a packet, too, if it has
// a value.
func TestOnDisconnectTellsWhatEndedTheSession(t *testing.T) {
	t.Parallel()
	for _, r := range []struct {
		what string
		want zlnode.DisconnectCode
		end  func(s *stage, c *stream)
	}{
		{"closing frame", zlnode.ClientClosed, func(_ *stage, c *stream) {
			c.writeBytes(session.AppendClosing(nil, session.ClientClose, "bye"))
		}},
		{"end of stream", zlnode.ClientClosed, func(_ *stage, c *stream) { c.conn.Close() }},
		{"reset", zlnode.ConnectionLost, func(_ *stage, c *stream) {
			_ = c.conn.SetLinger(0)
			c.conn.Close()
		}},
		{"kick", zlnode.SessionKicked, func(_ *stage, c *stream) { c.write(request(1, "kick", `"out"`)) }},
		{"breach", zlnode.ClientFault, func(_ *stage, c *stream) { c.write(send("$zlink.x", "1")) }},
		{"malformed", zlnode.ClientFault, func(_ *stage, c *stream) { c.writeBytes(make([]byte, 64)) }},
		{"large frame", zlnode.OverLimit, func(_ *stage, c *stream) { c.writeBytes([]byte{0, 9, 0, 2, 0, 0}) }},
		{"silence", zlnode.ClientSilent, func(*stage, *stream) {}},
		{"idle", zlnode.ClientIdle, func(*stage, *stream) {}},
		{"stop", zlnode.NodeStopping, func(s *stage, _ *stream) { s.stop(s.gateway) }},
	} {
		t.Run(r.what, func(t *testing.T) {
			t.Parallel()
			s := guestStage(t, func(s *stage, g *guests) { bindOnConnect(s, g, func() {}) }, func(c *zlnode.Config) {
				c.Sessions[0].IdleTimeout = -1
				switch r.what {
				case "idle":
					c.Sessions[0].IdleTimeout = 300 * time.Millisecond
				case "slow frame":
					c.Sessions[0].FrameTimeout = 500 * time.Millisecond // before it counts as silent
				}
			}, nil)
			c := s.stream(t)
			s.await("OnConnect", func() bool { return len(s.journal.of("connected")) == 1 })
			r.end(s, c)
			if why := receive(t, s.closed); why.Code != r.want {
				t.Errorf("OnDisconnect was told %v", why)
			}
			c.conn.Close()
			s.stop(s.gateway)
			if got := s.journal.of("life"); !slices.Equal(got, []string{"made", "ended"}) {
				t.Errorf("the Session's life: %v", got)
			}
		})
	}
}

// A connection whose type wants nothing of it before its first packet has no value.
func TestAnIdleConnectionHasNoValue(t *testing.T) {
	t.Parallel()
	s := guestStage(t, func(*stage, *guests) {}, nil, nil)
	c := s.stream(t)
	c.drained()
	c.conn.Close()
	s.await("no session", func() bool { return s.gateway.Stats().Sessions == 0 })
	d := s.stream(t)
	d.write(request(1, "mark", "1"))
	d.answer(1)
	d.conn.Close()
	receive(t, s.closed)
	if got := s.journal.of("life"); !slices.Equal(got, []string{"made", "ended"}) {
		t.Errorf("the Sessions' lives: %v", got)
	}
}

// OnError hears of each packet that was not handled as it should, behind the client's answer,
// and the log does not. The faults of clients alone are not worth a warning either way.
func TestOnErrorHearsOfEachFailure(t *testing.T) {
	t.Parallel()
	packets := []struct {
		name, payload, want string
	}{
		{"nothing\n{", `1`, "NotFound"}, // before there is a value
		{"mark", `1`, ""},
		{"mark", `"x"`, "ProtocolError"},
		{"fail", `"kind"`, "Rejected"},
		{"fail", `"plain"`, "InternalFailure"},
		{"fail", `"panic"`, "InternalFailure"},
		{"fail", `"exit"`, "InternalFailure"},
	}
	for _, heard := range []bool{true, false} {
		t.Run(fmt.Sprintf("heard %v", heard), func(t *testing.T) {
			t.Parallel()
			var log logLines
			s := guestStage(t, func(s *stage, g *guests) {
				if heard {
					zlnode.OnError(g, func(c *zlnode.SessionCall, v *visitor, err *zlnode.Error) {
						s.journal.add("error %v of %s, %v", err.Kind, c.Packet(), v != nil)
						if errors.Is(err, zlnode.Rejected) {
							panic("in OnError, which costs nothing but a line")
						}
					})
				}
			}, nil, log.logged(zerolog.WarnLevel))
			c := s.stream(t)
			var want []string
			for i, p := range packets {
				seq := uint64(i + 1)
				c.write(request(seq, p.name, p.payload))
				if a := c.answer(seq); (a.Kind == session.KindError) != (p.want != "") {
					t.Errorf("%s %s: %v %s", p.name, p.payload, a.Kind, a.Payload)
				}
				c.write(send(p.name, p.payload))
				if p.want != "" && heard {
					line := fmt.Sprintf("%s of %s, true", p.want, p.name)
					want = append(want, line, line)
				}
			}
			c.write(request(100, "mark", "100"))
			c.answer(100)
			if got := s.journal.of("error"); !slices.Equal(got, want) {
				t.Errorf("OnError was told\n%q\nwant\n%q", got, want)
			}
			st := s.gateway.Stats()
			if st.FailedSends != 6 || st.FailedRequests != 5 || st.SessionFaults != 0 {
				t.Errorf("%+v", st)
			}
			for _, line := range []string{"a session's send handler failed", "a session's request failed by its handler, or by who asked"} {
				if n := len(log.saying(line)); heard != (n == 0) { // else there is one a second at most
					t.Errorf("the log says %d times that %s", n, line)
				}
			}
		})
	}
}
