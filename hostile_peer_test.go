package zlnode_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
)

// These tests speak as a node that has the mesh key and breaks the protocol.

// member connects to the owner and passes the handshake.
func (s *stage) member(t *testing.T) *peer {
	t.Helper()
	p := s.peer(t)
	if reason := p.handshake(linkConfig(t, nil), s.owner.RID()); reason != 0 {
		t.Fatalf("refused: %v", reason)
	}
	return p
}

// broken sends bytes on a new link, and a harmless message behind them that must
// not be executed any more. It returns when the node has closed the link.
func (s *stage) broken(t *testing.T, what string, hostile []byte) {
	t.Helper()
	p := s.member(t)
	p.write(slices.Concat(hostile, actorNote("0", 0).AppendTo(nil)))
	if reason := p.end(); reason != 0 {
		t.Errorf("%s: an open link was rejected with %v", what, reason)
	}
}

// actorNote is a message that the honest client's Actor would note.
func actorNote(n string, corr uint64) *wire.ActorMessage {
	m := &wire.ActorMessage{ID: []byte("bystander"), Op: 1, Correlation: corr, Name: []byte("note"), Codec: 1, Payload: []byte(n)}
	if corr != 0 {
		m.DeadlineMS = 10_000
	}
	return m
}

// A record of any kind that is too short, too long or has unknown flags closes
// the link before anything of it is done.
func TestMalformedRecordsCloseTheLink(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		for _, r := range linkRecords() {
			record, name := r.AppendTo(nil), fmt.Sprintf("%T", r)
			switch r := r.(type) {
			case *wire.ActorMessage: // its payload may have any length
				record = (&wire.ActorMessage{ID: r.ID, Op: 1, Correlation: r.Correlation, DeadlineMS: r.DeadlineMS, Name: r.Name}).AppendTo(nil)
			case *wire.SessionPacket:
				record = (&wire.SessionPacket{ID: r.ID, ObjGen: 1, Session: 1, BindingGen: 1, Name: r.Name}).AppendTo(nil)
			case *wire.Push, *wire.Publish, *wire.Reply, *wire.NodeMessage:
			default:
				s.broken(t, name+" and a byte more", altered(record, longer))
			}
			s.broken(t, name+" less a byte", altered(record, shorter))
			s.broken(t, name+" with an unknown flag", flagged(record, 0x40))
			b.served()
		}
		b.untouched()
	})
}

func TestRecordsWithImpossibleValuesCloseTheLink(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		// set returns a record with some bytes, found by what stands there, changed.
		set := func(r wire.Record, old, changed string) []byte {
			record := r.AppendTo(nil)
			if bytes.Count(record, []byte(old)) != 1 || len(old) != len(changed) {
				t.Fatalf("%q stands %d times in %x", old, bytes.Count(record, []byte(old)), record)
			}
			return bytes.Replace(record, []byte(old), []byte(changed), 1)
		}
		u64 := func(v uint64) string { return string(binary.BigEndian.AppendUint64(nil, v)) }
		const odd, large, zero = 0x1122334455667788, 1<<63 + 5, 0
		message := func(change func(*wire.ActorMessage)) *wire.ActorMessage {
			m := actorNote("0", 0)
			change(m)
			return m
		}
		push := wire.Push{Session: odd, BindingGen: 1, ID: []byte("bystander"), ObjGen: 2, Name: []byte("x")}
		for name, record := range map[string][]byte{
			"command 0":                  {0, 0, 0, 2, 0, 0},
			"a reserved command":         {0, 0, 0, 2, 45, 0},
			"command 255":                {0, 0, 0, 2, 255, 0},
			"a length of 0":              {0, 0, 0, 0},
			"a length over the limit":    binary.BigEndian.AppendUint32(nil, wire.MaxRecord-3),
			"a length of 4 GiB":          {255, 255, 255, 255},
			"hello again":                hello(t, linkConfig(t, nil), ""),
			"admit again":                (&wire.Admit{Window: wire.MinWindow, Version: 1}).AppendTo(nil),
			"probe 0":                    set(&wire.Probe{ID: odd}, u64(odd), u64(zero)),
			"credit 0":                   set(&wire.Credit{Bytes: odd & wire.MaxWindow / 2 * 2}, u64(odd&wire.MaxWindow/2*2), u64(zero)),
			"credit nobody used":         (&wire.Credit{Bytes: 1}).AppendTo(nil),
			"operation 0":                set(message(func(m *wire.ActorMessage) { m.Op = odd }), u64(odd), u64(zero)),
			"a generation over 63 bits":  set(message(func(m *wire.ActorMessage) { m.OwnerGen = odd }), u64(odd), u64(large)),
			"an id that is not UTF-8":    set(actorNote("0", 0), "bystander", "bystande\xff"),
			"a name that is not UTF-8":   set(actorNote("0", 0), "note", "not\xff"),
			"no name":                    set(message(func(m *wire.ActorMessage) { m.Name, m.Codec, m.Payload = []byte("\x01"), 0, nil }), "\x01\x01\x00\x00\x00", "\x00\x00\x00\x00\x00"),
			"an unknown codec":           set(actorNote("0", 0), "note\x01", "note\x04"),
			"correlation 0":              set(actorNote("0", odd), u64(odd), u64(zero)),
			"a request without deadline": set(actorNote("0", 1), "\x00\x00\x27\x10", "\x00\x00\x00\x00"),
			"metadata over the limit":    set(actorNote("0", 0), "note\x01\x00\x00", "note\x01\x04\x01"),
			"a reply to 0":               set(&wire.Reply{Correlation: odd}, u64(odd), u64(zero)),
			"an error kind of its own":   set(&wire.ErrorReply{Correlation: odd, Kind: 12}, u64(odd)+"\x0c", u64(odd)+"\x0d"),
			"a push to session 0":        set(&push, u64(odd), u64(zero)),
			"a push with binding 0":      set(&push, u64(1), u64(zero)),
			"more channels than any":     slices.Concat([]byte{0, 0, 5 * (wire.MaxOffered + 1) / 256, 5*(wire.MaxOffered+1)%256 + 2, 31, 0}, manyOffered(wire.MaxOffered+1)),
			"a channel twice":            {0, 0, 0, 10, 31, 0, 1, 'a', 0, 1, 1, 'a', 0, 1},
			"a weight over the limit":    {0, 0, 0, 6, 31, 0, 1, 'a', 0x27, 0x11},
			"a goodbye without reason":   set(&wire.Goodbye{Reason: 1}, "\x08\x00\x01", "\x08\x00\x00"),
		} {
			s.broken(t, name, record)
			b.served()
		}
		b.untouched()
	})
}

