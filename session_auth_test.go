package zlnode_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

// authStage is a guestStage whose clients must begin with hello, which says what comes of it.
func authStage(t *testing.T, change func(*zlnode.Config)) *stage {
	t.Helper()
	return guestStage(t, func(s *stage, g *guests) {
		zlnode.OnConnect(g, func(*zlnode.SessionCall, *visitor) error {
			s.journal.add("life connected")
			return nil
		})
		zlnode.Authenticate(g, "hello", func(c *zlnode.SessionCall, _ *visitor, how string) (string, error) {
			s.journal.add("life hello")
			switch how {
			case "long":
				return strings.Repeat("x", 1<<20), nil
			case "wait for deadline":
				<-c.Done()
				return "", c.Err()
			case "wait":
				s.gate.pass()
				fallthrough
			case "good":
				r, err := c.Node().GetOrCreateActor(c, zlnode.CreateActor{ID: "a", Type: "avatar"})
				if err != nil {
					return "", err
				}
				return "welcome", c.Bind(r.Ref)
			}
			return "", failure(how)
		})
	}, change, nil)
}

// wantRefusal fails the test unless p is the Error of that kind.
func wantRefusal(t *testing.T, p session.Packet, kind zlnode.Kind) {
	t.Helper()
	if got, text, err := session.ParseErrorBody(p.Payload); p.Kind != session.KindError || err != nil || got != kind || text == "" {
		t.Errorf("%v to %d: %s, want an Error of kind %v", p.Kind, p.Seq, p.Payload, kind)
	}
}

func TestAuthenticationOpensTheSession(t *testing.T) {
	t.Parallel()
	s := authStage(t, nil)
	c := s.stream(t)
	c.drained() // heartbeats come first
	c.write(request(1, "hello", `"good"`))
	if a := c.answer(1); string(a.Payload) != `"welcome"` {
		t.Fatalf("%v %s", a.Kind, a.Payload)
	}
	c.write(send("mark", "0"), request(2, "mark", "1"), send("note", "0"), request(3, "note", "1"))
	c.answer(2)
	c.answer(3)
	c.write(request(4, "hello", `"good"`))
	wantRefusal(t, c.answer(4), zlnode.InvalidOperation)
	c.write(send("hello", `"good"`), request(5, "mark", strings.Repeat(" ", 60<<10)+"2")) // more than a stranger may send
	if a := c.answer(5); string(a.Payload) != "2" {
		t.Errorf("%v %s", a.Kind, a.Payload)
	}
	c.conn.Close()
	if why := receive(t, s.closed); why.Code != zlnode.ClientClosed {
		t.Errorf("OnDisconnect was told %v", why)
	}
	if notes, marks := s.journal.of("note"), s.journal.of("mark"); !slices.Equal(notes, []string{"0", "1"}) || !slices.Equal(marks, []string{"0", "1", "2"}) {
		t.Errorf("notes %v and marks %v", notes, marks)
	}
	if got := s.journal.of("life"); !slices.Equal(got, []string{"made", "connected", "hello", "ended"}) {
		t.Errorf("the Session's life: %v", got)
	}
}

// strangers are packets that a client may not send before it has authenticated.
func strangers() []session.Packet {
	return []session.Packet{
		request(9, "mark", "1"), send("mark", "1"), request(9, "note", "1"), send("note", "1"),
		request(9, "nothing", "1"), send("nothing", "1"), send("hello", `"good"`), request(9, "hello\x00", `"good"`),
	}
}

