package zlnode_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

// flows is a world whose handlers tell what they belong to.
type flows struct {
	*world
	seen journal // "<handler> <node> <flow> <correlation> <metadata>"
	log  textLog
}

// textLog keeps what is logged.
type textLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *textLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// saying returns the first line with that message.
func (l *textLog) saying(message string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, message) {
			return line
		}
	}
	return ""
}

// leg tells an Actor's handler what to do next.
type leg struct {
	Tail string // the Actor that it sends to and asks
	Spot string // the Spot that it joins before it sends itself "late"
	New  bool   // in a flow of its own
	Fail bool
	Meta int // bytes of metadata that its messages have
}

type hopper struct{}

func (f *flows) note(handler string, node *zlnode.Node, of zlnode.Flow, correlation string, meta session.Metadata) {
	f.seen.add("%s %s %d %s %s %d", handler, node.RID(), of.Origin(), of, correlation, len(meta))
}

func (f *flows) noteTurn(handler string, t *zlnode.Turn) {
	f.note(handler, t.Node(), t.Flow(), t.Correlation(), t.Metadata())
}

// openHall lets all in.
type openHall struct{}

func (*openHall) OnActorJoin(*zlnode.JoinSpotCall) (zlnode.Admission, error) {
	return zlnode.Admission{}, nil
}

func (*hopper) OnJoinCompleted(*zlnode.ActorCall, zlnode.JoinDone) error { return nil }

func (f *flows) app() *zlnode.App {
	app := zlnode.NewApp()
	a := zlnode.DefineActor(app, "hopper", func(*zlnode.ActorContext) (*hopper, error) { return &hopper{}, nil }, zlnode.RecreateOnRelocation)
	zlnode.OnRequest(a, "start", func(c *zlnode.ActorCall, _ *hopper, h leg) (string, error) {
		f.noteTurn("start", &c.Turn)
		var ctx context.Context = c
		if h.New {
			ctx = zlnode.WithFlow(c, zlnode.NewFlow(c))
		}
		if h.Fail {
			panic("as the test wants")
		}
		if c.Bound() {
			if err := c.Push("pushed", 1); err != nil {
				return "", err
			}
		}
		if h.Spot != "" {
			if err := c.JoinSpot(h.Spot, nil).Defer(); err != nil {
				return "", err
			}
			return "", zlnode.Send(ctx, c.Node().Actor(c.Actor().ID()), "late", 1)
		}
		to := c.Node().Actor(h.Tail)
		if h.Meta > 0 {
			meta, err := session.NewMetadata(map[string]string{"k": strings.Repeat("v", h.Meta-5)})
			if err != nil {
				return "", err
			}
			to = to.With(meta)
		}
		if err := zlnode.Send(ctx, to, "late", 1); err != nil {
			return "", err
		}
		return zlnode.Request[string](ctx, to, "end", 1)
	})
	zlnode.OnSend(a, "late", func(c *zlnode.ActorCall, _ *hopper, _ int) error {
		f.noteTurn("late", &c.Turn)
		return nil
	})
	zlnode.OnRequest(a, "end", func(c *zlnode.ActorCall, _ *hopper, _ int) (string, error) {
		f.noteTurn("end", &c.Turn)
		return c.Flow().String(), nil
	})
	zlnode.DefineUserSpot(app, "room", func(*zlnode.SpotContext) (*openHall, error) { return &openHall{}, nil }, zlnode.PerActor, zlnode.RecreateOnRelocation)
	s := zlnode.DefineSession(app, "player", func(*zlnode.SessionContext) (*hopper, error) { return &hopper{}, nil })
	zlnode.Relay(s, "start", "hopper")
	zlnode.Relay(s, "late", "hopper")
	zlnode.OnPacketRequest(s, "bind", func(c *zlnode.SessionCall, _ *hopper, ref zlnode.ActorRef) (bool, error) { return true, c.Bind(ref) })
	zlnode.OnPacketRequest(s, "through", func(c *zlnode.SessionCall, _ *hopper, q [2]string) (string, error) {
		f.note("through", c.Node(), c.Flow(), c.Correlation(), c.Metadata())
		if err := c.Session().PushWith(zlnode.PushOptions{Flow: c.Flow()}, "pushed", 1); err != nil {
			return "", err
		}
		return zlnode.Request[string](c, c.Node().Actor(q[0]), "start", leg{Tail: q[1]})
	})
	zlnode.OnPacketRequest(s, "forward", func(c *zlnode.SessionCall, _ *hopper, id string) (bool, error) { return true, c.Forward(id) })
	return app
}

