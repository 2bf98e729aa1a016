package zlnode_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// bystander is an honest client, whose Actor is served all the time, whatever
// others send.
type bystander struct {
	*player
	s      *stage
	notes  int
	before [2]zlnode.Stats // of gateway and owner, before anybody was hostile
}

func (s *stage) bystander(t *testing.T) *bystander {
	t.Helper()
	b := &bystander{player: s.dial(t), s: s}
	b.login("bystander")
	b.before = s.stats()
	return b
}

func (s *stage) stats() [2]zlnode.Stats { return [2]zlnode.Stats{s.gateway.Stats(), s.owner.Stats()} }

// served fails the test unless the honest client is.
func (b *bystander) served() {
	b.t.Helper()
	b.notes++
	if n, err := b.ask("note", b.notes); n != b.notes || err != nil {
		b.t.Fatalf("the honest client: %d %v", n, err)
	}
}

// untouched waits until the hostile connections are gone, and fails the test
// unless nothing is left of them and nothing happened on the nodes but what the
// honest client asked for.
func (b *bystander) untouched() {
	b.t.Helper()
	b.served()
	b.s.await("the hostile connections' end", func() bool {
		for i, st := range b.s.stats() {
			if st.Sessions != b.before[i].Sessions || st.Peers != b.before[i].Peers {
				return false
			}
		}
		return true
	})
	for i, n := range b.s.journal.of("note") {
		if n != fmt.Sprint(i+1) {
			b.t.Fatalf("note %s was executed at place %d", n, i)
		}
	}
	if marks := b.s.journal.of("mark"); len(marks) != 0 {
		b.t.Errorf("a handler ran: %v", marks)
	}
	for i, st := range b.s.stats() {
		if st.Actors != b.before[i].Actors || st.Panics != 0 || st.SlowSessions != 0 {
			b.t.Errorf("%+v, before it was %+v", st, b.before[i])
		}
	}
}

// refused writes hostile bytes, and a harmless packet behind them that must not
// be executed any more, and returns how the server ended the connection.
func (s *stage) refused(t *testing.T, hostile []byte) ending {
	t.Helper()
	c := s.stream(t)
	c.writeBytes(slices.Concat(hostile, frames(t, send("mark", "1"))))
	e := c.end()
	c.conn.Close()
	if e.frames != 0 {
		t.Errorf("%d frames came back", e.frames)
	}
	return e
}

func TestMalformedFramesCloseOnlyTheirConnection(t *testing.T) {
	raw, err := os.ReadFile("session/testdata/invalid.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct{ Frames []struct{ Why, Hex string } }
	if err := json.Unmarshal(raw, &vectors); err != nil || len(vectors.Frames) == 0 {
		t.Fatal(len(vectors.Frames), err)
	}
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		for _, v := range vectors.Frames {
			frame, err := hex.DecodeString(v.Hex)
			if err != nil {
				t.Fatal(err)
			}
			// What the prefix alone decides is closed without a word.
			_, bad := session.FrameSize(frame, 64<<10)
			e := s.refused(t, frame)
			if !e.orderly || e.told != (bad == nil) || e.told && (e.reason != session.ProtocolError || e.diag == "") {
				t.Errorf("%s: the server ended with %+v", v.Why, e)
			}
			b.served()
		}
		b.untouched()
	})
}

func TestFramesThatNoClientMaySendCloseTheConnection(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		reserved := func(name string) session.Packet { return send(name, `1`) }
		packets := []session.Packet{
			{Kind: session.KindResponse, Seq: 1},
			{Kind: session.KindError, Codec: session.CodecJSON, Seq: 1, Payload: []byte(`{"code":"not_found","message":"x"}`)},
			{Kind: session.KindControl, Name: []byte("$zlink.unknown")},
			{Kind: session.KindControl, Name: []byte("mark")},
			{Kind: session.KindControl, Name: []byte("session-closed")},
			reserved("$zlink."), reserved("$zlink.anything"), reserved(session.PingName), reserved(session.PongName),
			request(1, "$zlink.anything", `1`),
		}
		for _, p := range packets {
			e := s.refused(t, frames(t, p))
			if !e.orderly || !e.told || e.reason != session.ProtocolError {
				t.Errorf("%v %q: the server ended with %+v", p.Kind, p.Name, e)
			}
			b.served()
		}
		b.untouched()
	})
}

