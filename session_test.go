package zlnode_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
)

// stage is a node that clients connect to, the gateway, and the node that their
// Actors live on, the owner: the same one, or one that the gateway has a link to.
type stage struct {
	*world
	gateway, owner *zlnode.Node
	gate           *gate
	journal        *journal
	closed         chan zlnode.Disconnect      // what OnDisconnect was told, each time it ran
	aside          chan *zlnode.SessionContext // of Sessions that were asked for it
	replacing      atomic.Pointer[gate]        // where each OnReplaced stops; nil: it goes on
}

// onEachStage runs f where the Actors live on the gateway and where they do not.
func onEachStage(t *testing.T, f func(t *testing.T, s *stage)) {
	onEachStageWith(t, func(*zlnode.Config) {}, f)
}

// onEachStageInTurn is onEachStage for what computes more than it waits: nothing runs beside it.
func onEachStageInTurn(t *testing.T, f func(t *testing.T, s *stage)) {
	onEachStoreInTurn(t, func(t *testing.T, w *world) { onStages(t, w, func(*zlnode.Config) {}, f) })
}

// onEachStageWith is onEachStage with a change of the gateway's configuration.
func onEachStageWith(t *testing.T, change func(*zlnode.Config), f func(t *testing.T, s *stage)) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) { onStages(t, w, change, f) })
}

func onStages(t *testing.T, w *world, change func(*zlnode.Config), f func(t *testing.T, s *stage)) {
	for _, place := range []string{"local", "remote"} {
		t.Run(place, func(t *testing.T) {
			s := newStage(newWorld(t, w.url))
			if place == "local" {
				s.gateway = s.startWith(zlnode.Config{RID: "a-both", Role: zlnode.RoleServer}, change)
				s.owner = s.gateway
			} else {
				s.owner = s.server("b-owner", s.app())
				s.gateway = s.startWith(zlnode.Config{RID: "a-gateway", Role: zlnode.RoleClient}, change)
				s.linked(s.gateway, 1)
			}
			f(t, s)
		})
	}
}

// startWith starts a node with a session port.
func (s *stage) startWith(c zlnode.Config, change func(*zlnode.Config)) *zlnode.Node {
	s.t.Helper()
	c.Sessions = []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "player"}}
	change(&c)
	return s.start(c, s.app())
}

// newGateway starts a gateway without Actors and waits for its links.
func (s *stage) newGateway(rid string, servers int) *zlnode.Node {
	s.t.Helper()
	n := s.startWith(zlnode.Config{RID: rid, Role: zlnode.RoleClient}, func(*zlnode.Config) {})
	s.linked(n, servers)
	return n
}

func newStage(w *world) *stage {
	return &stage{world: w, gate: newGate(), journal: &journal{}, closed: make(chan zlnode.Disconnect, 1000), aside: make(chan *zlnode.SessionContext, 1)}
}

// holdReplaced has each OnReplaced stop before the gate.
func (s *stage) holdReplaced() *gate {
	g := newGate()
	s.replacing.Store(g)
	return g
}

// create makes an Actor of the stage's type at the owner.
func (s *stage) create(id string) zlnode.ActorRef {
	s.t.Helper()
	r, err := s.gateway.CreateActor(s.ctx, zlnode.CreateActor{ID: id, Type: "avatar"})
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Ref
}

// ask sends an Actor a request that has nothing to do with a Session.
func (s *stage) ask(id, packet string, q any) (int, error) {
	return zlnode.Request[int](s.ctx, s.gateway.Actor(id), packet, q)
}

// await looks again and again, with a round trip through both nodes in between,
// until the condition holds.
func (s *stage) await(what string, condition func() bool) {
	s.t.Helper()
	if _, err := s.gateway.GetOrCreateActor(s.ctx, zlnode.CreateActor{ID: "bystander", Type: "avatar"}); err != nil {
		s.t.Fatal(err)
	}
	for !condition() {
		if _, err := s.ask("bystander", "bound", nil); err != nil {
			s.t.Fatalf("%s: not seen, and now %v", what, err)
		}
	}
}

// journal is what happened in all Actors and Sessions of a stage, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// clear forgets all lines.
func (j *journal) clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = nil
}

// of returns the lines that begin with a word, without it.
func (j *journal) of(word string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []string
	for _, l := range j.lines {
		if rest, ok := strings.CutPrefix(l, word+" "); ok {
			out = append(out, rest)
		}
	}
	return out
}

// avatar is the Actor behind a client.
type avatar struct{ pushed int }

// visitor is a Session.
type visitor struct{}

type login struct{ ID string }

