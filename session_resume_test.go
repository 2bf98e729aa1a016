package zlnode_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/session"
)

// comeBack asks to go on where another Session was, and cameBack is the answer.
type comeBack struct {
	Token string
	Last  uint64
}

type cameBack struct {
	Token   string
	Resumed zlnode.Resumed
}

// defineResuming has Sessions of the type give a token, and resume others.
func defineResuming[S any](v *zlnode.SessionType[S]) {
	zlnode.OnPacketRequest(v, "token", func(c *zlnode.SessionCall, _ *S, _ struct{}) (string, error) { return c.Session().ResumeToken() })
	zlnode.OnPacketRequest(v, "resume", func(c *zlnode.SessionCall, _ *S, q comeBack) (a cameBack, err error) {
		if a.Token, err = c.Session().ResumeToken(); err == nil {
			a.Resumed, err = c.Session().Resume(c, q.Token, q.Last)
		}
		return a, err
	})
	zlnode.OnPacketRequest(v, "resume without a token", func(c *zlnode.SessionCall, _ *S, q comeBack) (zlnode.Resumed, error) {
		return c.Session().Resume(c, q.Token, q.Last)
	})
}

// gracious gives Sessions a long grace.
func gracious(c *zlnode.Config) { c.Sessions[0].ReconnectGrace = time.Minute }

// returner is a client that may lose its connection and come back.
type returner struct {
	*stream
	token string
	last  uint64 // the number of the latest push
}

// returner logs in as the avatar of that id.
func (s *stage) returner(t *testing.T, id string) *returner {
	t.Helper()
	r := &returner{stream: s.stream(t)}
	r.write(request(1, "login", `{"ID":"`+id+`"}`), request(2, "token", `{}`))
	r.answered(1, nil)
	r.answered(2, &r.token)
	return r
}

// answered reads the answer to that request, which is no Error.
func (c *stream) answered(seq uint64, into any) {
	c.t.Helper()
	p := c.answer(seq)
	if p.Kind != session.KindResponse {
		c.t.Fatalf("request %d: %s", seq, p.Payload)
	}
	if into != nil {
		if err := json.Unmarshal(p.Payload, into); err != nil {
			c.t.Fatal(err)
		}
	}
}

// refused reads the Error to that request.
func (c *stream) refused(seq uint64, kind zlnode.Kind) {
	c.t.Helper()
	p := c.answer(seq)
	if got, text, err := session.ParseErrorBody(p.Payload); p.Kind != session.KindError || err != nil || got != kind {
		c.t.Fatalf("%v %s (%v %v), want an Error of kind %v", p.Kind, p.Payload, text, err, kind)
	}
}

// ticks reads the pushes of these numbers, and that each has the next number of its Session.
func (r *returner) ticks(from, to int) {
	r.t.Helper()
	for n := from; n < to; n++ {
		p := r.read()
		r.last++
		if string(p.Name) != "tick" || string(p.Payload) != strconv.Itoa(n) || p.Meta.PushNumber() != r.last {
			r.t.Fatalf("%v %q %s with number %d came, want tick %d with %d", p.Kind, p.Name, p.Payload, p.Meta.PushNumber(), n, r.last)
		}
	}
}

// drop resets the connection.
func (c *stream) drop() {
	c.t.Helper()
	if err := c.conn.SetLinger(0); err != nil {
		c.t.Fatal(err)
	}
	c.conn.Close()
}

// back connects anew and asks to resume.
func (r *returner) back(s *stage) {
	r.t.Helper()
	q := comeBack{r.token, r.last}
	r.stream, r.last = s.stream(r.t), 0
	r.write(request(1, "resume", jsonOf(r.t, q)))
}

// resumed reads the answer to that.
func (r *returner) resumed() (a cameBack) {
	r.t.Helper()
	r.answered(1, &a)
	r.token = a.Token
	return a
}

