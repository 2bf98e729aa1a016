package zlnode_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// hop is a node that an Actor leaves or comes to, spoken by hand.
type hop struct {
	*peer
	ref   zlnode.ActorRef // of the Actor, when it is there
	typ   string
	probe uint64
}

// moving is a gateway with one client, bound to an Actor at a node that is spoken by hand
// and will move the Actor to another one.
type moving struct {
	*stage
	client   *stream
	old, new *hop
	session  uint64
	gen      uint64 // of the binding
}

var moveID = [16]byte{1}

// hop opens a link to the gateway.
func (s *stage) hop(rid string, ref zlnode.ActorRef) *hop {
	s.t.Helper()
	h := &hop{peer: s.peer(s.t), ref: ref, typ: "avatar"}
	h.ref.RID = rid
	config := linkConfig(s.t, func(c *link.Config) { c.RID, c.Window = rid, wire.MinWindow })
	if reason := h.handshake(config, s.gateway.RID()); reason != 0 {
		s.t.Fatalf("refused: %v", reason)
	}
	h.quiet()
	return h
}

// quiet returns when the gateway has taken all that was sent to it. Nothing but the
// answer to that may come.
func (h *hop) quiet() {
	h.t.Helper()
	h.probe++
	h.send(&wire.Probe{ID: h.probe})
	if r, ok := h.read().(*wire.Ack); !ok || r.ID != h.probe {
		h.t.Fatalf("%+v came, want nothing", r)
	}
}

// away reads the word that the client of that binding is away.
func (h *hop) away(session, gen uint64) {
	h.t.Helper()
	r, ok := h.read().(*wire.SessionReconnecting)
	if !ok || string(r.ID) != h.ref.ID || r.ObjGen != h.ref.ObjectGen || r.Session != session || r.BindingGen != gen {
		h.t.Fatalf("%+v came, want the word that the client is away", r)
	}
}

// packet reads a client's packet with that payload.
func (h *hop) packet(payload string) *wire.SessionPacket {
	h.t.Helper()
	p, ok := h.read().(*wire.SessionPacket)
	if !ok || string(p.Payload) != payload {
		h.t.Fatalf("%+v came, want packet %s", p, payload)
	}
	return p
}

func (h *hop) wire() wire.Ref {
	return wire.Ref{
		ID: []byte(h.ref.ID), ObjGen: h.ref.ObjectGen, Mesh: []byte(h.ref.Mesh), RID: []byte(h.ref.RID), Lifecycle: h.ref.Lifecycle, OwnerGen: h.ref.OwnerGen,
	}
}

// bind binds the client to the Actor of h and returns the record that h answered.
func (c *stream) bind(h *hop, seq uint64) *wire.Bind {
	c.t.Helper()
	c.write(request(seq, "bind", jsonOf(c.t, h.ref)))
	b, ok := h.read().(*wire.Bind)
	if !ok {
		c.t.Fatalf("%+v came, want a bind", b)
	}
	h.send(&wire.Reply{Correlation: b.Correlation, Payload: []byte(h.typ)})
	if p := c.answer(seq); p.Kind != session.KindResponse {
		c.t.Fatalf("%s", p.Payload)
	}
	return b
}

func onEachMove(t *testing.T, change func(*zlnode.Config), f func(t *testing.T, m *moving)) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		s := newStage(w)
		s.gateway = s.startWith(zlnode.Config{RID: "a-gateway", Role: zlnode.RoleClient}, func(c *zlnode.Config) {
			c.SendTimeout = 20 * time.Second
			change(c)
		})
		s.owner = s.gateway
		ref := zlnode.ActorRef{ID: "a", ObjectGen: 5, Mesh: "main", Lifecycle: 1, OwnerGen: 8}
		m := &moving{stage: s, client: s.stream(t), old: s.hop("b-old", ref)}
		ref.OwnerGen++
		m.new = s.hop("c-new", ref)
		b := m.client.bind(m.old, 1)
		m.session, m.gen = b.Session, b.BindingGen
		f(t, m)
	})
}

func onEachUsualMove(t *testing.T, f func(t *testing.T, m *moving)) {
	onEachMove(t, func(c *zlnode.Config) { c.SessionRelocationSealTimeout = time.Minute }, f)
}

func (m *moving) sealing() *wire.SessionSeal {
	return &wire.SessionSeal{
		Correlation: 77, Relocation: moveID, Session: m.session, BindingGen: m.gen, ID: []byte("a"), ObjGen: m.old.ref.ObjectGen, OwnerGen: m.old.ref.OwnerGen,
	}
}