// app is what the nodes of a stage run. The client's packets that it names in
// relayed go to the Session's avatar.
func (s *stage) app() *zlnode.App {
	app := zlnode.NewApp()
	s.defineAvatar(app)
	zlnode.DefineEntrySpot(app, func(*zlnode.SpotContext) (*lobby, error) { return &lobby{s.journal}, nil })
	v := zlnode.DefineSession(app, "player", func(*zlnode.SessionContext) (*visitor, error) { return &visitor{}, nil })
	for _, packet := range relayed {
		zlnode.Relay(v, packet, "avatar")
	}
	zlnode.Relay(v, "add", "counter") // which lives in processes that a test kills
	zlnode.OnPacketRequest(v, "login", func(c *zlnode.SessionCall, _ *visitor, l login) (zlnode.ActorRef, error) {
		r, err := c.Node().GetOrCreateActor(c, zlnode.CreateActor{ID: l.ID, Type: "avatar"})
		if err != nil {
			return zlnode.ActorRef{}, err
		}
		return r.Ref, c.Bind(r.Ref)
	})
	zlnode.OnPacketRequest(v, "bind", func(c *zlnode.SessionCall, _ *visitor, ref zlnode.ActorRef) (string, error) {
		return "bound", c.Bind(ref)
	})
	zlnode.OnPacketRequest(v, "bind at once", func(c *zlnode.SessionCall, _ *visitor, q bindSpam) (int, error) { return s.bindAtOnce(c, q) })
	zlnode.OnPacketRequest(v, "wait", func(*zlnode.SessionCall, *visitor, struct{}) (string, error) {
		s.gate.pass()
		return "waited", nil
	})
	zlnode.OnPacket(v, "mark", func(_ *zlnode.SessionCall, _ *visitor, n int) error {
		s.journal.add("mark %d", n)
		return nil
	})
	zlnode.OnPacketRequest(v, "mark", func(_ *zlnode.SessionCall, _ *visitor, n int) (int, error) {
		s.journal.add("mark %d", n)
		return n, nil
	})
	zlnode.OnPacketRequest(v, "quit", func(c *zlnode.SessionCall, _ *visitor, text string) (int, error) {
		err := c.Session().Push("farewell", text)
		c.Session().Close(text)
		return 0, err
	})
	zlnode.OnPacketRequest(v, "blow session", func(_ *zlnode.SessionCall, _ *visitor, n int) (string, error) {
		return strings.Repeat("x", n), nil
	})
	zlnode.OnPacketRequest(v, "push to self", func(c *zlnode.SessionCall, _ *visitor, n int) (int, error) {
		return n, c.Session().PushRaw("flood", make([]byte, n))
	})
	zlnode.OnPacketRequest(v, "fail in session", func(_ *zlnode.SessionCall, _ *visitor, how string) (int, error) { return 0, failure(how) })
	s.defineBindings(v)
	defineResuming(v)
	zlnode.OnReplaced(v, func(c *zlnode.SessionCall, _ *visitor, actor zlnode.ActorRef) {
		s.journal.add("replaced %s", actor.ID)
		_ = c.Session().Push("replaced", actor.ID) // its client may be gone
		if g := s.replacing.Load(); g != nil {
			g.pass()
		}
	})
	zlnode.OnNotice(v, func(_ *zlnode.SessionCall, _ *visitor, n zlnode.Notice) {
		s.journal.add("notice %v %s %s", n.Kind, n.Actor.ID, n.Type)
	})
	zlnode.OnDisconnect(v, func(_ *zlnode.SessionCall, _ *visitor, why zlnode.Disconnect) { s.closed <- why })
	return app
}

// relayed are the packets of clients that go to their avatar.
var relayed = []string{"note", "echo", "greet", "tick", "fail in actor", "stop", "chat", "zipped", "closing", "ping-me", "err", "push", "flood", "blow"}

func (s *stage) defineAvatar(app *zlnode.App) {
	a := zlnode.DefineActor(app, "avatar", func(*zlnode.ActorContext) (*avatar, error) { return &avatar{}, nil }, zlnode.DisableRelocation)
	zlnode.OnSend(a, "note", func(_ *zlnode.ActorCall, _ *avatar, n int) error {
		s.journal.add("note %d", n)
		return nil
	})
	zlnode.OnRequest(a, "note", func(_ *zlnode.ActorCall, _ *avatar, n int) (int, error) {
		s.journal.add("note %d", n)
		return n, nil
	})
	zlnode.OnRequestRaw(a, "echo", func(_ *zlnode.ActorCall, _ *avatar, payload []byte) ([]byte, error) { return payload, nil })
	zlnode.OnSend(a, "greet", func(c *zlnode.ActorCall, _ *avatar, _ string) error {
		err := c.Push("welcome", c.Actor().ID())
		s.journal.add("greeted %v", err)
		return err
	})
	zlnode.OnRequest(a, "fail in actor", func(_ *zlnode.ActorCall, _ *avatar, how string) (int, error) { return 0, failure(how) })
	zlnode.OnRequest(a, "stop", func(*zlnode.ActorCall, *avatar, struct{}) (int, error) {
		s.gate.pass()
		return 1, nil
	})
	// tick pushes that many numbers, from where the last tick ended.
	zlnode.OnRequest(a, "tick", func(c *zlnode.ActorCall, a *avatar, n int) (int, error) {
		for range n {
			if err := c.Push("tick", a.pushed); err != nil {
				return a.pushed, err
			}
			a.pushed++
		}
		return a.pushed, nil
	})
	zlnode.OnRequest(a, "bound", func(c *zlnode.ActorCall, _ *avatar, _ struct{}) (int, error) {
		if c.Bound() {
			return 1, nil
		}
		return 0, nil
	})
	zlnode.OnRequest(a, "away", func(c *zlnode.ActorCall, _ *avatar, _ struct{}) (bool, error) { return c.Reconnecting(), nil })
	zlnode.OnSendRaw(a, "swallow", func(_ *zlnode.ActorCall, _ *avatar, payload []byte) error {
		s.journal.add("swallowed %d", len(payload))
		return nil
	})
	zlnode.OnRequest(a, "blow", func(_ *zlnode.ActorCall, _ *avatar, n int) (string, error) { return strings.Repeat("x", n), nil })
	// flood pushes that many bytes at once.
	zlnode.OnRequest(a, "flood", func(c *zlnode.ActorCall, _ *avatar, n int) (int, error) {
		return n, c.PushRaw("flood", make([]byte, n))
	})
	s.defineBound(a)
	// Packets of the recorded connector; their journal says what the Actor sees.
	for _, packet := range []string{"chat", "closing", "ping-me", "push"} {
		zlnode.OnSendRaw(a, packet, func(c *zlnode.ActorCall, _ *avatar, payload []byte) error {
			s.journal.add("seen %s", describe(c, payload))
			return nil
		})
	}
	for _, packet := range []string{"zipped", "err"} {
		zlnode.OnRequestRaw(a, packet, func(c *zlnode.ActorCall, _ *avatar, payload []byte) ([]byte, error) {
			s.journal.add("seen %s", describe(c, payload))
			return payload, nil
		})
	}
}

