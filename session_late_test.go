package zlnode_test

import (
	"slices"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// all are the records that the Actor's owner h may send about the binding with that
// generation of m's Session, and the answer to a request of the client.
func (m *moving) all(h *hop, gen, corr uint64) []wire.Record {
	push := m.push("late")
	push.BindingGen = gen
	drained := m.drained()
	drained.BindingGen = gen
	commit, abort := m.end(m.new), m.end(m.old)
	commit.Ref, abort.Ref = h.wire(), h.wire()
	commit.BindingGen, abort.BindingGen = gen, gen
	replaced := *m.replaced()
	replaced.BindingGen = gen
	end := wire.BindingEnded(replaced)
	ask := &wire.SessionClose{BindingName: end.BindingName, Text: []byte("late")}
	return []wire.Record{
		push, drained, commit, abort, &replaced, &end, ask,
		&wire.Reply{Correlation: corr, Codec: 1, Payload: []byte("late")}, &wire.ErrorReply{Correlation: corr, Kind: 5},
	}
}

// The Actor's node is lost and comes back. Nothing over the new link reaches the binding, or
// a request, of the old one; a new bind has a generation of its own.
// req: FO-08
func TestNothingOfALostLinkIsUsedAgain(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		m.client.write(request(2, "note", "2"))
		corr := m.old.packet("2").Correlation
		m.old.send(&wire.Goodbye{Reason: wire.GoodbyeShutdown})
		m.old.end()
		unavailable := func(seq uint64) {
			t.Helper()
			p := m.client.answer(seq)
			if kind, _, err := session.ParseErrorBody(p.Payload); p.Kind != session.KindError || err != nil || kind != zlnode.Unavailable {
				t.Errorf("%v to %d: %s", p.Kind, seq, p.Payload)
			}
		}
		unavailable(2)
		back := m.hop("b-old", m.old.ref)
		back.send(m.all(back, m.gen, corr)...)
		back.quiet()
		m.client.write(request(3, "note", "3"))
		unavailable(3)
		back.quiet()

		b := m.client.bind(back, 4)
		if b.Again || b.BindingGen <= m.gen || b.Session != m.session {
			t.Errorf("bound by %+v, the binding before was %d", b, m.gen)
		}
		back.send(m.all(back, m.gen, corr)...)
		back.quiet()
		m.gen = b.BindingGen
		m.client.write(send("note", "5"))
		back.packet("5")
		back.send(m.push("6"))
		m.shows("6")
		if got := append(m.journal.of("notice"), m.journal.of("replaced")...); !slices.Equal(got, []string{"ended a avatar"}) {
			t.Errorf("the session heard %v", got)
		}
	})
}

// What the Actor's owner says late of a Session that is over touches none of the client's
// next one, which has the Actor by a binding of its own.
// req: FO-15
func TestLateWordForASessionThatIsOverTouchesNoOther(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		m.client.write(request(2, "note", "2"))
		corr := m.old.packet("2").Correlation
		m.client.conn.Close()
		receive(t, m.closed)
		if u, ok := m.old.read().(*wire.Unbind); !ok || u.Session != m.session || u.BindingGen != m.gen {
			t.Errorf("%+v came, want the end of the binding", u)
		}
		oldSession, oldGen := m.session, m.gen
		m.client = m.stream(t)
		b := m.client.bind(m.old, 1)
		for _, late := range []struct{ session, gen uint64 }{{oldSession, oldGen}, {oldSession, b.BindingGen}, {b.Session, oldGen}} {
			m.session = late.session
			m.old.send(m.all(m.old, late.gen, corr)...)
			m.new.send(m.all(m.new, late.gen, corr)...)
			for _, h := range []*hop{m.old, m.new} { // a commit for a Session that is over is answered
				if late.session == oldSession {
					if u, ok := h.read().(*wire.Unbind); !ok || u.Session != oldSession || u.BindingGen != late.gen {
						t.Errorf("%+v came, want the end of the old session's binding", u)
					}
				}
				h.quiet()
			}
		}
		m.session, m.gen = b.Session, b.BindingGen
		m.client.write(request(3, "note", "3"), send("note", "4"))
		p := m.old.packet("3")
		m.old.packet("4")
		m.old.send(m.push("5"), &wire.Reply{Correlation: p.Correlation, Codec: 1, Payload: []byte("33")})
		m.shows("5", "33")
		if got := append(m.journal.of("notice"), m.journal.of("replaced")...); len(got) != 0 {
			t.Errorf("the session heard %v", got)
		}
	})
}