func (m *moving) seal() {
	m.t.Helper()
	m.old.send(m.sealing())
	if r, ok := m.old.read().(*wire.SessionSealed); !ok || r.Correlation != 77 {
		m.t.Fatalf("%+v came, want the seal confirmed", r)
	}
}

// end is the record that says that the Actor is at h.
func (m *moving) end(h *hop) *wire.SessionRelocationRoute {
	return &wire.SessionRelocationRoute{
		Commit: h == m.new, Relocation: moveID, Ref: h.wire(), Owner: wire.Process{RID: []byte(m.gateway.RID()), Lifecycle: m.gateway.Lifecycle()},
		Session: m.session, BindingGen: m.gen,
	}
}

func (m *moving) drained() *wire.SourceDrained {
	return &wire.SourceDrained{Relocation: moveID, Session: m.session, BindingGen: m.gen, ID: []byte("a"), ObjGen: m.old.ref.ObjectGen}
}

func (m *moving) push(n string) *wire.Push {
	return &wire.Push{Session: m.session, BindingGen: m.gen, ID: []byte("a"), ObjGen: m.old.ref.ObjectGen, Name: []byte("tick"), Codec: 1, Payload: []byte(n)}
}

// shows fails unless these payloads come to the client, in this order.
func (m *moving) shows(payloads ...string) {
	m.t.Helper()
	for _, want := range payloads {
		if p := m.client.read(); string(p.Payload) != want {
			m.t.Fatalf("%v %q came, want %s", p.Kind, p.Payload, want)
		}
	}
}

// What a client sends while its Actor moves waits, and goes to the new node before
// anything that comes later. Its other Actors and its own handlers notice nothing.
// req: SB-02
// req: SB-05
func TestPacketsWaitForTheirActorsMove(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		other := m.hop("d-other", zlnode.ActorRef{ID: "b", ObjectGen: 6, Mesh: "main", Lifecycle: 1, OwnerGen: 1})
		other.typ = "counter"
		m.client.bind(other, 2)
		m.client.write(send("note", "1"))
		m.old.packet("1")
		m.seal()
		m.client.write(send("note", "2"), request(4, "note", "3"), send("add", "6"), send("note", "4"), request(5, "mark", "5"))
		m.shows("5")
		other.packet("6")
		m.old.quiet()
		m.old.send(m.drained())
		m.new.send(m.end(m.new))
		for _, payload := range []string{"2", "3", "4"} {
			p := m.new.packet(payload)
			if p.Session != m.session || p.BindingGen != m.gen || p.ObjGen != m.new.ref.ObjectGen || string(p.ID) != "a" || string(p.Name) != "note" {
				t.Errorf("%+v", p)
			}
			if p.Correlation != 0 {
				m.new.send(&wire.Reply{Correlation: p.Correlation, Codec: 1, Payload: []byte("33")})
			}
		}
		m.shows("33")
		other.quiet()
		m.old.quiet()
		m.client.bind(m.new, 7) // the Session knows it by its new place, under the same binding
		m.client.write(send("note", "7"))
		m.new.packet("7")
		m.client.write(request(8, "bind", jsonOf(t, m.old.ref)))
		if b, ok := m.old.read().(*wire.Bind); !ok || b.BindingGen == m.gen {
			t.Errorf("%+v, want a bind under another generation", b)
		}
		if st := m.gateway.Stats(); st.UpdatesIgnored != 0 || st.Dropped != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// req: SB-07
func TestPacketsThatWaitedGoToAnActorThatStays(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		m.seal()
		m.client.write(send("note", "1"), request(2, "note", "2"))
		m.client.drained()
		m.old.quiet()
		m.old.send(m.drained(), m.end(m.old))
		m.old.packet("1")
		p := m.old.packet("2")
		m.old.send(m.push("10"), &wire.Reply{Correlation: p.Correlation, Codec: 1, Payload: []byte("22")})
		m.shows("10", "22")
		m.client.write(send("note", "3"))
		m.old.packet("3")
		m.old.send(m.end(m.old)) // once more
		m.old.quiet()
		if n := m.gateway.Stats().UpdatesIgnored; n != 0 {
			t.Errorf("%d updates ignored", n)
		}
	})
}

