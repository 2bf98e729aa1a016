package zlnode_test

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// peer is the other end of a node's link connection, spoken by hand.
type peer struct {
	t    *testing.T
	conn duplex
	in   []byte
	sent []byte // everything that was written
}

// duplex is a connection of which each side ends by itself: by TCP, or TLS.
type duplex interface {
	net.Conn
	CloseWrite() error
}

// peer connects to the owner's link port.
func (s *stage) peer(t *testing.T) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", s.owner.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	return newPeer(t, conn)
}

func newPeer(t *testing.T, conn net.Conn) *peer {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &peer{t: t, conn: conn.(duplex)}
}

// write sends bytes. It does not mind if the node has closed: what it reads tells.
func (p *peer) write(b []byte) {
	p.sent = append(p.sent, b...)
	_, _ = p.conn.Write(b)
}

func (p *peer) send(records ...wire.Record) {
	var b []byte
	for _, r := range records {
		b = r.AppendTo(b)
	}
	p.write(b)
}

// next returns the next whole record. It answers probes, so that only what a test
// sends can end a link.
func (p *peer) next() ([]byte, error) {
	for {
		size, err := wire.RecordSize(p.in, wire.MaxRecord)
		if err != nil {
			return nil, err
		}
		if size > 0 && size <= len(p.in) {
			record := p.in[:size:size]
			p.in = p.in[size:]
			if r, _ := wire.Decode(record); r != nil {
				if probe, ok := r.(*wire.Probe); ok {
					p.send(&wire.Ack{ID: probe.ID})
					continue
				}
			}
			return record, nil
		}
		var b [64 << 10]byte
		n, err := p.conn.Read(b[:])
		p.in = append(p.in, b[:n]...)
		if err != nil && n == 0 {
			return nil, err
		}
	}
}

// read returns the next record that has nothing to do with credits.
func (p *peer) read() wire.Record {
	p.t.Helper()
	for {
		record, err := p.next()
		if err != nil {
			p.t.Fatalf("no record: %v", err)
		}
		r, err := wire.Decode(record)
		if err != nil {
			p.t.Fatalf("the node sent %x: %v", record, err)
		}
		if _, ok := r.(*wire.Credit); !ok {
			return r
		}
	}
}

// end reads to the end of the connection and returns the reason of the Reject
// that the node sent; 0: none.
func (p *peer) end() (reason wire.RejectReason) {
	p.t.Helper()
	for {
		record, err := p.next()
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				p.t.Fatal("the node left the connection open")
			}
			p.conn.Close()
			return reason
		}
		if r, err := wire.Decode(record); err != nil {
			p.t.Errorf("the node sent %x: %v", record, err)
		} else if r, ok := r.(*wire.Reject); ok {
			reason = r.Reason
		}
	}
}