func (s *stage) tick(id string, n int) {
	s.t.Helper()
	if _, err := s.ask(id, "tick", n); err != nil {
		s.t.Fatal(err)
	}
}

// reserved waits until that many Sessions are reserved.
func (s *stage) reserved(n int) {
	s.t.Helper()
	s.eventually(fmt.Sprint(n, " sessions are reserved"), func() bool { return s.gateway.Stats().SessionsReserved == n })
}

// A client whose connection is lost comes back as another Session, under another generation of
// the binding. It gets each push once and in order, whether the old connection had taken it or
// not, and nobody is told that it was away.
// req: FO-15
func TestAClientThatComesBackMissesNothing(t *testing.T) {
	for _, end := range []string{"reset", "end of stream", "half-open"} {
		t.Run(end, func(t *testing.T) {
			onEachStageWith(t, gracious, func(t *testing.T, s *stage) {
				r := s.returner(t, "a")
				before, err := zlnode.Request[zlnode.SessionRef](s.ctx, s.gateway.Actor("a"), "whose", struct{}{})
				if err != nil {
					t.Fatal(err)
				}
				s.tick("a", 5)
				r.ticks(0, 3)
				old := r.stream
				switch end {
				case "reset":
					old.drop()
				case "end of stream":
					old.conn.Close()
				case "half-open":
				}
				s.tick("a", 3)
				if end != "half-open" {
					s.reserved(1)
					s.tick("a", 2)
				}
				r.back(s)
				sent := 7
				if end == "half-open" {
					sent = 5
				}
				r.ticks(3, 3+sent)
				if a := r.resumed(); len(a.Resumed.Actors) != 1 || a.Resumed.Actors[0].ID != "a" || len(a.Resumed.Gone) != 0 || a.Resumed.Pushes != sent {
					t.Errorf("%+v", a.Resumed)
				}
				s.tick("a", 2)
				r.ticks(3+sent, 5+sent)
				r.write(request(7, "note", "7"))
				r.answered(7, nil)
				if why := receive(t, s.closed); why.Code != zlnode.SessionResumed {
					t.Errorf("the old session ended: %v", why)
				}
				after, err := zlnode.Request[zlnode.SessionRef](s.ctx, s.gateway.Actor("a"), "whose", struct{}{})
				if err != nil || after.ID == before.ID || after.Binding <= before.Binding {
					t.Errorf("bound as %+v, before as %+v %v", after, before, err)
				}
				if end == "half-open" {
					if e := old.end(); !e.told || session.ClosingWord(e.diag) != session.WordReplaced {
						t.Errorf("the old connection ended with %+v", e)
					}
				}
				if st := s.gateway.Stats(); st.SessionsReserved != 0 || st.SessionsResumed != 1 || st.Sessions != 1 || st.SessionsTaken != 0 || st.PushesRefused != 0 {
					t.Errorf("%+v", st)
				}
				if told := slices.Concat(s.journal.of("disconnected"), s.journal.of("replaced"), s.journal.of("notice")); len(told) != 0 {
					t.Errorf("told %v", told)
				}
			})
		})
	}
}

func shortGrace(c *zlnode.Config) { c.Sessions[0].ReconnectGrace = time.Millisecond }

// When the grace is over, the Session ends like any other.
func TestAClientThatStaysAwayIsMissedOnce(t *testing.T) {
	onEachStageWith(t, shortGrace, func(t *testing.T, s *stage) {
		r := s.returner(t, "a")
		s.tick("a", 1)
		r.drop()
		if why := receive(t, s.closed); why.Code != zlnode.ConnectionLost {
			t.Errorf("ended with %v", why)
		}
		s.hears("a away", "a gone")
		s.isAway("a", false)
		r.back(s)
		r.refused(1, zlnode.NotFound)
		r.write(request(2, "login", `{"ID":"a"}`))
		r.answered(2, nil)
		s.tick("a", 1)
		r.ticks(1, 2)
		if told := s.journal.of("client"); len(told) != 0 {
			t.Errorf("told of %v", told)
		}
		if st := s.gateway.Stats(); st.SessionsReserved != 0 || st.KeptBytes == 0 {
			t.Errorf("%+v", st)
		}
	})
}