func TestNothingIsHonouredBeforeAuthentication(t *testing.T) {
	t.Parallel()
	s := authStage(t, nil)
	hello := func(how string) session.Packet { return request(1, "hello", `"`+how+`"`) }
	faults := 0
	for _, p := range append(strangers(), hello("good")) {
		for _, before := range []string{"", "in one write", "wait"} {
			if before == "" && p.Kind == session.KindRequest && string(p.Name) == "hello" {
				continue
			}
			c, answers := s.stream(t), 0
			switch before {
			case "":
				c.write(p, send("mark", "2"))
			case "in one write":
				answers++
				c.write(hello("good"), p, send("mark", "2"))
			case "wait":
				answers++
				c.write(hello("wait"))
				receive(t, s.gate.entered)
				c.write(p, send("mark", "2"))
			}
			if p.Kind == session.KindRequest {
				answers++
			}
			ended := map[uint64]int{}
			for range answers {
				a := c.read()
				wantRefusal(t, a, zlnode.Rejected)
				ended[a.Seq]++
			}
			if e := c.end(); !e.orderly || !e.told || e.reason != session.ProtocolError || !strings.Contains(e.diag, "authenticate") || e.frames != 0 {
				t.Errorf("%v %q %s: answers %v, and the server ended with %+v", p.Kind, p.Name, before, ended, e)
			}
			c.conn.Close()
			if before == "wait" {
				s.gate.open <- struct{}{}
			}
			faults++
			if why := receive(t, s.closed); why.Code != zlnode.ClientFault {
				t.Errorf("OnDisconnect was told %v", why)
			}
		}
	}
	if got := append(s.journal.of("mark"), s.journal.of("note")...); len(got) != 0 {
		t.Errorf("executed %v", got)
	}
	if st := s.gateway.Stats(); int(st.SessionFaults) != faults || st.Sessions != 0 {
		t.Errorf("%+v after %d", st, faults)
	}
}

func TestAFailedAuthenticationEndsTheSession(t *testing.T) {
	t.Parallel()
	s := authStage(t, nil)
	for i, r := range []struct {
		hello  string
		kind   zlnode.Kind
		reason session.CloseReason
	}{
		{`"kind"`, zlnode.Rejected, session.ProtocolError},
		{`"plain"`, zlnode.InternalFailure, session.ServerDrain},
		{`"panic"`, zlnode.InternalFailure, session.ServerDrain},
		{`"exit"`, zlnode.InternalFailure, session.ServerDrain},
		{`{`, zlnode.ProtocolError, session.ProtocolError},
		{`"long"`, zlnode.CapacityExceeded, session.ServerDrain},
	} {
		c := s.stream(t)
		c.write(request(1, "hello", r.hello))
		a := c.answer(1)
		wantRefusal(t, a, r.kind)
		if strings.Contains(string(a.Payload), "secret") {
			t.Errorf("the client was told %s", a.Payload)
		}
		if e := c.end(); !e.orderly || !e.told || e.reason != r.reason || e.frames != 0 {
			t.Errorf("%s: the server ended with %+v", r.hello, e)
		}
		c.conn.Close()
		if why := receive(t, s.closed); why.Code != zlnode.SessionRefused {
			t.Errorf("OnDisconnect was told %v", why)
		}
		if st := s.gateway.Stats(); int(st.SessionsRefused) != i+1 {
			t.Errorf("%+v", st)
		}
	}
}

// A client that is slow, and a handler that is, leave a Session unauthenticated for
// AuthTimeout only. The request has one end.
func TestAuthenticationHasADeadline(t *testing.T) {
	t.Parallel()
	s := authStage(t, func(c *zlnode.Config) { c.Sessions[0].AuthTimeout = 200 * time.Millisecond })
	for _, r := range []struct {
		hello  string
		reason session.CloseReason
	}{
		{"", session.ProtocolError},
		{`"wait for deadline"`, session.ServerDrain},
		{`"wait"`, session.ServerDrain},
	} {
		c := s.stream(t)
		if r.hello != "" {
			c.write(request(1, "hello", r.hello))
			wantRefusal(t, c.answer(1), zlnode.DeadlineExceeded)
		}
		e := c.end()
		if !e.orderly || !e.told || e.reason != r.reason || e.frames != 0 {
			t.Errorf("%s: the server ended with %+v", r.hello, e)
		}
		c.conn.Close()
		if r.hello == `"wait"` {
			receive(t, s.gate.entered)
			s.gate.open <- struct{}{}
		}
		if why := receive(t, s.closed); why.Code != zlnode.SessionRefused {
			t.Errorf("%s: OnDisconnect was told %v", r.hello, why)
		}
	}
}

