package zlnode_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/session"
)

// The Session that had the Actor is told, and takes no more input; nobody waits for it.
func TestASecondSessionTakesTheActorAtOnce(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		g := s.holdReplaced()
		first, second := s.dial(t), s.dial(t)
		ref := first.login("a")
		if again := second.login("a"); again != ref {
			t.Fatalf("%+v, want %+v", again, ref)
		}
		if _, err := s.ask("a", "tick", 2); err != nil {
			t.Fatal(err)
		}
		if n, err := second.ask("tick", 1); err != nil || n != 3 {
			t.Fatal(n, err)
		}
		for want := range 3 {
			if got := pushed[int](second, "tick"); got != want {
				t.Errorf("push %d came at place %d", got, want)
			}
		}
		receive(t, g.entered)
		if err := first.SendJSON(s.ctx, "note", 1); err != nil {
			t.Fatal(err)
		}
		_, err := first.ask("note", 2)
		wantRemote(t, err, zlnode.InvalidOperation)
		if id := pushed[string](first, "replaced"); id != "a" || len(first.pushes) != 0 {
			t.Errorf("the first session had its push for %q, and %d more", id, len(first.pushes))
		}
		if notes := s.journal.of("note"); len(notes) != 0 {
			t.Errorf("executed %v", notes)
		}
		if n := s.gateway.Stats().Dropped; n != 1 {
			t.Errorf("%d messages counted as dropped, want 1", n)
		}
		close(g.open)
	})
}

// The end of the Session that was bound before touches nothing of the one that
// is bound now.
func TestALateUnbindEndsNoNewerBinding(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		first, second := s.dial(t), s.dial(t)
		first.login("a")
		second.login("a")
		first.Close()
		receive(t, s.closed) // what it tells the Actor's owner is on its way, ahead of what follows
		if _, err := s.ask("a", "tick", 1); err != nil {
			t.Fatal(err)
		}
		pushed[int](second, "tick")
		if n, err := second.ask("note", 7); err != nil || n != 7 {
			t.Error(n, err)
		}
	})
}