// The client gets what the Actor has pushed and answered at its new node behind all that
// came of the old one, however the links are.
// req: SB-05
func TestTheNewOwnerIsShownBehindTheOldOne(t *testing.T) {
	for _, end := range []string{"drained", "link lost", "drained before", "link lost before"} {
		t.Run(end, func(t *testing.T) {
			onEachUsualMove(t, func(t *testing.T, m *moving) {
				m.seal()
				m.client.write(request(2, "note", "2"))
				m.client.drained()
				m.old.send(m.push("10"))
				m.shows("10")
				before := strings.HasSuffix(end, "before")
				leave := func() {
					if strings.HasPrefix(end, "drained") {
						m.old.send(m.drained())
						m.old.quiet()
						return
					}
					m.old.send(&wire.Goodbye{Reason: wire.GoodbyeShutdown})
					m.old.end()
				}
				if before {
					leave()
				}
				m.new.send(m.end(m.new))
				p := m.new.packet("2")
				m.new.send(m.push("20"), &wire.Reply{Correlation: p.Correlation, Codec: 1, Payload: []byte("21")}, m.push("22"))
				m.new.quiet()
				if !before {
					m.old.send(m.push("11"), m.push("12"))
					m.shows("11", "12")
					leave()
				}
				m.shows("20", "21", "22")
				if before && end == "link lost before" {
					return
				}
				m.new.send(m.push("23"))
				m.shows("23")
				if end == "drained" {
					m.old.send(m.push("99"))
					m.old.quiet()
					if n := m.gateway.Stats().PushesRefused; n != 1 {
						t.Errorf("%d pushes refused, want the late one", n)
					}
				}
			})
		})
	}
}

// The old node carries a request along that it had not worked off. The answer comes over
// another link, and is shown behind what the old node had pushed.
// req: SB-05
func TestTheAnswerToACarriedRequestIsShownBehindTheOldOwner(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		m.client.write(request(2, "note", "2"), request(3, "note", "3"))
		answers := make([]*wire.RelayedReply, 2)
		for i, payload := range []string{"2", "3"} {
			answers[i] = &wire.RelayedReply{
				To:          wire.Process{RID: []byte(m.gateway.RID()), Lifecycle: m.gateway.Lifecycle()},
				Via:         wire.Process{RID: []byte(m.old.ref.RID), Lifecycle: m.old.ref.Lifecycle},
				Correlation: m.old.packet(payload).Correlation,
			}
		}
		answers[0].Success, answers[0].Codec, answers[0].Payload = true, 1, []byte("22")
		answers[1].Kind = uint8(zlnode.Rejected)
		m.seal()
		m.new.send(m.end(m.new), answers[0], m.push("20"), answers[1])
		m.new.quiet()
		m.old.send(m.push("10"), m.drained())
		m.shows("10", "22", "20")
		if kind, _, err := session.ParseErrorBody(m.client.answer(3).Payload); err != nil || kind != zlnode.Rejected {
			t.Errorf("%v %v", kind, err)
		}
	})
}