func TestFramesBeforeAuthenticationAreSmall(t *testing.T) {
	t.Parallel()
	s := authStage(t, nil)
	hello := func(size int) []byte { // of header and payload
		p := request(1, "hello", `"good"`)
		p.Payload = append(p.Payload, strings.Repeat(" ", size-len(frames(t, p))+session.PrefixSize)...)
		return frames(t, p)
	}
	c := s.stream(t)
	c.writeBytes(hello(4 << 10))
	if a := c.answer(1); a.Kind != session.KindResponse {
		t.Errorf("the largest: %s", a.Payload)
	}
	c.conn.Close()
	receive(t, s.closed)

	c = s.stream(t)
	c.writeBytes(hello(4<<10 + 1)[:session.PrefixSize])
	if e := c.end(); !e.orderly || e.told || e.frames != 0 {
		t.Errorf("one byte more: the server ended with %+v", e)
	}
	c.conn.Close()
	if why := receive(t, s.closed); why.Code != zlnode.OverLimit {
		t.Errorf("OnDisconnect was told %v", why)
	}

	c = s.stream(t)
	c.write(bomb(1, "hello", 4<<10+1))
	if e := c.end(); !e.told || e.reason != session.ProtocolError || e.frames != 0 {
		t.Errorf("inflated: the server ended with %+v", e)
	}
	c.conn.Close()
	receive(t, s.closed)
}

func TestUnauthenticatedSessionsAreBounded(t *testing.T) {
	t.Parallel()
	s := authStage(t, func(c *zlnode.Config) { c.Sessions[0].MaxUnadmitted = 2 })
	first, second := s.stream(t), s.stream(t)
	first.drained()
	second.drained()
	third := s.stream(t)
	if e := third.end(); e.told || e.frames != 0 {
		t.Errorf("the server ended with %+v", e)
	}
	first.write(request(1, "hello", `"good"`))
	first.answer(1)
	for i := range 3 { // none of them counts once it has authenticated
		c := s.stream(t)
		c.write(request(1, "hello", `"good"`))
		if a := c.answer(1); a.Kind != session.KindResponse {
			t.Errorf("client %d: %s", i, a.Payload)
		}
	}
	second.drained()
}

// A client that leaves gives its place among the connections back, but its handler runs on:
// handlers are bounded too, those of OnConnect as those of Authenticate.
func TestHandlersOfStrangersThatLeaveAreBounded(t *testing.T) {
	t.Parallel()
	const most = 3
	for _, held := range []string{"OnConnect", "Authenticate"} {
		t.Run(held, func(t *testing.T) {
			t.Parallel()
			s := guestStage(t, func(s *stage, g *guests) {
				pass := func(here string) {
					if here == held {
						s.gate.pass()
					}
				}
				zlnode.OnConnect(g, func(*zlnode.SessionCall, *visitor) error { pass("OnConnect"); return nil })
				zlnode.Authenticate(g, "hello", func(*zlnode.SessionCall, *visitor, string) (string, error) {
					s.journal.add("authenticate hello")
					pass("Authenticate")
					return "welcome", nil
				})
			}, func(c *zlnode.Config) { c.Sessions[0].MaxUnadmitted = most }, nil)
			gone := func() bool { return s.gateway.Stats().Sessions == 0 }
			hello := request(1, "hello", `""`)
			for range most {
				c := s.stream(t)
				c.write(hello)
				receive(t, s.gate.entered)
				c.conn.Close()
				s.await("the end of its session", gone)
			}
			crowded := s.stream(t)
			if held == "Authenticate" {
				crowded.write(hello)
				wantRefusal(t, crowded.answer(1), zlnode.CapacityExceeded)
			}
			if e := crowded.end(); !e.orderly || !e.told || e.reason != session.ServerDrain {
				t.Errorf("the server ended with %+v", e)
			}
			crowded.conn.Close()
			s.await("the end of its session", gone)
			if len(s.gate.entered) > 0 {
				t.Error("one more handler runs")
			}
			close(s.gate.open)
			for range most {
				receive(t, s.closed)
			}
			if n := len(s.journal.of("authenticate")); held == "OnConnect" && n > 0 {
				t.Errorf("%d handlers ran for clients that had left", n)
			}
			c := s.stream(t)
			c.write(hello)
			if a := c.answer(1); a.Kind != session.KindResponse {
				t.Errorf("with all places free again: %s", a.Payload)
			}
		})
	}
}

func TestAnAuthenticationIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	yes := func(*zlnode.SessionCall, *visitor, string) (string, error) { return "", nil }
	for what, define := range map[string]func(g *guests){
		"twice":         func(g *guests) { zlnode.Authenticate(g, "b", yes) },
		"also handled":  func(g *guests) { zlnode.OnPacketRequest(g, "a", yes) },
		"also relayed":  func(g *guests) { zlnode.Relay(g, "a", "avatar") },
		"OnConnect":     func(g *guests) { zlnode.OnConnect(g, func(*zlnode.SessionCall, *visitor) error { return nil }) },
		"OnError":       func(g *guests) { zlnode.OnError(g, func(*zlnode.SessionCall, *visitor, *zlnode.Error) {}) },
		"OnDisconnect":  func(g *guests) { zlnode.OnDisconnect(g, func(*zlnode.SessionCall, *visitor, zlnode.Disconnect) {}) },
		"reserved name": func(g *guests) { zlnode.OnPacketRequest(g, "$zlink.a", yes) },
	} {
		app := zlnode.NewApp()
		g := zlnode.DefineSession(app, "guest", func(*zlnode.SessionContext) (*visitor, error) { return &visitor{}, nil })
		zlnode.Authenticate(g, "a", yes)
		define(g)
		if !strings.HasPrefix(what, "On") {
			n, err := zlnode.Start(t.Context(), zlnode.Config{RID: "a"}, app)
			if err == nil {
				t.Fatal(what, n.Shutdown(t.Context()))
			}
			continue
		}
		define(g)
		if n, err := zlnode.Start(t.Context(), zlnode.Config{RID: "a"}, app); err == nil || !strings.Contains(err.Error(), what) {
			t.Fatal(what, err, fmt.Sprint(n))
		}
	}
}

// Whatever carries the frames, a stranger's are small, and the first is the request to
// authenticate.
func TestAuthenticationIsTheSameOnEachTransport(t *testing.T) {
	t.Parallel()
	server, known := certificate()
	for _, transport := range transports {
		t.Run(transport.String(), func(t *testing.T) {
			t.Parallel()
			s := authStage(t, func(c *zlnode.Config) {
				c.Sessions[0].Transport = transport
				if transport.Encrypted() {
					c.Sessions[0].TLS = server
				}
			})
			dial := func() *client.Client {
				o := client.Options{Addr: transport.String() + "://" + s.gateway.SessionAddrs()[0].String()}
				if transport.Encrypted() {
					o.TLS = known
				}
				c, err := client.Dial(s.ctx, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			var n int
			wantRemote(t, dial().RequestJSON(s.ctx, "mark", 1, &n), zlnode.Rejected)
			if why := receive(t, s.closed); why.Code != zlnode.ClientFault {
				t.Errorf("OnDisconnect was told %v", why)
			}
			if err := dial().RequestJSON(s.ctx, "hello", strings.Repeat("x", 5<<10), nil); err == nil {
				t.Error("a large frame of a stranger was answered")
			}
			if why := receive(t, s.closed); why.Code != zlnode.OverLimit {
				t.Errorf("OnDisconnect was told %v", why)
			}
			c := dial()
			if err := c.RequestJSON(s.ctx, "hello", "good", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := c.RequestCall(s.ctx, client.Call{
				Name: "mark", Codec: session.CodecJSON, Payload: []byte(strings.Repeat(" ", 50<<10) + "2"),
			}); err != nil {
				t.Errorf("a large frame of a friend: %v", err)
			}
		})
	}
}