// linkConfig is what a node of the test's mesh says, which has the key.
func linkConfig(t *testing.T, change func(*link.Config)) *link.Config {
	t.Helper()
	c := link.Config{Mesh: "main", RID: evil, Lifecycle: 1, Role: wire.RoleClient, Keys: [][]byte{meshKey}}
	if change != nil {
		change(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return &c
}

func nonce() (n [32]byte) {
	rand.Read(n[:])
	return n
}

// handshake goes through the handshake as the dialler, and returns how the node
// refused it; 0: it did not.
func (p *peer) handshake(c *link.Config, expect string) wire.RejectReason {
	p.t.Helper()
	d := link.NewDialler(c, expect, nonce())
	event := link.Event{Kind: link.EventOpened}
	for {
		if err := d.Step(clock.Now(), event); err != nil {
			p.t.Fatal(err)
		}
		event = link.Event{}
		for _, e := range d.Effects(nil) {
			switch e.Kind {
			case link.EffectSend:
				p.write(e.Record)
			case link.EffectVerified:
				event = link.Event{Kind: link.EventJudged}
			case link.EffectAdmitted:
				return 0
			case link.EffectClose:
				return e.Close.Reason
			}
		}
		if event.Kind == 0 {
			record, err := p.next()
			if err != nil {
				p.t.Fatalf("in the handshake: %v", err)
			}
			event = link.Event{Kind: link.EventReceived, Record: record}
		}
	}
}

// hello is the first record of a dialler with that configuration.
func hello(t *testing.T, c *link.Config, expect string) []byte {
	t.Helper()
	d := link.NewDialler(c, expect, nonce())
	if err := d.Step(clock.Now(), link.Event{Kind: link.EventOpened}); err != nil {
		t.Fatal(err)
	}
	return d.Effects(nil)[0].Record
}

// altered returns a record with its body changed and its length set right.
func altered(record []byte, change func(body []byte) []byte) []byte {
	record = slices.Clone(record)
	record = append(record[:wire.HeaderSize:wire.HeaderSize], change(record[wire.HeaderSize:])...)
	binary.BigEndian.PutUint32(record, uint32(len(record)-4))
	return record
}

// flagged returns a record with more flags.
func flagged(record []byte, flags byte) []byte {
	record = slices.Clone(record)
	record[5] |= flags
	return record
}

func longer(body []byte) []byte  { return append(body, 0) }
func shorter(body []byte) []byte { return body[:len(body)-1] }

// Whoever does not pass the handshake is told why at most, and gets nothing.
func TestStrangersGetNoLink(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		good := hello(t, linkConfig(t, nil), s.owner.RID())
		with := func(change func(*link.Config)) []byte { return hello(t, linkConfig(t, change), "") }
		prefix := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
		var noise [3000]byte
		r := mathrand.New(mathrand.NewPCG(1, 2))
		for i := range noise {
			noise[i] = byte(r.Uint32())
		}
		noise[0] |= 1
		const untold = wire.RejectReason(0)
		for _, c := range []struct {
			name   string
			sent   []byte
			reason wire.RejectReason
		}{
			{"noise", noise[:], untold},
			{"HTTP", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), untold},
			{"a STREAM frame", frames(t, request(1, "login", `{"ID":"a"}`)), untold},
			{"a length of 0", prefix(0), untold},
			{"a length of 1", append(prefix(1), 1), untold},
			{"a length over that of any hello", prefix(wire.PreAdmitMax - 3), untold},
			{"a length of 4 GiB", prefix(1<<32 - 1), untold},
			{"an unknown command", []byte{0, 0, 0, 2, 4, 0}, wire.RejectProtocolError},
			{"an unknown flag", flagged(good, 0x80), wire.RejectProtocolError},
			{"a hello cut short", altered(good, shorter), wire.RejectProtocolError},
			{"a hello with something behind it", altered(good, longer), wire.RejectProtocolError},
			{"another mesh", with(func(c *link.Config) { c.Mesh = "other" }), wire.RejectBadMesh},
			{"a newer version only", with(func(c *link.Config) { c.MinVersion = wire.Version + 1 }), wire.RejectBadVersion},
			{"the node's own RID", with(func(c *link.Config) { c.RID = s.owner.RID() }), wire.RejectSelfDial},
			{"a call for another node", hello(t, linkConfig(t, nil), "somebody"), wire.RejectWrongPeer},
			{"two hellos", slices.Concat(good, good), wire.RejectProtocolError},
			{"an admit with a guessed MAC", slices.Concat(good, (&wire.Admit{Window: wire.MinWindow, Version: 1}).AppendTo(nil)), wire.RejectBadKey},
		} {
			p := s.peer(t)
			p.write(c.sent)
			if reason := p.end(); reason != c.reason {
				t.Errorf("%s: refused with %v, want %v", c.name, reason, c.reason)
			}
			b.served()
		}
		before := s.owner.Stats().LinksRefused
		if p := s.peer(t); p.handshake(linkConfig(t, func(c *link.Config) { c.Keys = [][]byte{[]byte("not the key of this mesh")} }), "") != wire.RejectBadKey {
			t.Error("another mesh key was not refused as such")
		} else {
			p.end()
		}
		s.await("the refused link's count", func() bool { return s.owner.Stats().LinksRefused == before+1 })
		b.untouched()
	})
}

// Nothing but the handshake is taken before it is over.
func TestRecordsBeforeAdmissionCloseTheConnection(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		for _, r := range linkRecords() {
			record := r.AppendTo(nil)
			_, isHello := r.(*wire.Hello)
			_, isAdmit := r.(*wire.Admit)
			_, isReject := r.(*wire.Reject)
			want := wire.RejectProtocolError
			if isReject {
				want = 0 // its sender knows
			}
			if !isHello {
				p := s.peer(t)
				p.write(record)
				if reason := p.end(); reason != want {
					t.Errorf("%T first: %v, want %v", r, reason, want)
				}
			}
			if !isAdmit {
				p := s.peer(t)
				p.write(slices.Concat(hello(t, linkConfig(t, nil), ""), record))
				if reason := p.end(); reason != want {
					t.Errorf("%T in place of an admit: %v, want %v", r, reason, want)
				}
			}
		}
		b.untouched()
	})
}

