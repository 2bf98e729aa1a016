package zlnode_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// asked is a client that marks each of its requests, and knows the marks of what comes back.
type asked struct {
	*stream
	marks map[uint64]session.Packet
	ended map[uint64]int
}

func newAsked(c *stream) *asked {
	return &asked{c, map[uint64]session.Packet{}, map[uint64]int{}}
}

// marked is a request with a correlation and a flow of its own.
func (a *asked) marked(seq uint64, name, payload string) session.Packet {
	p := request(seq, name, payload)
	p.Correlation = fmt.Appendf(nil, "c-%d", seq)
	p.Flow, p.Origin = fmt.Appendf(nil, "01a22840-d4b2-7584-83ed-%012x", seq), uint8(1+seq%4)
	a.marks[seq] = p
	return p
}

// judge looks at the answer to some request.
func (a *asked) judge(p session.Packet) {
	a.t.Helper()
	q, known := a.marks[p.Seq]
	if a.ended[p.Seq]++; !known || a.ended[p.Seq] > 1 {
		a.t.Errorf("answer %d to request %d: %s", a.ended[p.Seq], p.Seq, p.Payload)
	}
	if !bytes.Equal(p.Correlation, q.Correlation) || !bytes.Equal(p.Flow, q.Flow) || p.Origin != q.Origin || len(p.Name) != 0 {
		a.t.Errorf("%v to %d has correlation %q, flow %q, origin %d and name %q", p.Kind, p.Seq, p.Correlation, p.Flow, p.Origin, p.Name)
	}
}

// all fails the test unless each request has had its end, and there is nothing more.
func (a *asked) all() {
	a.t.Helper()
	a.drained()
	for _, p := range a.held {
		a.judge(p)
	}
	a.held = nil
	for seq := range a.marks {
		if a.ended[seq] != 1 {
			a.t.Errorf("request %d has %d ends", seq, a.ended[seq])
		}
	}
}

// However a request ends, its answer is one frame with the request's sequence, correlation and
// flow.
func TestEachRequestIsAnsweredOnceWithItsOwnMarks(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		a := newAsked(s.stream(t))
		for i, r := range []struct {
			name, payload string
			kind          session.Kind
		}{
			{"note", `1`, session.KindError}, // no Actor is bound
			{"login", `{"ID":"a"}`, session.KindResponse},
			{"mark", `1`, session.KindResponse},
			{"mark", `{`, session.KindError},
			{"nothing", `1`, session.KindError},
			{"add", `1`, session.KindError}, // of a type that is not bound
			{"fail in session", `"kind"`, session.KindError},
			{"fail in session", `"plain"`, session.KindError},
			{"fail in session", `"panic"`, session.KindError},
			{"fail in session", `"exit"`, session.KindError},
			{"blow session", `1048575`, session.KindError},
			{"note", `1`, session.KindResponse},
			{"note", `{`, session.KindError},
			{"greet", `1`, session.KindError}, // the Actor takes it one-way only
			{"fail in actor", `"kind"`, session.KindError},
			{"fail in actor", `"plain"`, session.KindError},
			{"fail in actor", `"panic"`, session.KindError},
			{"fail in actor", `"exit"`, session.KindError},
			{"blow", `1048575`, session.KindError},
		} {
			a.write(a.marked(uint64(i+1), r.name, r.payload))
			p := a.read()
			if a.judge(p); p.Kind != r.kind {
				t.Errorf("%s %s: %v %s", r.name, r.payload, p.Kind, p.Payload)
			}
		}
		a.all()
	})
}

// Requests whose handlers take too long, behind which others wait.
func TestRequestsThatEndWithoutTheirHandlerAreAnsweredOnce(t *testing.T) {
	onEachStageWith(t, func(c *zlnode.Config) { c.RequestTimeout = 300 * time.Millisecond }, func(t *testing.T, s *stage) {
		a := newAsked(s.stream(t))
		a.write(a.marked(1, "login", `{"ID":"a"}`))
		a.judge(a.read())
		a.write(a.marked(2, "stop", `{}`), a.marked(3, "note", "1"))
		receive(t, s.gate.entered)
		for range 2 {
			a.judge(a.read())
		}
		s.gate.open <- struct{}{} // the handler's reply is for nobody
		a.write(a.marked(4, "note", "2"))
		a.judge(a.read())
		a.all()
	})
}