// took returns what the handler of that name has seen, when it has, and forgets it.
func (f *flows) took(handler string) string {
	f.t.Helper()
	f.eventually("handler "+handler+" runs", func() bool { return len(f.seen.of(handler)) > 0 })
	return f.seen.of(handler)[0]
}

// logged fails the test unless a line with that message tells of the client's flow.
func (f *flows) logged(message string) {
	f.t.Helper()
	var line struct{ Flow, Correlation string }
	f.eventually("a line: "+message, func() bool { return f.log.saying(message) != "" })
	text := f.log.saying(message)
	if err := json.Unmarshal([]byte(text), &line); err != nil || line.Flow != clientFlow || line.Correlation != clientCorr {
		f.t.Errorf("%.300s", text)
	}
}

const (
	clientFlow = "01976fe4-f4a0-7abc-8def-0123456789ab"
	clientCorr = "corr-7"
)

// inFlow gives a packet of a client its flow and correlation id.
func inFlow(p session.Packet) session.Packet {
	p.Flow, p.Origin, p.Correlation = []byte(clientFlow), 1, []byte(clientCorr)
	return p
}

func TestAFlowGoesThroughSessionsActorsNodesAndMoves(t *testing.T) {
	e, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	f := &flows{world: newWorld(t, e.URL())}
	logged := func(c zlnode.Config) zlnode.Config {
		c = f.config(c)
		c.Logger = zerolog.New(&f.log)
		return c
	}
	start := func(c zlnode.Config) *zlnode.Node {
		n, err := zlnode.Start(f.ctx, logged(c), f.app())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.stop(n) })
		return n
	}
	b := start(zlnode.Config{RID: "b", Role: zlnode.RoleServer, Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "player"}}})
	c := start(zlnode.Config{RID: "c", Role: zlnode.RoleServer})
	a := start(zlnode.Config{RID: "a", Role: zlnode.RoleClient, Sessions: []zlnode.SessionListener{
		{Addr: "127.0.0.1:0", Type: "player"}, {Addr: "127.0.0.1:0", Type: "player", StartFlows: true},
	}})
	f.linked(a, 2)
	f.linked(b, 1)
	f.linked(c, 1)
	head, tail := f.createActorAt(a, "b", "hopper"), f.createActorAt(a, "c", "hopper")
	whole := "1 " + clientFlow + " " + clientCorr

	// echoed fails the test unless the packet has the client's flow and, in a reply, its
	// correlation id.
	echoed := func(t *testing.T, p session.Packet, kind session.Kind) {
		t.Helper()
		correlation := ""
		if kind != session.KindSend {
			correlation = clientCorr
		}
		if p.Kind != kind || string(p.Flow) != clientFlow || p.Origin != 1 || string(p.Correlation) != correlation || p.Meta != nil {
			t.Fatalf("%v %q %s with flow %q of %d, correlation %q and metadata %q", p.Kind, p.Name, p.Payload, p.Flow, p.Origin, p.Correlation, p.Meta)
		}
	}
	bound := func(t *testing.T, addr string) *stream {
		t.Helper()
		p := dialStream(t, addr)
		p.write(request(1, "bind", jsonOf(t, head)))
		if r := p.answer(1); r.Kind != session.KindResponse {
			t.Fatalf("%s", r.Payload)
		}
		f.seen.clear()
		return p
	}

	for where, n := range map[string]*zlnode.Node{"another node": a, "this node": b} {
		t.Run("relayed to an actor of "+where, func(t *testing.T) {
			p := bound(t, n.SessionAddrs()[0].String())
			p.write(inFlow(request(2, "start", jsonOf(t, leg{Tail: tail.ID}))))
			echoed(t, p.read(), session.KindSend)
			r := p.answer(2)
			echoed(t, r, session.KindResponse)
			if string(r.Payload) != `"`+clientFlow+`"` {
				t.Errorf("the last one answered %s", r.Payload)
			}
			for handler, node := range map[string]string{"start": "b", "late": "c", "end": "c"} {
				if got, want := f.took(handler), node+" "+whole+" 0"; got != want {
					t.Errorf("%s: %q, want %q", handler, got, want)
				}
			}
		})
	}

	t.Run("through the handler of a session", func(t *testing.T) {
		p := bound(t, a.SessionAddrs()[0].String())
		p.write(inFlow(request(2, "through", jsonOf(t, [2]string{head.ID, tail.ID}))))
		echoed(t, p.read(), session.KindSend) // of the Session
		echoed(t, p.read(), session.KindSend) // of the Actor
		echoed(t, p.answer(2), session.KindResponse)
		for handler, node := range map[string]string{"through": "a", "start": "b", "late": "c", "end": "c"} {
			if got, want := f.took(handler), node+" "+whole+" 0"; got != want {
				t.Errorf("%s: %q, want %q", handler, got, want)
			}
		}
	})

	t.Run("forwarded", func(t *testing.T) {
		p := bound(t, a.SessionAddrs()[0].String())
		q := inFlow(request(2, "forward", `"`+head.ID+`"`))
		p.write(q) // the Actor has no such handler, and says so in its log
		if r := p.answer(2); r.Kind != session.KindError || string(r.Flow) != clientFlow || string(r.Correlation) != clientCorr {
			t.Errorf("%v %s with flow %q", r.Kind, r.Payload, r.Flow)
		}
		f.logged("a request failed by its handler, or by who asked")
	})

	t.Run("none", func(t *testing.T) {
		p := bound(t, a.SessionAddrs()[0].String())
		p.write(request(2, "start", jsonOf(t, leg{Tail: tail.ID})))
		if push := p.read(); push.Flow != nil || push.Origin != 0 {
			t.Errorf("a push has flow %q", push.Flow)
		}
		if r := p.answer(2); r.Flow != nil || string(r.Payload) != `""` {
			t.Errorf("%s with flow %q", r.Payload, r.Flow)
		}
		if got := f.took("end"); got != "c 0   0" {
			t.Errorf("%q", got)
		}
	})

	t.Run("begun by the session", func(t *testing.T) {
		p := bound(t, a.SessionAddrs()[1].String())
		p.write(request(2, "start", jsonOf(t, leg{Tail: tail.ID})), inFlow(request(3, "start", jsonOf(t, leg{Tail: tail.ID}))))
		push, r := p.read(), p.answer(2)
		id := string(r.Flow)
		if _, err := zlnode.ParseFlow(id, zlnode.FlowOfSession); err != nil || r.Origin != 2 || string(r.Payload) != `"`+id+`"` || string(push.Flow) != id {
			t.Errorf("flow %q of %d, the last one answered %s, the push has %q", id, r.Origin, r.Payload, push.Flow)
		}
		echoed(t, p.read(), session.KindSend) // a flow that there is goes on
		echoed(t, p.answer(3), session.KindResponse)
	})

	t.Run("begun by a handler", func(t *testing.T) {
		p := bound(t, a.SessionAddrs()[0].String())
		p.write(inFlow(request(2, "start", jsonOf(t, leg{Tail: tail.ID, New: true}))))
		echoed(t, p.read(), session.KindSend)
		r := p.answer(2)
		id := strings.Trim(string(r.Payload), `"`)
		if id == clientFlow || f.took("end") != "c 3 "+id+" "+clientCorr+" 0" {
			t.Errorf("the next handler answered %s and saw %q", id, f.took("end"))
		}
	})

	t.Run("beside metadata that leaves no room", func(t *testing.T) {
		p := bound(t, a.SessionAddrs()[0].String())
		for seq, k := range []struct {
			meta int
			want string
		}{{900, "c " + whole + " 900"}, {990, "c 1 " + clientFlow + "  990"}, {1024, "c 0   1024"}} {
			f.seen.clear()
			p.write(inFlow(request(uint64(2+seq), "start", jsonOf(t, leg{Tail: tail.ID, Meta: k.meta}))))
			p.read()
			if r := p.answer(uint64(2 + seq)); r.Kind != session.KindResponse {
				t.Fatalf("%s", r.Payload)
			}
			if got := f.took("end"); got != k.want {
				t.Errorf("%d bytes: %q, want %q", k.meta, got, k.want)
			}
		}
	})

	t.Run("forged", func(t *testing.T) {
		forged := func(own map[string]string) session.Packet {
			own["zl-flow"] = "\x04\x02hi\x01" // as a node says that a correlation id is "hi", and that one entry follows
			own["zl-push"] = "7"
			q := request(2, "start", jsonOf(t, leg{Tail: tail.ID}))
			var err error
			if q.Meta, err = session.NewMetadata(own); err != nil {
				t.Fatal(err)
			}
			return q
		}
		p := bound(t, a.SessionAddrs()[0].String())
		p.write(forged(map[string]string{}))
		p.read()
		if r := p.answer(2); r.Flow != nil || f.took("start") != "b 0   0" {
			t.Errorf("flow %q, and the handler saw %q", r.Flow, f.took("start"))
		}
		f.seen.clear()
		p.write(inFlow(forged(map[string]string{"k": "v"})))
		p.read()
		echoed(t, p.answer(2), session.KindResponse)
		if got, want := f.took("start"), "b "+whole+" 6"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		meta, err := session.NewMetadata(map[string]string{"zl-x": "1"})
		if err != nil {
			t.Fatal(err)
		}
		wantKind(t, a.Actor(head.ID).With(meta).SendRaw(f.ctx, "late", nil), zlnode.InvalidOperation)
	})

	t.Run("in the log", func(t *testing.T) {
		p := bound(t, a.SessionAddrs()[0].String())
		p.write(inFlow(request(2, "start", jsonOf(t, leg{Fail: true}))))
		p.answer(2)
		f.logged("application code panicked")
	})

	t.Run("of a node's own and of the Go client", func(t *testing.T) {
		f.seen.clear()
		own := zlnode.NewFlow(f.ctx)
		got, err := zlnode.Request[string](zlnode.WithFlow(f.ctx, own), a.Actor(head.ID), "start", leg{Tail: tail.ID})
		if err != nil || got != own.String() || own.Origin() != zlnode.FlowOfNode {
			t.Errorf("%q of %v, want %v: %v", got, own.Origin(), own, err)
		}
		id := client.NewFlow()
		pushes := make(chan string, 1)
		k, err := client.Dial(f.ctx, client.Options{Addr: a.SessionAddrs()[0].String(), OnPush: func(m *client.Message) { pushes <- string(m.Flow) }})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if err := k.RequestJSON(f.ctx, "bind", head, nil); err != nil {
			t.Fatal(err)
		}
		m, err := k.RequestCall(f.ctx, client.Call{Name: "start", Codec: session.CodecJSON, Payload: []byte(jsonOf(t, leg{Tail: tail.ID})), Flow: id})
		if err != nil || !slices.Equal(m.Flow, id) || m.FlowOrigin != 1 || string(m.Payload) != fmt.Sprintf("%q", id) {
			t.Errorf("%+v: %v", m, err)
		}
		if got := receive(t, pushes); got != string(id) {
			t.Errorf("a push has flow %q, want %q", got, id)
		}
	})

	t.Run("saved in a move", func(t *testing.T) {
		p := bound(t, a.SessionAddrs()[0].String())
		spot := f.createSpotAt(a, "c", "room")
		p.write(inFlow(request(2, "start", jsonOf(t, leg{Spot: spot.ID}))))
		p.read()
		echoed(t, p.answer(2), session.KindResponse)
		if got, want := f.took("late"), "c "+whole+" 0"; got != want {
			t.Errorf("behind its move: %q, want %q", got, want)
		}
	})
}