// describe tells all that an Actor sees of a client's packet.
func describe(c *zlnode.ActorCall, payload []byte) string {
	var meta []string
	for k, v := range c.Metadata().All() {
		meta = append(meta, string(k)+"="+string(v))
	}
	slices.Sort(meta)
	return fmt.Sprintf("%s codec=%d meta=%v session=%v payload=%q", c.Packet(), c.Codec(), meta, c.FromSession(), payload)
}

func failure(how string) error {
	switch how {
	case "panic":
		panic("secret in a panic")
	case "plain":
		return errors.New("secret in an error")
	case "exit":
		runtime.Goexit()
	}
	return zlnode.Errorf(zlnode.Rejected, "you may not")
}

// player is a client of the gateway.
type player struct {
	*client.Client
	t      *testing.T
	pushes chan *client.Message
	lost   chan error // why the connection ended; at most one
	missed atomic.Int64
}

func (s *stage) dial(t *testing.T) *player {
	t.Helper()
	p := &player{t: t, pushes: make(chan *client.Message, 10_000), lost: make(chan error, 1)}
	c, err := client.Dial(s.ctx, client.Options{
		Addr: s.gateway.SessionAddrs()[0].String(), RequestTimeout: 20 * time.Second,
		OnPush: func(m *client.Message) {
			select {
			case p.pushes <- m.Clone():
			default:
				p.missed.Add(1)
			}
		},
		OnState: func(_ client.State, err error) { p.lost <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Client = c
	t.Cleanup(func() {
		c.Close()
		if n := p.missed.Load(); n > 0 {
			t.Errorf("the test had no room for %d pushes", n)
		}
	})
	return p
}

// login binds the client's Session to the Actor of that id, which is created if
// it is not there.
func (p *player) login(id string) zlnode.ActorRef {
	p.t.Helper()
	var ref zlnode.ActorRef
	if err := p.RequestJSON(p.t.Context(), "login", login{id}, &ref); err != nil {
		p.t.Fatal(err)
	}
	return ref
}

// bind binds the Session to what ref names.
func (p *player) bind(ref zlnode.ActorRef) error {
	return p.RequestJSON(p.t.Context(), "bind", ref, nil)
}

// ask sends a request whose reply is a number.
func (p *player) ask(packet string, q any) (n int, err error) {
	err = p.RequestJSON(p.t.Context(), packet, q, &n)
	return n, err
}

// pushed returns the next push, which must have that name.
func pushed[T any](p *player, name string) (v T) {
	p.t.Helper()
	m := receive(p.t, p.pushes)
	if m.Name != name {
		p.t.Fatalf("push %q, want %q", m.Name, name)
	}
	if err := m.JSON(&v); err != nil {
		p.t.Fatal(err)
	}
	return v
}

// errorFrame returns the Error frame that ended a client's request.
func errorFrame(err error) (*client.RemoteError, bool) {
	return errors.AsType[*client.RemoteError](err)
}

// wantRemote fails the test unless err is an Error frame of that kind.
func wantRemote(t *testing.T, err error, kind zlnode.Kind) {
	t.Helper()
	remote, ok := errorFrame(err)
	if !ok {
		t.Fatalf("%v, want an Error frame of kind %v", err, kind)
	}
	if remote.Kind != kind || remote.Message == "" {
		t.Fatalf("kind %v, want %v with a text: %v", remote.Kind, kind, err)
	}
}