// The cap counts header and payload and is decided from the prefix.
func TestAFrameOverTheCapIsRefusedByItsPrefix(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		const most = 64 << 10
		b := s.bystander(t)
		for _, lengths := range [][2]uint32{{5, most - 4}, {100, most - 99}, {most - 1, 2}, {5, 1<<31 - 1}, {most - 1, 1<<32 - 1}} {
			prefix := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, uint16(lengths[0])), lengths[1])
			c := s.stream(t)
			c.writeBytes(prefix)
			if e := c.end(); !e.orderly || e.told || e.frames != 0 {
				t.Errorf("a header of %d and a payload of %d: the server ended with %+v", lengths[0], lengths[1], e)
			}
			c.conn.Close()
			b.served()
		}
		b.untouched()
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"largest"}`))
		c.answer(1)
		p := request(2, "echo", "")
		p.Payload = make([]byte, most-len(frames(t, p))+session.PrefixSize)
		c.write(p)
		if a := c.answer(2); a.Kind != session.KindResponse || len(a.Payload) != len(p.Payload) {
			t.Errorf("the largest frame: %v of %d bytes", a.Kind, len(a.Payload))
		}
	})
}

// A connection that ends inside a frame, wherever that is, ends without effect.
func TestAFrameCutShortHasNoEffect(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		whole := frames(t, send("mark", "1"))
		for n := range whole {
			c := s.stream(t)
			c.writeBytes(whole[:n])
			if err := c.conn.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if e := c.end(); e.frames != 0 {
				t.Errorf("after %d of %d bytes: %+v", n, len(whole), e)
			}
			c.conn.Close()
		}
		b.untouched()
	})
}

func TestFramesMayArriveByteByByte(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		for _, octet := range frames(t, request(1, "login", `{"ID":"a"}`), request(2, "note", "1"), request(3, "mark", "1")) {
			c.writeBytes([]byte{octet})
		}
		answers := map[uint64]string{}
		for range 3 {
			p := c.read()
			answers[p.Seq] = fmt.Sprint(p.Kind)
		}
		if want := map[uint64]string{1: "Response", 2: "Response", 3: "Response"}; !maps.Equal(answers, want) {
			t.Errorf("answers %v", answers)
		}
	})
}

func TestNoiseOnTheSessionPortHurtsNobody(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		valid := frames(t, request(1, "note", "1"), send("greet", `""`), request(2, "fail in actor", `"panic"`))
		for seed := range uint64(60) {
			random := rand.New(rand.NewPCG(seed, 0))
			noise := make([]byte, 1+random.IntN(4096))
			for i := range noise {
				noise[i] = byte(random.Uint32())
			}
			if seed%3 > 0 { // frames with some bytes wrong come further than noise
				noise = slices.Clone(valid)
				for range 1 + random.IntN(4) {
					noise[random.IntN(len(noise))] = byte(random.Uint32())
				}
			}
			c := s.stream(t)
			c.writeBytes(noise)
			_ = c.conn.CloseWrite() // it fails if the server was faster
			c.end()
			c.conn.Close()
			b.served()
		}
		b.untouched()
	})
}

func TestLinkRecordsOnTheSessionPortAreRefused(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		for _, r := range linkRecords() {
			if e := s.refused(t, r.AppendTo(nil)); !e.orderly {
				t.Errorf("%T: the server ended with %+v", r, e)
			}
		}
		b.untouched()
	})
}

// A client decides how many packets fail, not how many lines of the log tell of it.
func TestFailingPacketsAreSaidOnceASecond(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		var log logLines
		n := w.tuned(zlnode.Config{
			RID: "a", Role: zlnode.RoleServer, Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "player"}},
		}, newStage(w).app(), log.logged(zerolog.WarnLevel))
		c := dialStream(t, n.SessionAddrs()[0].String())
		began := time.Now()
		const count = 100
		for seq := range uint64(count) {
			c.write(request(seq+1, "fail in session", `"plain"`))
			if p := c.answer(seq + 1); p.Kind != session.KindError {
				t.Fatalf("answered with %v", p.Kind)
			}
		}
		if got, most := len(log.saying("a session's request failed by its handler, or by who asked")), 1+int(time.Since(began)/time.Second); got == 0 || got > most {
			t.Errorf("%d lines for %d failures, want 1 to %d", got, count, most)
		}
		// A failure is counted behind its answer.
		w.eventually("all failures are counted", func() bool { return n.Stats().FailedRequests >= count })
		if got := n.Stats().FailedRequests; got != count {
			t.Errorf("%d failures are counted, want %d", got, count)
		}
	})
}

// A client that sends faster than its Session works has what is too much
// refused, request by request, and no request is left without an end.
func TestPacketsOverTheSessionsQueueAreRefused(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		c := s.stream(t)
		c.write(request(1, "wait", `{}`))
		receive(t, s.gate.entered)
		const count = 400
		var packets []session.Packet
		for seq := range uint64(count) {
			packets = append(packets, request(seq+2, "fail in session", `"kind"`))
		}
		c.write(packets...)
		c.drained()
		b.served()
		s.gate.open <- struct{}{}
		refused, worked := 0, 0
		seen := map[uint64]bool{}
		for len(seen) < count+1 {
			p := c.read()
			if seen[p.Seq] {
				t.Fatalf("request %d ended twice", p.Seq)
			}
			seen[p.Seq] = true
			if p.Seq == 1 {
				continue
			}
			switch kind, _, err := session.ParseErrorBody(p.Payload); {
			case err == nil && kind == zlnode.CapacityExceeded:
				refused++
			case err == nil && kind == zlnode.Rejected:
				worked++
			default:
				t.Fatalf("%v to %d: %s", p.Kind, p.Seq, p.Payload)
			}
		}
		if refused == 0 || worked < 200 {
			t.Errorf("%d requests were refused and %d executed", refused, worked)
		}
	})
}

// linkRecords has a record of every command that nodes send each other.
func linkRecords() []wire.Record {
	id, name := []byte("bystander"), []byte("note")
	ref := wire.Ref{ID: id, ObjGen: 1, Mesh: []byte("main"), RID: []byte("b-owner"), Lifecycle: 1, OwnerGen: 1}
	op := [16]byte{1}
	binding := wire.BindingName{ID: id, ObjGen: 1, Session: 1, BindingGen: 1}
	return []wire.Record{
		&wire.Hello{MinVersion: 1, MaxVersion: 1, Mesh: []byte("main"), RID: []byte(evil), Lifecycle: 1, Role: wire.RoleServer},
		&wire.Admit{Window: wire.MinWindow, Version: 1},
		&wire.Reject{Reason: wire.RejectBadKey},
		&wire.Probe{ID: 1},
		&wire.Ack{ID: 1},
		&wire.Credit{Bytes: 1},
		&wire.Goodbye{Reason: wire.GoodbyeShutdown},
		&wire.ActorMessage{ID: id, Op: 1, Name: name, Codec: 1, Payload: []byte("0")},
		&wire.ActorMessage{ID: id, Op: 1, Correlation: 1, DeadlineMS: 1000, Name: name, Codec: 1, Payload: []byte("0")},
		&wire.Reply{Correlation: 1},
		&wire.ErrorReply{Correlation: 1},
		&wire.ActorDestroy{Correlation: 1, Ref: ref, Op: op},
		&wire.SessionPacket{ID: id, ObjGen: 1, Session: 1, BindingGen: 1, Name: name, Codec: 1, Payload: []byte("0")},
		&wire.Push{Session: 1, BindingGen: 1, ID: id, ObjGen: 1, Name: name},
		&wire.Interest{Topics: wire.AppendTopic(nil, "bystander")},
		&wire.Publish{Topic: id, Name: name},
		&wire.Unbind{BindingName: binding, Reason: wire.UnbindClosed},
		&wire.Bind{Correlation: 1, Ref: ref, Session: 1, BindingGen: 1},
		&wire.BindingReplaced{BindingName: binding},
		&wire.BindingEnded{BindingName: binding},
		&wire.SessionClose{BindingName: binding},
		&wire.SessionReconnecting{BindingName: binding},
		&wire.NodeMessage{Op: 1, Name: name},
		&wire.Offer{Channels: wire.AppendOffered(nil, name, 1)},
		&wire.ActorCreate{
			Correlation: 1, Op: op, SourceLifecycle: 1, ID: id, Type: []byte("avatar"), ObjGen: 1, StoreVersion: 1,
			TargetLifecycle: 1, DeadlineMS: 1000,
		},
	}
}

// evil is the RID of hostile nodes.
const evil = "z-evil"
