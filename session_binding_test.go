package zlnode_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// choice is a packet that the client wants to have forwarded to an Actor.
type choice struct {
	To []string
	N  int
}

// defineBindings registers what Sessions of the stage do with their bindings.
func (s *stage) defineBindings(v *zlnode.SessionType[visitor]) {
	zlnode.OnPacketRequest(v, "part", func(c *zlnode.SessionCall, _ *visitor, id string) (string, error) {
		return "parted", c.Session().NotifyDisconnected(c, id)
	})
	zlnode.OnPacketRequest(v, "aside", func(c *zlnode.SessionCall, _ *visitor, _ struct{}) (int, error) {
		s.aside <- c.Session()
		return 0, nil
	})
	zlnode.OnPacketRequest(v, "bind or get", func(c *zlnode.SessionCall, _ *visitor, a zlnode.CreateActor) (zlnode.ActorRef, error) {
		return c.BindOrGet(a.Type, a.ID, a.Request)
	})
	zlnode.OnPacketRequest(v, "bindings", func(c *zlnode.SessionCall, _ *visitor, typ string) ([]string, error) {
		latest, _ := c.Session().Binding(typ)
		ids := []string{latest.ID}
		for _, ref := range c.Session().Bindings() {
			ids = append(ids, ref.ID)
		}
		slices.Sort(ids[1:])
		return ids, nil
	})
	forward := func(c *zlnode.SessionCall, payload []byte) error {
		var to choice
		if err := json.Unmarshal(payload, &to); err != nil {
			return err
		}
		for _, id := range to.To {
			if err := c.Forward(id); err != nil {
				return err
			}
		}
		return nil
	}
	zlnode.OnPacketRaw(v, "chosen", func(c *zlnode.SessionCall, _ *visitor, payload []byte) error { return forward(c, payload) })
	zlnode.OnPacketRequestRaw(v, "chosen", func(c *zlnode.SessionCall, _ *visitor, payload []byte) ([]byte, error) {
		return []byte("the handler's own"), forward(c, payload)
	})
}

// defineBound registers what the stage's Actors do with their Session.
func (s *stage) defineBound(a *zlnode.ActorType[avatar]) {
	zlnode.OnSend(a, "chosen", func(c *zlnode.ActorCall, _ *avatar, m choice) error {
		s.journal.add("chosen %s %d %v", c.Actor().ID(), m.N, c.FromSession())
		return nil
	})
	zlnode.OnRequest(a, "chosen", func(c *zlnode.ActorCall, _ *avatar, m choice) (string, error) {
		s.journal.add("chosen %s %d %v", c.Actor().ID(), m.N, c.FromSession())
		return fmt.Sprint(c.Actor().ID(), " ", m.N), nil
	})
	zlnode.OnRequest(a, "whose", func(c *zlnode.ActorCall, _ *avatar, _ struct{}) (zlnode.SessionRef, error) {
		ref, ok := c.Session()
		if ok != (ref != zlnode.SessionRef{}) {
			return ref, errors.New("a session without a name")
		}
		return ref, nil
	})
	zlnode.OnRequest(a, "kick", func(c *zlnode.ActorCall, a *avatar, text string) (int, error) {
		if err := c.Push("tick", a.pushed); err != nil {
			return 0, err
		}
		return 0, errors.Join(c.CloseSession(text), c.CloseSession(text))
	})
}

// bindings returns the ids of the Session's Actors, and first that of the latest avatar.
func (p *player) bindings() (ids []string) {
	p.t.Helper()
	if err := p.RequestJSON(p.t.Context(), "bindings", "avatar", &ids); err != nil {
		p.t.Fatal(err)
	}
	return ids
}

func (p *player) part(id string) error { return p.RequestJSON(p.t.Context(), "part", id, nil) }

// The end of one binding by the application's word is told once, and when that is over; the
// connection and the other bindings stay.
// req: MB-04
func TestALogicalDisconnectEndsOneBinding(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		p := s.dial(t)
		for _, id := range []string{"a", "bad", "c"} {
			p.login(id)
		}
		for _, id := range []string{"bad", "c"} { // the first one's callback panics
			if err := p.part(id); err != nil {
				t.Fatal(err)
			}
			if got := s.journal.of("disconnected"); !slices.Contains(got, id) {
				t.Errorf("the spot has heard of %v when %s has parted", got, id)
			}
			if bound, err := s.ask(id, "bound", nil); bound != 0 || err != nil {
				t.Errorf("%s is bound %d, %v", id, bound, err)
			}
			wantRemote(t, p.part(id), zlnode.NotFound)
		}
		if got := p.bindings(); !slices.Equal(got, []string{"a", "a"}) {
			t.Errorf("the session has %v", got)
		}
		if n, err := p.ask("note", 1); n != 1 || err != nil {
			t.Error(n, err)
		}
		if _, err := s.ask("c", "tick", 1); zlnode.KindOf(err) != zlnode.InvalidOperation {
			t.Errorf("a push of an actor that has parted: %v", err)
		}
		p.login("bad") // which is another binding
		p.Close()
		got := s.disconnected(4)
		slices.Sort(got[2:])
		if want := []string{"bad", "c", "a", "bad"}; !slices.Equal(got, want) {
			t.Errorf("the spot heard of %v, want %v", got, want)
		}
	})
}