// Seals and ends of moves that do not match change nothing, and are counted.
// req: SB-05
func TestUpdatesThatDoNotMatchChangeNothing(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		refused := func(what string, h *hop, kind zlnode.Kind, change func(*wire.SessionSeal)) {
			t.Helper()
			r := m.sealing()
			change(r)
			h.send(r)
			if e, ok := h.read().(*wire.ErrorReply); !ok || zlnode.Kind(e.Kind) != kind {
				t.Errorf("%s: %+v, want %v", what, e, kind)
			}
		}
		refused("another session", m.old, zlnode.NotFound, func(r *wire.SessionSeal) { r.Session++ })
		refused("another binding", m.old, zlnode.NotFound, func(r *wire.SessionSeal) { r.BindingGen++ })
		refused("another actor", m.old, zlnode.NotFound, func(r *wire.SessionSeal) { r.ID = []byte("b") })
		refused("another incarnation", m.old, zlnode.NotFound, func(r *wire.SessionSeal) { r.ObjGen++ })
		refused("another node", m.new, zlnode.NotFound, func(*wire.SessionSeal) {})
		refused("an older owner", m.old, zlnode.Unavailable, func(r *wire.SessionSeal) { r.OwnerGen-- })
		m.client.write(send("note", "1"))
		m.old.packet("1")

		m.new.send(m.end(m.new)) // which nobody has sealed
		m.new.quiet()
		m.seal()
		refused("another move", m.old, zlnode.Unavailable, func(r *wire.SessionSeal) { r.Relocation[0]++ })
		ignored := uint64(1)
		for what, change := range map[string]func(*wire.SessionRelocationRoute){
			"another move":        func(r *wire.SessionRelocationRoute) { r.Relocation[0]++ },
			"another session":     func(r *wire.SessionRelocationRoute) { r.Owner.Lifecycle++ },
			"another binding":     func(r *wire.SessionRelocationRoute) { r.BindingGen++ },
			"another actor":       func(r *wire.SessionRelocationRoute) { r.Ref.ID = []byte("b") },
			"another incarnation": func(r *wire.SessionRelocationRoute) { r.Ref.ObjGen++ },
			"an older owner":      func(r *wire.SessionRelocationRoute) { r.Ref.OwnerGen-- },
			"a third node":        func(r *wire.SessionRelocationRoute) { r.Ref.RID = []byte("d-third") },
			"another process":     func(r *wire.SessionRelocationRoute) { r.Ref.Lifecycle++ },
			"an abort of another": func(r *wire.SessionRelocationRoute) { r.Commit = false; r.Ref.OwnerGen-- },
		} {
			r := m.end(m.new)
			change(r)
			m.new.send(r)
			m.new.quiet()
			ignored++
			if n := m.gateway.Stats().UpdatesIgnored; n != ignored {
				t.Fatalf("%s: %d updates ignored, want %d", what, n, ignored)
			}
		}
		m.new.send(m.drained()) // of the old one, which has not said so
		m.client.write(send("note", "2"))
		m.client.drained()
		m.new.quiet()
		m.old.quiet()
		m.old.send(m.push("10"))
		m.shows("10")

		m.new.send(m.end(m.new))
		m.new.packet("2")
		m.new.send(m.end(m.new), m.end(m.new)) // repeats are no news
		m.new.send(m.drained())
		m.old.send(m.end(m.old))
		refused("a move that has ended", m.old, zlnode.NotFound, func(*wire.SessionSeal) {})
		refused("a move that has ended", m.new, zlnode.Unavailable, func(r *wire.SessionSeal) { r.OwnerGen++ })
		m.old.send(m.push("11"), m.drained())
		m.shows("11")
		m.new.send(m.push("20"))
		m.shows("20")
		m.client.write(send("note", "3"))
		m.new.packet("3")
		if n := m.gateway.Stats().UpdatesIgnored; n != ignored+3 {
			t.Errorf("%d updates ignored, want %d", n, ignored+3)
		}
	})
}

// Nothing is heard of the move: the client's connection is closed, which it is told, and
// the Session is cleaned. The news that comes then finds no client, and its sender is told.
// req: SB-04
func TestASealThatLastsTooLongEndsTheSession(t *testing.T) {
	onEachMove(t, func(c *zlnode.Config) { c.SessionRelocationSealTimeout = 1501 * time.Millisecond }, func(t *testing.T, m *moving) {
		m.client.write(request(2, "mark", "1"), send("note", "2"))
		m.shows("1")
		m.old.packet("2")
		m.seal()
		m.client.write(request(3, "note", "3"), send("note", "4"))
		p := m.client.answer(3)
		if kind, _, err := session.ParseErrorBody(p.Payload); err != nil || kind != zlnode.Unavailable {
			t.Errorf("%v %v", kind, err)
		}
		if e := m.client.end(); !e.told || e.reason != session.TransportError || e.diag == "" || !e.orderly {
			t.Errorf("it ended with %+v", e)
		}
		m.client.conn.Close()
		receive(t, m.closed)
		if u, ok := m.old.read().(*wire.Unbind); !ok || u.Session != m.session || u.BindingGen != m.gen {
			t.Errorf("%+v came, want the end of the binding", u)
		}
		if st := m.gateway.Stats(); st.SessionsCutOff != 1 || st.Sessions != 0 || st.Dropped != 1 {
			t.Errorf("%+v", st)
		}
		m.old.send(m.drained(), m.end(m.old))
		m.old.quiet()
		m.new.send(m.end(m.new))
		if u, ok := m.new.read().(*wire.Unbind); !ok || u.Session != m.session || u.BindingGen != m.gen || u.ObjGen != m.new.ref.ObjectGen {
			t.Errorf("%+v came, want the end of the binding", u)
		}
		if n := m.gateway.Stats().UpdatesIgnored; n != 1 {
			t.Errorf("%d warnings, want that of the late commit", n)
		}
	})
}