// manyOffered is the body of an offer of n channels, of five bytes each.
func manyOffered(n int) (body []byte) {
	for i := range n {
		body = append(body, 2, 'a'+byte(i/64), ' '+byte(i%64), 0, 1)
	}
	return body
}

// What a node sends without credit for it closes its link; what it sends within
// its credit waits.
func TestAPeerThatOverrunsItsCreditIsClosed(t *testing.T) {
	oneGateway(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		const size, window = 1 << 20, 8 << 20
		ids := []string{"a", "b", "c"}
		for _, id := range ids {
			s.create(id)
			s.gate.stop(t, s.world, s.gateway.Actor(id))
		}
		p := s.member(t)
		sent := 0
		for i := 0; sent <= window; i++ { // three messages of 1 MiB wait in each Actor's queue
			m := wire.ActorMessage{ID: []byte(ids[i%3]), Op: uint64(i + 1), Name: []byte("swallow"), Payload: make([]byte, size)}
			sent += m.Size()
			p.send(&m)
			if sent <= window {
				p.send(&wire.Probe{ID: uint64(i + 1)})
				if r, ok := p.read().(*wire.Ack); !ok || r.ID != uint64(i+1) {
					t.Fatalf("%+v after %d bytes, want the link open", r, sent)
				}
			}
		}
		p.end()
		b.served()
		close(s.gate.open)
		if _, err := s.ask("a", "bound", nil); err != nil { // behind what waited
			t.Error(err)
		}
		if n := len(s.journal.of("swallowed")); n < 3 {
			t.Errorf("%d of the messages within the credit were executed", n)
		}
	})
}