// An Actor is destroyed while requests of its client wait for it.
func TestRequestsOfADestroyedActorAreAnsweredOnce(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		a := newAsked(s.stream(t))
		a.write(a.marked(1, "login", `{"ID":"a"}`))
		a.judge(a.read())
		a.write(a.marked(2, "stop", `{}`))
		receive(t, s.gate.entered)
		destroyed := make(chan error, 1)
		go func() {
			ref, _, err := s.gateway.FindActor(s.ctx, "a")
			if err == nil {
				_, err = s.gateway.DestroyActor(s.ctx, ref)
			}
			destroyed <- err
		}()
		for seq := uint64(3); seq < 20; seq++ {
			a.write(a.marked(seq, "note", "1"))
		}
		s.gate.open <- struct{}{}
		for range 18 {
			a.judge(a.read())
		}
		if err := receive(t, destroyed); err != nil {
			t.Error(err)
		}
		a.write(a.marked(20, "note", "1"))
		p := a.read()
		if a.judge(p); p.Kind != session.KindError {
			t.Errorf("%v %s", p.Kind, p.Payload)
		}
		a.all()
	})
}

// A client that uses a number again before its answer has come gets both answers, each with
// the marks of its own request.
func TestRequestsOfOneNumberAreTwoRequests(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`))
		c.answer(1)
		for _, name := range []string{"mark", "note"} {
			first, second := request(2, name, "11"), request(2, name, "22")
			first.Correlation, second.Correlation = []byte("first"), []byte("second")
			c.write(first, second)
			for _, want := range []session.Packet{first, second} {
				if p := c.answer(2); !bytes.Equal(p.Correlation, want.Correlation) || !bytes.Equal(p.Payload, want.Payload) {
					t.Errorf("%s: %s with %q came, want %s with %q", name, p.Payload, p.Correlation, want.Payload, want.Correlation)
				}
			}
		}
		c.drained()
		if len(c.held) != 0 {
			t.Errorf("%d more came", len(c.held))
		}
	})
}

// A Session that its handler closes sends nothing behind its last word, also not the answers
// to requests that are under way.
func TestNothingFollowsTheEndOfASession(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		a := newAsked(s.stream(t))
		a.write(a.marked(1, "login", `{"ID":"a"}`))
		a.judge(a.read())
		a.write(a.marked(2, "stop", `{}`), a.marked(3, "note", "1"), a.marked(4, "quit", `"bye"`), a.marked(5, "mark", "1"))
		receive(t, s.gate.entered)
		if p := a.read(); string(p.Name) != "farewell" {
			t.Errorf("%v %q", p.Kind, p.Name)
		}
		if e := a.end(); !e.orderly || !e.told || e.frames != 0 {
			t.Errorf("the server ended with %+v", e)
		}
		a.conn.Close()
		receive(t, s.closed)
		s.gate.open <- struct{}{}
		if _, err := s.ask("a", "bound", nil); err != nil { // behind the answer to nobody
			t.Error(err)
		}
		if st := s.gateway.Stats(); st.Panics != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A request waits for its Actor's move, and is answered by the new node; another was carried
// along.
func TestRequestsOfAnActorThatMovesAreAnsweredWithTheirMarks(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		a := newAsked(m.client)
		a.write(a.marked(11, "note", "1"))
		carried := m.old.packet("1").Correlation
		m.seal()
		for seq := uint64(12); seq < 16; seq++ {
			a.write(a.marked(seq, "note", fmt.Sprint(seq)))
		}
		m.client.drained()
		m.old.send(m.drained())
		m.new.send(m.end(m.new), &wire.RelayedReply{
			To:          wire.Process{RID: []byte(m.gateway.RID()), Lifecycle: m.gateway.Lifecycle()},
			Via:         wire.Process{RID: []byte(m.old.ref.RID), Lifecycle: m.old.ref.Lifecycle},
			Correlation: carried, Success: true, Codec: 1, Payload: []byte("1"),
		})
		for seq := uint64(12); seq < 16; seq++ {
			p := m.new.packet(fmt.Sprint(seq))
			if seq%2 == 0 {
				m.new.send(&wire.Reply{Correlation: p.Correlation, Codec: 1, Payload: []byte("33")})
			} else {
				m.new.send(&wire.ErrorReply{Correlation: p.Correlation, Kind: uint8(zlnode.Rejected), Text: []byte("no")})
			}
			m.new.send(&wire.Reply{Correlation: p.Correlation, Codec: 1, Payload: []byte("once more")})
		}
		for range 5 {
			a.judge(a.read())
		}
		a.all()
	})
}