func TestAClientThatLeavesDuringAMoveIsMissedByBothOwners(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		m.seal()
		m.client.write(send("note", "1"))
		m.client.drained()
		m.client.conn.Close()
		for _, h := range []*hop{m.old, m.new} {
			if h == m.new {
				h.send(m.end(h))
			}
			if u, ok := h.read().(*wire.Unbind); !ok || u.Session != m.session || u.BindingGen != m.gen {
				t.Errorf("%+v came, want the end of the binding", u)
			}
		}
		if n := m.gateway.Stats().Dropped; n != 1 {
			t.Errorf("%d packets dropped, want the one that waited", n)
		}
	})
}

func TestAnActorThatMovesCannotBeBound(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		unavailable := func(seq uint64, h *hop) {
			t.Helper()
			m.client.write(request(seq, "bind", jsonOf(t, h.ref)))
			if kind, _, err := session.ParseErrorBody(m.client.answer(seq).Payload); err != nil || kind != zlnode.Unavailable {
				t.Errorf("%v %v", kind, err)
			}
			h.quiet()
		}
		m.seal()
		unavailable(2, m.old)
		unavailable(3, m.new)
		m.old.send(m.end(m.old))
		m.old.quiet()
		m.client.bind(m.old, 4)
	})
}

// More than a little is refused while an Actor moves, packet by packet; what was taken is
// sent in order.
func TestPacketsThatWaitForAMoveAreBounded(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		const taken = 1024
		m.seal()
		var packets []session.Packet
		for i := range taken {
			packets = append(packets, send("note", fmt.Sprint(i)))
		}
		m.client.write(append(packets, request(2, "note", "2"), send("note", "3"))...)
		if kind, _, err := session.ParseErrorBody(m.client.answer(2).Payload); err != nil || kind != zlnode.CapacityExceeded {
			t.Errorf("%v %v", kind, err)
		}
		m.client.drained()
		if n := m.gateway.Stats().Dropped; n != 1 {
			t.Errorf("%d packets dropped, want 1", n)
		}
		m.new.send(m.end(m.new))
		for i := range taken {
			m.new.packet(fmt.Sprint(i))
		}
		m.client.write(send("note", "9"))
		m.new.packet("9")
	})
}

// A new owner that sends more than is kept for the client costs the client its Session: it
// cannot be shown in order.
func TestWhatIsKeptForTheClientIsBounded(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		m.seal()
		m.new.send(m.end(m.new))
		for range 3 {
			p := m.push("")
			p.Payload = make([]byte, 400<<10)
			m.new.send(p)
		}
		if e := m.client.end(); !e.told || e.reason != session.TransportError || e.frames != 0 {
			t.Errorf("it ended with %+v", e)
		}
	})
}

// The new node takes nothing more for now. What waited for the move waits for it, in
// order, and before what comes later; also if the Actor is about to move again.
// req: SB-02
func TestPacketsThatWaitedForAMoveWaitForCreditInOrder(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		flood := m.stream(t)
		other := *m.new
		other.ref.ID = "b"
		flood.bind(&other, 1)
		m.new.in = other.in
		large := send("note", "")
		large.Payload = make([]byte, 60<<10)
		size := 0
		for size < wire.MinWindow-len(large.Payload)-200 { // all of the link's credit but a little
			flood.write(large)
			p := m.new.packet(string(large.Payload))
			size += p.Size()
		}
		large.Payload = large.Payload[:wire.MinWindow-size-200]
		flood.write(large)
		size += m.new.packet(string(large.Payload)).Size()

		m.seal()
		wide := strings.Repeat("w", 300)
		m.client.write(request(2, "note", `"`+wide+`"`), send("note", "3"))
		m.client.drained()
		m.old.send(m.drained())
		m.old.quiet()
		m.new.send(m.end(m.new))
		m.new.quiet()
		m.client.write(send("note", "4"), request(5, "mark", "5"))
		m.shows("5")
		m.new.quiet()
		again := m.sealing() // the new owner moves it on, before the credit comes
		again.Relocation[0]++
		again.OwnerGen = m.new.ref.OwnerGen
		m.new.send(again)
		if r, ok := m.new.read().(*wire.SessionSealed); !ok {
			t.Fatalf("%+v came, want the seal confirmed", r)
		}
		m.new.send(&wire.Credit{Bytes: uint64(size)})
		m.new.quiet()
		m.client.write(send("note", "6"))
		m.client.drained()
		m.new.quiet()
		stays := m.end(m.new)
		stays.Commit, stays.Relocation = false, again.Relocation
		m.new.send(stays)
		for _, payload := range []string{`"` + wide + `"`, "3", "4", "6"} {
			m.new.packet(payload)
		}
		m.client.write(send("note", "7"))
		m.new.packet("7")
	})
}