// What a node may send but has no right to is refused on the open link: the
// bindings and requests of others are not within its reach.
func TestAMemberReachesNothingOfOthers(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		ref, found, err := s.gateway.FindActor(s.ctx, "bystander")
		if !found || err != nil {
			t.Fatal(found, err)
		}
		row, found, err := s.location().Read(s.ctx, ref.ID)
		if !found || err != nil {
			t.Fatal(found, err)
		}
		p := s.member(t)
		refused := func(what string, corr uint64, r wire.Record, kinds ...zlnode.Kind) {
			t.Helper()
			p.send(r)
			e, ok := p.read().(*wire.ErrorReply)
			if !ok || e.Correlation != corr || !slices.Contains(kinds, zlnode.Kind(e.Kind)) {
				t.Errorf("%s: %+v, want an error of kind %v", what, e, kinds)
			}
		}
		id := []byte(ref.ID)
		exact := wire.Ref{ID: id, ObjGen: ref.ObjectGen, Mesh: []byte("main"), RID: []byte(ref.RID), Lifecycle: ref.Lifecycle, OwnerGen: ref.OwnerGen}
		other := func(change func(*wire.Ref)) wire.Ref {
			r := exact
			change(&r)
			return r
		}
		// Packets in the name of a Session that has no binding over this link. The
		// honest client's Session and binding are number 1 of its node.
		for gen := range uint64(3) {
			refused("a packet of another's session", gen+1, &wire.SessionPacket{
				ID: id, ObjGen: ref.ObjectGen, Session: 1, BindingGen: gen + 1, Correlation: gen + 1, DeadlineMS: 10_000,
				Name: []byte("note"), Codec: 1, Payload: []byte("0"),
			}, zlnode.InvalidOperation)
			binding := wire.BindingName{ID: id, ObjGen: ref.ObjectGen, Session: 1, BindingGen: gen + 1}
			p.send(
				&wire.Unbind{BindingName: binding, Reason: wire.UnbindClosed},
				&wire.Push{Session: 1, BindingGen: gen + 1, ID: id, ObjGen: ref.ObjectGen, Name: []byte("forged"), Codec: 1, Payload: []byte("1")},
				&wire.BindingReplaced{BindingName: binding},
				&wire.BindingEnded{BindingName: binding},
				&wire.SessionClose{BindingName: binding, Text: []byte("forged")},
				&wire.SessionReconnecting{BindingName: binding},
				&wire.Reply{Correlation: 1000 + gen, Payload: []byte("forged")},
				&wire.ErrorReply{Correlation: 2000 + gen, Kind: 5},
			)
		}
		refused("a message to nobody", 20, &wire.ActorMessage{ID: []byte("nobody"), Op: 1, Correlation: 20, DeadlineMS: 1000, Name: []byte("note")}, zlnode.Unavailable)
		refused("a spot's message to an actor", 22, &wire.ActorMessage{
			ID: id, Spot: true, Op: 1, Correlation: 22, DeadlineMS: 1000, Name: []byte("note"), Codec: 1, Payload: []byte("0"),
		}, zlnode.TypeMismatch)
		refused("a message to the entry spot", 23, &wire.ActorMessage{
			ID: []byte(row.SpotID), Spot: true, Op: 1, Correlation: 23, DeadlineMS: 1000, Name: []byte("note"),
		}, zlnode.Unavailable)
		refused("a message to another incarnation", 21, &wire.ActorMessage{
			ID: id, ObjGen: ref.ObjectGen + 1, Op: 1, Correlation: 21, DeadlineMS: 1000, Name: []byte("note"), Codec: 1, Payload: []byte("0"),
		}, zlnode.InvalidOperation)
		for i, r := range []wire.Ref{
			other(func(r *wire.Ref) { r.ObjGen++ }), other(func(r *wire.Ref) { r.Lifecycle++ }), other(func(r *wire.Ref) { r.OwnerGen++ }),
			other(func(r *wire.Ref) { r.ID = []byte("nobody") }),
		} {
			corr := uint64(30 + i)
			refused("a bind that is not exact", corr, &wire.Bind{Correlation: corr, Ref: r, Session: 1, BindingGen: 1}, zlnode.InvalidOperation, zlnode.Unavailable)
		}
		refused("destroying another incarnation", 40, &wire.ActorDestroy{Correlation: 40, Ref: other(func(r *wire.Ref) { r.ObjGen++ }), Op: [16]byte{1}}, zlnode.InvalidOperation)
		create := wire.ActorCreate{
			Correlation: 41, Op: [16]byte{1}, SourceLifecycle: 1, ID: []byte("new"), Type: []byte("avatar"), ObjGen: 1, StoreVersion: 1,
			TargetLifecycle: ref.Lifecycle + 1, DeadlineMS: 1000,
		}
		refused("a creation for another process", 41, &create, zlnode.Unavailable)
		create.Correlation, create.TargetLifecycle = 42, ref.Lifecycle
		refused("a creation that nobody reserved", 42, &create, zlnode.NotFound, zlnode.Unavailable, zlnode.InvalidOperation, zlnode.DeadlineExceeded)

		p.send(&wire.Probe{ID: 99})
		if r, ok := p.read().(*wire.Ack); !ok || r.ID != 99 {
			t.Errorf("%+v, want the link open", r)
		}
		st := s.owner.Stats()
		if st.LateReplies != 6 {
			t.Errorf("%d replies to nothing were counted, want 6", st.LateReplies)
		}
		if st.PushesRefused != 3 {
			t.Errorf("%d pushes refused, want 3", st.PushesRefused)
		}
		b.served()
		if n := len(b.pushes); n != 0 {
			t.Errorf("%d forged pushes reached the client", n)
		}
		if _, err := s.ask("bystander", "tick", 1); err != nil {
			t.Errorf("the binding is broken: %v", err)
		}
		pushed[int](b.player, "tick")
		s.isAway("bystander", false)
		p.send(&wire.Goodbye{Reason: wire.GoodbyeShutdown})
		p.end()
		b.untouched()
	})
}