// Everything that a dialler said in a handshake that was accepted is worth
// nothing on another connection.
func TestARecordedHandshakeIsWorthless(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		first := s.peer(t)
		if reason := first.handshake(linkConfig(t, nil), s.owner.RID()); reason != 0 {
			t.Fatalf("the handshake to record was refused: %v", reason)
		}
		recorded := slices.Clone(first.sent)
		replay := func() {
			t.Helper()
			p := s.peer(t)
			p.write(recorded)
			if reason := p.end(); reason != wire.RejectBadKey {
				t.Errorf("the recording was refused with %v", reason)
			}
		}
		replay()
		first.send(&wire.Probe{ID: 7}) // the first connection is not touched by it
		if r, ok := first.read().(*wire.Ack); !ok || r.ID != 7 {
			t.Errorf("%+v, want the answer to a probe", r)
		}
		first.conn.Close()
		replay()
		b.served()
	})
}

// impostor returns a port at which the Store says that the evil node is, an object server.
func (w *world) impostor() net.Listener {
	w.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { ln.Close() })
	st := w.location()
	lease, err := st.AcquireLease(w.ctx, evil, "impostor", time.Minute)
	if err != nil || lease.Reason != store.Applied {
		w.t.Fatal(lease, err)
	}
	reason, err := st.PublishNode(w.ctx, lease.Lease, store.Descriptor{
		RID: evil, Lifecycle: lease.Lease.Gen, Mesh: "main", Endpoint: ln.Addr().String(), Role: store.RoleServer, State: store.Serving,
	})
	if err != nil || reason != store.Applied {
		w.t.Fatal(reason, err)
	}
	return ln
}

// A node that dials an impostor, who has its address in the Store and not the
// key, sends its own hello and admit and takes neither back.
func TestANodeDoesNotTakeItsOwnWordsForAnAnswer(t *testing.T) {
	oneGateway(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		ln := s.impostor()
		// renamed is the node's hello with the impostor's RID for its own.
		renamed := func(record []byte) []byte {
			h, err := wire.DecodeHello(record[wire.HeaderSize:])
			if err != nil {
				t.Fatal(err)
			}
			h.RID, h.ExpectRID = h.ExpectRID, h.RID
			return h.AppendTo(nil)
		}
		for _, c := range []struct {
			name   string
			answer func(p *peer, hello []byte)
			reason wire.RejectReason
		}{
			{"its hello", func(p *peer, hello []byte) { p.write(hello) }, wire.RejectSelfDial},
			{"its hello and its admit", func(p *peer, hello []byte) {
				p.write(renamed(hello))
				admit, err := p.next()
				if err != nil {
					t.Error(err)
				}
				p.write(admit)
			}, wire.RejectBadKey},
			{"another node's hello", func(p *peer, _ []byte) {
				p.write(hello(t, linkConfig(t, func(c *link.Config) { c.RID = "y-another" }), s.owner.RID()))
			}, wire.RejectWrongPeer},
			{"a hello for another node", func(p *peer, _ []byte) { p.write(hello(t, linkConfig(t, nil), "somebody")) }, wire.RejectWrongPeer},
			{"an admit", func(p *peer, _ []byte) { p.send(&wire.Admit{Window: wire.MinWindow, Version: 1}) }, wire.RejectProtocolError},
		} {
			conn, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			p := newPeer(t, conn)
			hello, err := p.next()
			if err != nil {
				t.Fatal(err)
			}
			c.answer(p, hello)
			if reason := p.end(); reason != c.reason {
				t.Errorf("the node took %s: %v, want %v", c.name, reason, c.reason)
			}
			b.served()
		}
		b.untouched()
	})
}

// A connection that does not get on with the handshake is closed by the hello
// deadline, which no byte moves.
func TestASlowHandshakeIsClosed(t *testing.T) {
	oneGateway(t, func(t *testing.T, s *stage) {
		b := s.bystander(t)
		good := hello(t, linkConfig(t, nil), "")
		began := time.Now()
		var wg sync.WaitGroup
		for _, sent := range [][]byte{nil, good[:1], good[:len(good)-1], good} {
			p := s.peer(t)
			p.write(sent)
			wg.Go(func() {
				p.end()
				if d := time.Since(began); d < 1900*time.Millisecond {
					t.Errorf("after %d bytes the node closed in %v", len(sent), d)
				}
			})
		}
		dripping := s.peer(t)
		wg.Go(func() {
			// Each byte waits for an answer to an earlier one that never comes, so
			// the pace is the deadline of the read.
			for _, octet := range good {
				dripping.write([]byte{octet})
				_ = dripping.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				if _, err := dripping.conn.Read(make([]byte, 1)); err != nil && !isTimeout(err) {
					return // closed
				}
			}
			t.Error("the node let a hello drip in")
		})
		b.served()
		wg.Wait()
		b.untouched()
	})
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