// Binding the same Actor again does nothing: no packet around it is refused, no
// push is lost, and another Actor that was bound since stays the latest.
func TestBindingTheSameActorAgainDoesNothing(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`))
		ref := string(c.answer(1).Payload)
		const rounds = 30
		var packets []session.Packet
		for i := range uint64(rounds) {
			packets = append(packets, request(3*i+2, "tick", "1"), request(3*i+3, "bind", ref), request(3*i+4, "note", fmt.Sprint(i)))
		}
		c.write(packets...)
		ticks := 0
		for last := false; !last; {
			switch p := c.read(); p.Kind {
			case session.KindResponse:
				last = p.Seq == 3*rounds+1
			case session.KindSend:
				if string(p.Payload) != fmt.Sprint(ticks) {
					t.Fatalf("push %s at place %d", p.Payload, ticks)
				}
				ticks++
			default:
				t.Fatalf("%v to %d: %s", p.Kind, p.Seq, p.Payload)
			}
		}
		if ticks != rounds {
			t.Errorf("%d of %d pushes came", ticks, rounds)
		}
		c.write(request(1000, "login", `{"ID":"b"}`))
		c.answer(1000)
		c.write(request(1001, "bind", ref), send("greet", `""`), request(1002, "note", "99"))
		c.answer(1001)
		if p := c.read(); string(p.Payload) != `"b"` {
			t.Errorf("the packet went to %s, want the Actor that was bound last", p.Payload)
		}
		c.answer(1002)
	})
}

func TestAPacketGoesToTheActorThatWasBoundLast(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		p := s.dial(t)
		for _, id := range []string{"a", "b", "c"} {
			p.login(id)
			if err := p.SendJSON(s.ctx, "greet", ""); err != nil {
				t.Fatal(err)
			}
			if got := pushed[string](p, "welcome"); got != id {
				t.Errorf("%s greets, want %s", got, id)
			}
		}
		for _, id := range []string{"a", "b", "c"} { // all of them may push
			if _, err := s.ask(id, "tick", 1); err != nil {
				t.Error(err)
			}
			pushed[int](p, "tick")
		}
	})
}

func TestADisconnectEndsBindingAndSession(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		staying := s.dial(t)
		staying.login("other")
		p := s.dial(t)
		for i := range 5 {
			p.login(fmt.Sprint("a", i))
		}
		p.Close()
		for i := range 5 {
			_, err := s.ask(fmt.Sprint("a", i), "tick", 1)
			for err == nil || zlnode.KindOf(err) == zlnode.Unavailable { // the session is ending
				_, err = s.ask(fmt.Sprint("a", i), "tick", 1)
			}
			wantKind(t, err, zlnode.InvalidOperation)
			n, err := s.ask(fmt.Sprint("a", i), "bound", nil)
			for n != 0 && err == nil { // the Actor's side may learn it a little later
				n, err = s.ask(fmt.Sprint("a", i), "bound", nil)
			}
			if err != nil {
				t.Errorf("still bound: %v", err)
			}
		}
		receive(t, s.closed)
		if n := s.gateway.Stats().Sessions; n != 1 {
			t.Errorf("%d sessions are left, want the other client's", n)
		}
		staying.Close()
		receive(t, s.closed)
		s.await("no session", func() bool { return s.gateway.Stats().Sessions == 0 })
		if n := len(s.closed); n != 0 {
			t.Errorf("OnDisconnect ran %d times too often", n)
		}
	})
}

// What a client sent before it went away is executed.
func TestPacketsBeforeADisconnectAreExecuted(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		var packets []session.Packet
		packets = append(packets, request(1, "login", `{"ID":"a"}`))
		var want []string
		for i := range 100 {
			packets = append(packets, send("mark", fmt.Sprint(i)))
			want = append(want, fmt.Sprint(i))
		}
		b := frames(t, packets...)
		c.writeBytes(session.AppendClosing(b, session.ClientClose, "bye"))
		if e := c.end(); !e.told || e.reason != session.ClientClose || !e.orderly {
			t.Errorf("the server ended with %+v", e)
		}
		c.conn.Close()
		receive(t, s.closed)
		if got := s.journal.of("mark"); !slices.Equal(got, want) {
			t.Errorf("executed %v", got)
		}
	})
}

// req: FO-16
func TestARecreatedActorNeedsANewBinding(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		p := s.dial(t)
		old := p.login("a")
		if ok, err := s.gateway.DestroyActor(s.ctx, old); !ok || err != nil {
			t.Fatal(ok, err)
		}
		_, err := p.ask("note", 1)
		if kind := zlnode.KindOf(wantError(t, err)); kind != zlnode.NotFound && kind != zlnode.Unavailable {
			t.Errorf("relay to a destroyed actor: %v", err)
		}
		err = p.bind(old)
		if kind := zlnode.KindOf(wantError(t, err)); kind != zlnode.NotFound && kind != zlnode.Unavailable {
			t.Errorf("bind to a destroyed actor: %v", err)
		}
		ref := s.create("a")
		if ref.ObjectGen <= old.ObjectGen {
			t.Fatalf("incarnation %d after %d", ref.ObjectGen, old.ObjectGen)
		}
		if _, err = p.ask("note", 2); err == nil {
			t.Error("the old binding reached the new incarnation")
		}
		_, err = s.ask("a", "tick", 1)
		wantKind(t, err, zlnode.InvalidOperation)
		wantRemote(t, p.bind(old), zlnode.InvalidOperation)
		if notes := s.journal.of("note"); len(notes) != 0 {
			t.Errorf("executed %v", notes)
		}
		if err := p.bind(ref); err != nil {
			t.Fatal(err)
		}
		if n, err := p.ask("tick", 1); n != 1 || err != nil {
			t.Error(n, err)
		}
		pushed[int](p, "tick")
	})
}

func TestOnlyAnExactRefCanBeBound(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		exact := s.create("a")
		p := s.dial(t)
		for name, c := range map[string]struct {
			change func(*zlnode.ActorRef)
			kind   zlnode.Kind
		}{
			"no id":               {func(r *zlnode.ActorRef) { r.ID = "" }, zlnode.InvalidOperation},
			"no incarnation":      {func(r *zlnode.ActorRef) { r.ObjectGen = 0 }, zlnode.InvalidOperation},
			"no mesh":             {func(r *zlnode.ActorRef) { r.Mesh = "" }, zlnode.InvalidOperation},
			"no node":             {func(r *zlnode.ActorRef) { r.RID = "" }, zlnode.InvalidOperation},
			"no lifecycle":        {func(r *zlnode.ActorRef) { r.Lifecycle = 0 }, zlnode.InvalidOperation},
			"no owner generation": {func(r *zlnode.ActorRef) { r.OwnerGen = 0 }, zlnode.InvalidOperation},
			"impossible number":   {func(r *zlnode.ActorRef) { r.OwnerGen = 1 << 63 }, zlnode.InvalidOperation},
			"another incarnation": {func(r *zlnode.ActorRef) { r.ObjectGen++ }, zlnode.InvalidOperation},
			"another id":          {func(r *zlnode.ActorRef) { r.ID = "nobody" }, zlnode.Unavailable},
			"another node":        {func(r *zlnode.ActorRef) { r.RID = "z-nobody" }, zlnode.Unavailable},
			"another process":     {func(r *zlnode.ActorRef) { r.Lifecycle++ }, zlnode.Unavailable},
			"another owner":       {func(r *zlnode.ActorRef) { r.OwnerGen++ }, zlnode.Unavailable},
		} {
			ref := exact
			c.change(&ref)
			if err := wantError(t, p.bind(ref)); zlnode.KindOf(err) != c.kind {
				t.Errorf("%s: %v, want %v", name, err, c.kind)
			}
			if n, err := s.ask("a", "bound", nil); n != 0 || err != nil {
				t.Fatalf("%s: %d %v", name, n, err)
			}
		}
		if err := p.bind(exact); err != nil {
			t.Error(err)
		}
	})
}

// wantError fails the test if err is nil. It gives an Error frame the form that
// zlnode.KindOf knows.
func wantError(t *testing.T, err error) error {
	t.Helper()
	remote, ok := errorFrame(err)
	if !ok {
		t.Fatalf("%v, want an Error frame", err)
	}
	return remote.Kind
}