// The link is lost while a logical disconnect is under way: the Session learns it, and the
// Actor's Spot hears of the lost client once.
// req: MB-04
func TestALogicalDisconnectOverALostLinkIsToldOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		s := newStage(w)
		s.owner = s.start(zlnode.Config{RID: "b-owner", Role: zlnode.RoleServer, Advertise: "127.0.0.2"}, s.app())
		road := newProxy(t, s.owner.Endpoint(), "127.0.0.1")
		s.gateway = s.newGateway("a1-gateway", 1)
		p := s.dial(t)
		p.login("a")
		s.gate.stop(t, s.world, s.owner.Actor("a"))
		parted := make(chan error, 1)
		go func() { parted <- p.part("a") }()
		s.await("the end of the binding on its way", func() bool { return road.passed("", wire.CmdUnbind) })
		if _, err := zlnode.Request[int](s.ctx, s.gateway.Actor("bystander"), "bound", struct{}{}); err != nil { // behind it
			t.Fatal(err)
		}
		road.cut("a1-gateway")
		wantRemote(t, receive(t, parted), zlnode.Unavailable)
		close(s.gate.open)
		for len(s.journal.of("disconnected")) == 0 {
			if _, err := zlnode.Request[int](s.ctx, s.owner.Actor("a"), "bound", struct{}{}); err != nil {
				t.Fatal(err)
			}
		}
		p.Close()
		receive(t, s.closed)
		road.open("a1-gateway")
		s.linked(s.gateway, 1)
		if _, err := zlnode.Request[int](s.ctx, s.gateway.Actor("a"), "bound", struct{}{}); err != nil {
			t.Fatal(err)
		}
		if got := s.journal.of("disconnected"); len(got) != 1 {
			t.Errorf("the spot heard of %v", got)
		}
	})
}

func TestBindOrGetBindsWhateverIsThere(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		p := s.dial(t)
		get := func(typ, id string) (ref zlnode.ActorRef, err error) {
			err = p.RequestJSON(s.ctx, "bind or get", zlnode.CreateActor{Type: typ, ID: id}, &ref)
			return ref, err
		}
		there := s.create("a")
		for _, id := range []string{"a", "new", "a", "new"} {
			ref, err := get("avatar", id)
			if err != nil || ref.ID != id || id == "a" && ref != there {
				t.Fatalf("%s: %+v %v", id, ref, err)
			}
			if _, err := s.ask(id, "tick", 1); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			pushed[int](p, "tick")
		}
		if got := p.bindings(); !slices.Equal(got, []string{"new", "a", "new"}) {
			t.Errorf("the session has %v", got)
		}
		_, err := get("counter", "a")
		wantRemote(t, err, zlnode.TypeMismatch)
		_, err = get("counter", "bystander")
		wantRemote(t, err, zlnode.Unavailable) // nobody hosts the type
		if err := p.part("new"); err != nil {
			t.Fatal(err)
		}
		if got := p.bindings(); !slices.Equal(got, []string{"a", "a"}) {
			t.Errorf("the session has %v", got)
		}
	})
}