// noSession fails unless no Session has that token. Its own Session is closed in order.
func (s *stage) noSession(t *testing.T, token string) {
	t.Helper()
	c := s.stream(t)
	c.write(request(1, "resume without a token", jsonOf(t, comeBack{Token: token})))
	c.refused(1, zlnode.NotFound)
	c.writeBytes(session.AppendClosing(nil, session.ClientClose, ""))
	c.end()
	c.conn.Close()
	if why := receive(t, s.closed); why.Code != zlnode.ClientClosed {
		t.Errorf("ended with %v", why)
	}
}

// Only a lost connection is a reason to reserve a Session.
func TestASessionThatIsClosedIsNotReserved(t *testing.T) {
	onEachStageWith(t, func(c *zlnode.Config) {
		gracious(c)
		c.Sessions[0].IdleTimeout = time.Second
	}, func(t *testing.T, s *stage) {
		for i, end := range []struct {
			code zlnode.DisconnectCode
			do   func(c *stream)
		}{
			{zlnode.ClientClosed, func(c *stream) { c.writeBytes(session.AppendClosing(nil, session.ClientClose, "")) }},
			{zlnode.SessionKicked, func(c *stream) { c.write(send("quit", `"enough"`), request(9, "quit", `"enough"`)) }},
			{zlnode.ClientFault, func(c *stream) { c.write(session.Packet{Kind: session.KindResponse, Seq: 1}) }},
			{zlnode.ClientIdle, func(*stream) {}},
		} {
			r := s.returner(t, fmt.Sprint("a", i))
			end.do(r.stream)
			r.end()
			r.conn.Close()
			if why := receive(t, s.closed); why.Code != end.code {
				t.Errorf("ended with %v, want %v", why, end.code)
			}
			s.disconnected(i + 1)
			s.noSession(t, r.token)
		}
		if st := s.gateway.Stats(); st.KeptBytes != 0 || st.SessionsReserved != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A token is its node's. At another gateway the client logs in as if for the first time; its
// reserved Session has lost its Actor, and ends without a word to it.
// req: FO-15
func TestAClientThatComesBackElsewhereLogsIn(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		s := newStage(w)
		s.owner = s.server("b-owner", s.app())
		gateway := func(rid string) *zlnode.Node {
			n := s.startWith(zlnode.Config{RID: rid, Role: zlnode.RoleClient}, gracious)
			s.linked(n, 1)
			return n
		}
		first, second := gateway("a1-gateway"), gateway("a2-gateway")
		s.gateway = first
		r := s.returner(t, "a")
		other := s.returner(t, "b")
		s.tick("a", 1)
		r.drop()
		s.reserved(1)
		s.gateway = second
		r.back(s)
		r.refused(1, zlnode.NotFound)
		r.write(request(2, "login", `{"ID":"a"}`))
		r.answered(2, nil)
		if why := receive(t, s.closed); why.Code != zlnode.SessionReplaced {
			t.Errorf("the reserved session ended with %v", why)
		}
		s.tick("a", 1)
		r.ticks(1, 2)
		r.write(request(3, "note", "3"))
		r.answered(3, nil)
		if told := slices.Concat(s.journal.of("disconnected"), s.journal.of("replaced")); len(told) != 0 {
			t.Errorf("told %v", told)
		}
		if st := first.Stats(); st.SessionsReserved != 0 || st.Sessions != 1 {
			t.Errorf("%+v", st)
		}
		s.tick("b", 1)
		other.ticks(0, 1)
	})
}

// A token is good for one Session, and only for one that has not ended.
func TestATokenIsUsedOnce(t *testing.T) {
	onEachStageWith(t, gracious, func(t *testing.T, s *stage) {
		r := s.returner(t, "a")
		used := r.token
		r.drop()
		s.reserved(1)
		r.back(s)
		r.resumed()
		if r.token == used || len(r.token) != 32 {
			t.Errorf("the new token is %q, the old one %q", r.token, used)
		}
		if why := receive(t, s.closed); why.Code != zlnode.SessionResumed {
			t.Errorf("ended with %v", why)
		}
		s.noSession(t, used)
		s.noSession(t, "")
		r.write(request(3, "resume", jsonOf(t, comeBack{Token: r.token})))
		r.refused(3, zlnode.NotFound) // its own
		s.tick("a", 1)
		r.ticks(0, 1)
	})
}

// A client of which pushes are missing is told so, and its old Session ends.
func TestMissingPushesAreTold(t *testing.T) {
	few := func(c *zlnode.Config) {
		gracious(c)
		c.Sessions[0].ReconnectBytes = 1 << 10
	}
	onEachStageWith(t, few, func(t *testing.T, s *stage) {
		for i, last := range []uint64{1, 101} {
			r := s.returner(t, fmt.Sprint("a", i))
			s.tick(fmt.Sprint("a", i), 100) // of some 60 bytes each
			r.ticks(0, 100)
			r.drop()
			s.reserved(1)
			r.last = last
			r.back(s)
			r.refused(1, zlnode.DataLost)
			if why := receive(t, s.closed); why.Code != zlnode.ConnectionLost {
				t.Errorf("ended with %v", why)
			}
			s.disconnected(i + 1)
			r.write(request(2, "login", `{"ID":"b"}`))
			r.answered(2, nil) // the new Session is as good as any
		}
		r := s.returner(t, "c")
		s.tick("c", 100)
		r.ticks(0, 100)
		r.drop()
		s.reserved(1)
		r.last = 99
		r.back(s)
		r.ticks(99, 100)
		r.resumed()
	})
}

// More than is kept is pushed to a client that is away. Its Session ends when the first push
// is gone that it never got.
func TestAReservedSessionEndsWhenAPushIsLost(t *testing.T) {
	few := func(c *zlnode.Config) {
		gracious(c)
		c.Sessions[0].ReconnectBytes = 1 << 10
	}
	onEachStageWith(t, few, func(t *testing.T, s *stage) {
		r := s.returner(t, "a")
		s.tick("a", 50)
		r.drop()
		s.reserved(1)
		s.tick("a", 10) // drive out only what was sent
		if s.gateway.Stats().SessionsReserved != 1 {
			t.Error("the session has ended early")
		}
		_, _ = s.ask("a", "tick", 50) // may fail, if the Session ends meanwhile
		if why := receive(t, s.closed); why.Code != zlnode.ConnectionLost || !strings.Contains(why.Text, "more was pushed") {
			t.Errorf("ended with %v", why)
		}
		s.disconnected(1)
		s.noSession(t, r.token)
		if st := s.gateway.Stats(); st.KeptBytes != 0 || st.SessionsReserved != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// What has become of an Actor meanwhile is told.
func TestAnActorThatIsGoneIsNamed(t *testing.T) {
	onEachStageWith(t, gracious, func(t *testing.T, s *stage) {
		r := s.returner(t, "a")
		r.write(request(3, "login", `{"ID":"b"}`), request(4, "login", `{"ID":"c"}`))
		var gone zlnode.ActorRef
		r.answered(3, &gone)
		r.answered(4, nil)
		r.drop()
		s.reserved(1)
		s.tick("b", 1)
		if _, err := s.gateway.DestroyActor(s.ctx, gone); err != nil {
			t.Fatal(err)
		}
		s.tick("a", 1)
		s.tick("c", 1)
		r.back(s)
		r.ticks(0, 1) // of b
		r.ticks(0, 1)
		r.ticks(0, 1)
		a := r.resumed().Resumed
		if len(a.Actors) != 2 || a.Actors[0].ID != "a" || a.Actors[1].ID != "c" || len(a.Gone) != 1 || a.Gone[0] != gone {
			t.Errorf("%+v", a)
		}
		if lost := s.journal.of("disconnected"); len(lost) != 0 {
			t.Errorf("told of %v", lost)
		}
	})
}

// A node that stops ends what it has reserved.
func TestANodeThatStopsEndsReservedSessions(t *testing.T) {
	onEachStageWith(t, gracious, func(t *testing.T, s *stage) {
		r := s.returner(t, "a")
		s.tick("a", 1)
		r.drop()
		s.reserved(1)
		s.stop(s.gateway)
		if why := receive(t, s.closed); why.Code != zlnode.NodeStopping {
			t.Errorf("ended with %v", why)
		}
		if lost := s.journal.of("disconnected"); len(lost) > 1 || len(lost) == 0 && s.gateway == s.owner {
			t.Errorf("told of %v", lost)
		}
	})
}

// An Actor that has a reserved Session closed ends it.
func TestAReservedSessionIsKicked(t *testing.T) {
	onEachStageWith(t, gracious, func(t *testing.T, s *stage) {
		r := s.returner(t, "a")
		r.drop()
		s.reserved(1)
		if _, err := s.ask("a", "kick", "go"); err != nil {
			t.Fatal(err)
		}
		if why := receive(t, s.closed); why.Code != zlnode.SessionKicked || why.Text != "go" {
			t.Errorf("ended with %v", why)
		}
		s.disconnected(1)
		s.noSession(t, r.token)
	})
}

// A Session that never asked for a token has no numbers, and nothing is kept of it.
func TestWithoutATokenNothingIsKept(t *testing.T) {
	onEachStageWith(t, gracious, func(t *testing.T, s *stage) {
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`))
		c.answered(1, nil)
		s.tick("a", 2)
		for range 2 {
			if p := c.read(); string(p.Name) != "tick" || p.Meta != nil {
				t.Errorf("%+v", p)
			}
		}
		if st := s.gateway.Stats(); st.KeptBytes != 0 {
			t.Errorf("%d bytes are kept", st.KeptBytes)
		}
		c.drop()
		if why := receive(t, s.closed); why.Code == zlnode.SessionResumed {
			t.Errorf("ended with %v", why)
		}
		s.disconnected(1)
	})
}

func TestWithoutAGraceThereIsNoToken(t *testing.T) {
	oneGateway(t, func(t *testing.T, s *stage) {
		c := s.stream(t)
		c.write(request(1, "token", `{}`), request(2, "resume without a token", `{"Token":"0"}`), request(3, "login", `{"ID":"a"}`))
		c.refused(1, zlnode.InvalidOperation)
		c.refused(2, zlnode.InvalidOperation)
		c.answered(3, nil)
	})
}

// A Session without a token of its own resumes another one: its pushes have no numbers.
func TestASessionWithoutATokenResumesAnother(t *testing.T) {
	onEachStageWith(t, gracious, func(t *testing.T, s *stage) {
		r := s.returner(t, "a")
		s.tick("a", 3)
		r.ticks(0, 3)
		r.drop()
		s.reserved(1)
		s.tick("a", 1)
		c := s.stream(t)
		c.write(request(1, "resume without a token", jsonOf(t, comeBack{r.token, 2})))
		for _, want := range []string{"2", "3"} {
			if p := c.read(); string(p.Payload) != want || p.Meta != nil {
				t.Errorf("%+v, want tick %s", p, want)
			}
		}
		c.answered(1, nil)
		s.tick("a", 1)
		if p := c.read(); string(p.Payload) != "4" || p.Meta != nil {
			t.Errorf("%+v", p)
		}
		if kept := s.gateway.Stats().KeptBytes; kept != 0 {
			t.Errorf("%d bytes are kept", kept)
		}
	})
}