// A gateway is dead, and its RID comes back as another process; its client has come in by
// another gateway. What is sent in the name of the old Session, over the old link at the
// last moment or over the new one, reaches neither the Actor nor its binding.
// req: FO-15
func TestADeadGatewaysLateRecordsTouchNothing(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		ref := s.create("a")
		exact := wire.Ref{
			ID: []byte(ref.ID), ObjGen: ref.ObjectGen, Mesh: []byte(ref.Mesh), RID: []byte(ref.RID), Lifecycle: ref.Lifecycle, OwnerGen: ref.OwnerGen,
		}
		late := func(p *peer, session, gen, corr uint64) {
			t.Helper()
			id := []byte("a")
			binding := wire.BindingName{ID: id, ObjGen: ref.ObjectGen, Session: session, BindingGen: gen}
			p.send(
				&wire.SessionReconnecting{BindingName: binding},
				&wire.Unbind{BindingName: binding, Reason: wire.UnbindClosed},
				&wire.SessionPacket{ID: id, ObjGen: ref.ObjectGen, Session: session, BindingGen: gen, Name: []byte("note"), Codec: 1, Payload: []byte("1")},
				&wire.SessionSealed{Correlation: corr}, &wire.Reply{Correlation: corr}, &wire.ErrorReply{Correlation: corr, Kind: 5},
				&wire.SessionPacket{
					ID: id, ObjGen: ref.ObjectGen, Session: session, BindingGen: gen, Correlation: 90, DeadlineMS: 10_000,
					Name: []byte("note"), Codec: 1, Payload: []byte("2"),
				},
				&wire.Unbind{Correlation: 91, BindingName: binding, Reason: wire.UnbindDisconnected},
				&wire.Bind{Correlation: 92, Again: true, Ref: exact, Session: session, BindingGen: gen},
			)
			for i, kind := range []zlnode.Kind{zlnode.InvalidOperation, zlnode.NotFound, zlnode.InvalidOperation} {
				if e, ok := p.read().(*wire.ErrorReply); !ok || e.Correlation != uint64(90+i) || zlnode.Kind(e.Kind) != kind {
					t.Errorf("%+v, want an error of kind %v to %d", e, kind, 90+i)
				}
			}
		}
		dead := s.member(t)
		dead.send(&wire.Bind{Correlation: 1, Ref: exact, Session: 1, BindingGen: 1})
		if r, ok := dead.read().(*wire.Reply); !ok || r.Correlation != 1 {
			t.Fatalf("%+v, want the actor bound", r)
		}
		p := s.dial(t)
		p.login("a")
		if r, ok := dead.read().(*wire.BindingReplaced); !ok || r.Session != 1 || r.BindingGen != 1 || string(r.ID) != "a" {
			t.Errorf("%+v came, want the notice", r)
		}
		late(dead, 1, 1, 7)
		dead.conn.Close()
		back := s.member(t)
		for _, of := range []struct{ session, gen uint64 }{{1, 1}, {1, 2}, {2, 1}} {
			late(back, of.session, of.gen, 7)
		}
		if n, err := p.ask("note", 3); n != 3 || err != nil {
			t.Error(n, err)
		}
		if _, err := s.ask("a", "tick", 1); err != nil {
			t.Error(err)
		}
		pushed[int](p, "tick")
		if notes := s.journal.of("note"); !slices.Equal(notes, []string{"3"}) {
			t.Errorf("executed %v", notes)
		}
		if away, err := zlnode.Request[bool](s.ctx, s.gateway.Actor("a"), "away", struct{}{}); away || err != nil {
			t.Errorf("away is %v, %v", away, err)
		}
		if got := append(s.journal.of("client"), s.journal.of("replaced")...); len(got) != 0 {
			t.Errorf("a lost client of %v", got)
		}
	})
}