// A handler chooses the Actor; the answer has the request's own number, and all of a client's
// packets stay in order, those that are relayed by name among them.
func TestAForwardedPacketIsTheChosenActors(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`), request(2, "login", `{"ID":"b"}`))
		c.answer(1)
		c.answer(2)
		chosen := func(n int, to ...string) string { return jsonOf(t, choice{to, n}) }
		const rounds = 50
		var want []string
		for i := range rounds {
			n := 10 * i
			c.write(
				send("chosen", chosen(n, "a", "b")), send("note", fmt.Sprint(n+1)), request(uint64(n+100), "chosen", chosen(n+2, "b")), send("chosen", chosen(n+3, "b")),
			)
			want = append(want, fmt.Sprint("b ", n, " true"), fmt.Sprint("b ", n+2, " true"), fmt.Sprint("b ", n+3, " true"))
		}
		for i := range rounds {
			if p := c.answer(uint64(10*i + 100)); p.Kind != session.KindResponse || string(p.Payload) != fmt.Sprintf(`"b %d"`, 10*i+2) {
				t.Errorf("%v %s", p.Kind, p.Payload)
			}
		}
		for i, to := range []string{"nobody", "a", "a"} {
			seq := uint64(5000 + i)
			c.write(request(seq, "chosen", chosen(0, to, "a")))
			p := c.answer(seq)
			kind, _, err := session.ParseErrorBody(p.Payload)
			switch to {
			case "nobody":
				if err != nil || kind != zlnode.InvalidOperation {
					t.Errorf("to nobody: %v %v", kind, err)
				}
			case "a": // the second time is refused to the handler, whose result does not count
				if p.Kind != session.KindResponse || string(p.Payload) != `"a 0"` {
					t.Errorf("%v %s", p.Kind, p.Payload)
				}
			}
		}
		b := slices.DeleteFunc(s.journal.of("chosen"), func(l string) bool { return !strings.HasPrefix(l, "b") })
		for i, line := range b {
			if i >= len(want) || line != want[i] {
				t.Fatalf("line %d of b is %s", i, line)
			}
		}
		if len(b) != len(want) || len(s.journal.of("note")) != rounds {
			t.Errorf("b has executed %d of %d", len(b), len(want))
		}
	})
}

// An Actor knows its Session by a name that no other one has, and none without.
// req: FO-15
func TestAnActorKnowsItsSession(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		whose := func() zlnode.SessionRef {
			t.Helper()
			ref, err := zlnode.Request[zlnode.SessionRef](s.ctx, s.gateway.Actor("a"), "whose", struct{}{})
			if err != nil {
				t.Fatal(err)
			}
			return ref
		}
		s.create("a")
		seen := map[zlnode.SessionRef]bool{whose(): true}
		for range 3 {
			p := s.dial(t)
			p.login("a")
			ref := whose()
			if seen[ref] || ref.RID != s.gateway.RID() || ref.Lifecycle != s.gateway.Lifecycle() || ref.ID == 0 || ref.Binding == 0 {
				t.Errorf("%+v", ref)
			}
			p.login("a")
			if again := whose(); again != ref {
				t.Errorf("bound again it is %+v, was %+v", again, ref)
			}
			seen[ref] = true
			p.Close()
			receive(t, s.closed)
			s.await("no binding", func() bool { n, err := s.ask("a", "bound", nil); return n == 0 && err == nil })
		}
	})
}

// An Actor has its Session closed, behind what it has pushed.
func TestAnActorEndsItsSession(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c, other := s.stream(t), s.dial(t)
		c.write(request(1, "login", `{"ID":"a"}`))
		c.answer(1)
		other.login("b")
		if _, err := s.ask("a", "kick", "banned"); err != nil {
			t.Fatal(err)
		}
		if p := c.read(); string(p.Name) != "tick" {
			t.Errorf("%q came, want the push", p.Name)
		}
		if e := c.end(); !e.told || !e.orderly || e.reason != session.ServerDrain || e.diag != "kicked: banned" {
			t.Errorf("it ended with %+v", e)
		}
		c.conn.Close()
		if why := receive(t, s.closed); why.Code != zlnode.SessionKicked {
			t.Errorf("OnDisconnect was told %v", why)
		}
		if got := s.disconnected(1); !slices.Equal(got, []string{"a"}) {
			t.Errorf("the spot heard of %v", got)
		}
		_, err := s.ask("a", "kick", "")
		wantKind(t, err, zlnode.InvalidOperation)
		if n, err := other.ask("note", 1); n != 1 || err != nil {
			t.Error(n, err)
		}
		if n := s.gateway.Stats().UpdatesIgnored; n != 0 {
			t.Errorf("%d requests were refused", n)
		}
	})
}

// A binding that is asked for again is ended by another goroutine before the answer comes.
func TestABindingThatEndsWhileItIsAskedForAgainStaysOver(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		m.client.write(request(2, "aside", "{}"))
		m.client.answer(2)
		c := receive(t, m.aside)
		m.client.write(request(3, "bind", jsonOf(t, m.old.ref)))
		b, ok := m.old.read().(*wire.Bind)
		if !ok || !b.Again || b.BindingGen != m.gen {
			t.Fatalf("%+v came, want the bind again", b)
		}
		parted := make(chan error, 1)
		go func() { parted <- c.NotifyDisconnected(m.ctx, "a") }()
		u, ok := m.old.read().(*wire.Unbind)
		if !ok || u.BindingGen != m.gen {
			t.Fatalf("%+v came, want the end of the binding", u)
		}
		m.old.send(&wire.Reply{Correlation: b.Correlation, Payload: []byte("avatar")}, &wire.Reply{Correlation: u.Correlation})
		if err := receive(t, parted); err != nil {
			t.Error(err)
		}
		if kind, _, err := session.ParseErrorBody(m.client.answer(3).Payload); err != nil || kind != zlnode.NotFound {
			t.Errorf("the bind ended with %v %v", kind, err)
		}
		m.client.write(request(4, "note", "4"))
		if kind, _, err := session.ParseErrorBody(m.client.answer(4).Payload); err != nil || kind != zlnode.InvalidOperation {
			t.Errorf("a relay ended with %v %v", kind, err)
		}
		if got := c.Bindings(); len(got) != 0 {
			t.Errorf("the session has %v", got)
		}
		m.old.quiet()
		if b := m.client.bind(m.old, 5); b.Again || b.BindingGen <= m.gen {
			t.Errorf("bound by %+v", b)
		}
	})
}
