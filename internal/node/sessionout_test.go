package node

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// mute is a client that says that it is there, and reads nothing unless the test does. Its
// kernel takes little for it.
type mute struct {
	net.Conn
	s *sessionConn
}

// dialMute connects a mute client whose first packet is a request, which is answered.
func dialMute(t *testing.T, n *Node, packet string, payload any) *mute {
	t.Helper()
	conn, err := net.Dial("tcp", n.SessionAddrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		conn.Close()
		<-stopped
	})
	if err := conn.(*net.TCPConn).SetReadBuffer(32 << 10); err != nil {
		t.Error(err)
	}
	b, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := session.Append(nil, &session.Packet{Kind: session.KindRequest, Codec: session.CodecJSON, Seq: 1, Name: []byte(packet), Payload: b})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, session.PrefixSize+1)); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(stopped)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_, _ = conn.Write(session.PongFrame()) // the test sees it if the server has closed it
			}
		}
	}()
	m := &mute{Conn: conn}
	n.sessions.Range(func(_ string, s *sessionConn) bool {
		if s.conn.RemoteAddr() == conn.LocalAddr().String() {
			m.s = s
		}
		return true
	})
	if m.s == nil {
		t.Fatal("its session is not there")
	}
	return m
}

// gateway is a node without Actors, and a mute client of it.
func gateway(t *testing.T, l SessionListener) (*Node, *mute) {
	t.Helper()
	l.Addr, l.Type = "127.0.0.1:0", "player"
	n := serve(t, Config{Sessions: []SessionListener{l}}, playersOnly())
	return n, dialMute(t, n, "hello", 1)
}

func playersOnly() *App {
	app := NewApp()
	app.Sessions["player"] = &SessionType{
		Name: "player", Factory: func(*SessionContext) (any, error) { return nil, nil },
		Requests: map[string]SessionRequestHandler{"hello": func(*SessionCall, any, []byte) (Reply, error) { return Reply{1, []byte("1")}, nil }},
	}
	return app
}

// fall pushes what must be delivered until the client is far behind, whatever the kernel
// still takes for it.
func (m *mute) fall(t *testing.T) {
	t.Helper()
	payload := make([]byte, 16<<10)
	for o := m.s.out.Load(); o == nil || o.bytes.Load() < 512<<10; o = m.s.out.Load() {
		if err := m.s.context.Push("fill", 0, nil, payload); err != nil {
			t.Fatal(err)
		}
	}
}

func TestANodeThatHoldsTooMuchDropsAndThenCloses(t *testing.T) {
	n, m := gateway(t, SessionListener{})
	m.fall(t)
	s, others := &m.s.context, outboxesBytesMax-n.waiting.Load()
	n.waiting.Add(others) // what other clients might have
	for range 1000 {
		if err := s.PushWith(PushOptions{Class: session.DropOldest}, "drop", 0, nil, make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if dropped, _ := s.Lost(); dropped < 500 || n.Stats().OutboxBytes > outboxesBytesMax {
		t.Errorf("%d dropped; %+v", dropped, n.Stats())
	}
	var err error
	for i := 0; err == nil && i < 400; i++ { // less than OutBytes
		err = s.Push("must", 0, nil, make([]byte, 1<<10))
	}
	if KindOf(err) != errkind.Unavailable || !m.s.slow.Load() {
		t.Errorf("%v", err)
	}
	until(t, "the session is over", func() bool { return n.sessions.Len() == 0 })
	if st := n.Stats(); st.SlowSessions != 1 || st.OutboxBytes != others {
		t.Errorf("%+v", st)
	}
	if err := s.Push("late", 0, nil, nil); KindOf(err) != errkind.Unavailable {
		t.Errorf("a push to a session that is over: %v", err)
	}
}

// A node that had no processor for a while did not see what its clients took.
func TestAClientIsNotTooSlowByThePauseOfItsNode(t *testing.T) {
	_, m := gateway(t, SessionListener{})
	m.fall(t)
	o, now := m.s.out.Load(), clock.Now()
	for range 10 {
		now = now.Add(time.Hour)
		o.sweep(now, true)
		o.sweep(now.Add(time.Second), false)
	}
	if m.s.slow.Load() {
		t.Fatal("it is closed")
	}
	until(t, "it takes nothing and is too slow", func() bool {
		now = now.Add(time.Hour)
		o.sweep(now, false)
		return m.s.slow.Load()
	})
}

func TestASessionGivesItsOutboxBack(t *testing.T) {
	_, m := gateway(t, SessionListener{})
	m.fall(t)
	go func() { _, _ = io.Copy(io.Discard, m) }() // ends with the connection
	until(t, "the outbox is gone", func() bool { return m.s.out.Load() == nil })
}

func TestWhatWaitsForAClientThatLeavesIsDropped(t *testing.T) {
	n, m := gateway(t, SessionListener{})
	m.fall(t)
	o := m.s.out.Load()
	m.Close()
	until(t, "nothing waits", func() bool {
		st := n.Stats()
		return st.Sessions == 0 && st.OutboxBytes == 0 && st.ClientsBehind == 0
	})
	if o.bytes.Load() != 0 || m.s.pending() != 0 {
		t.Errorf("%d bytes wait", m.s.pending())
	}
	if err := m.s.context.Push("late", 0, nil, nil); KindOf(err) != errkind.Unavailable {
		t.Errorf("a push to a session that is over: %v", err)
	}
	if err := m.s.putBehind(buf.Get(1), "", nil); err != errSessionClosed {
		t.Errorf("a push that was on its way: %v", err)
	}
	if st := n.Stats(); st.SlowSessions != 0 || st.ClientsBehind != 0 {
		t.Errorf("%+v", st)
	}
}

func TestAKeyIsItsActors(t *testing.T) {
	_, m := gateway(t, SessionListener{})
	m.fall(t)
	how := PushOptions{Class: session.NewestPerKey, Key: "hp"}
	for i, actor := range []string{"a", "b", "", "a"} {
		if err := m.s.send(actor, &how, "hp", 0, nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, replaced := m.s.context.Lost(); replaced != uint64(i/3) {
			t.Errorf("after the push of %q: %d replaced", actor, replaced)
		}
	}
}

// What a moving Actor's new node pushes early keeps its class.
func TestAPushThatIsKeptDuringAMoveKeepsItsClass(t *testing.T) {
	c := newCluster(t)
	cell := c.place(1, 1, binding{})
	m := dialMute(t, c.nodes[0], "bind", cell.ref)
	b := c.bindingOf(cell)
	if _, bound, err := cell.node.sealBinding(c.ctx, cell, b, [16]byte{1}); !bound || err != nil {
		t.Fatalf("bound %v, %v", bound, err)
	}
	first, ref := cell.node, cell.ref
	arrived := c.arrive(cell, b, 2, [16]byte{1})
	to := c.nodes[0].home.links.to(c.nodes[2].cfg.RID, 0)
	until(t, "the route leads to the new node", func() bool { return m.s.routes.Load().byActor["ada"].link == to })
	m.fall(t)
	key := bindingKey{link: to, session: m.s.id, gen: c.bindingOf(arrived).key.gen}
	for i := range 3 {
		how := PushOptions{Class: session.NewestPerKey, Key: "hp"}
		if err := m.s.pushFrom("ada", key, &how, "hp", 0, nil, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, replaced := m.s.context.Lost(); replaced != 0 {
		t.Fatalf("%d replaced before the owner before has ended", replaced)
	}
	first.drained(b, [16]byte{1}, ref)
	until(t, "what was kept is shown", func() bool {
		_, replaced := m.s.context.Lost()
		return replaced == 2
	})
}

// The node to which an Actor moves is told what waits, and believes only the Session that
// the Actor is bound to.
func TestAnActorKnowsWhatWaitsWhereverItMoves(t *testing.T) {
	c := newCluster(t)
	cell := c.place(1, 1, binding{})
	m := dialMute(t, c.nodes[0], "bind", cell.ref)
	m.fall(t)
	until(t, "the actor knows", func() bool { return c.bindingOf(cell).pending > outMark })
	move := [16]byte{1}
	cell = c.arrive(cell, c.leave(cell, move), 2, move)
	until(t, "it knows at its new node", func() bool { return c.bindingOf(cell).pending > outMark })
	b := c.bindingOf(cell)
	for _, stale := range []struct {
		link         *linkConn
		session, gen uint64
		objGen       uint64
	}{
		{b.key.link, b.key.session, b.key.gen + 1, 1},
		{b.key.link, b.key.session + 1, b.key.gen, 1},
		{c.nodes[2].home.links.to(c.nodes[1].cfg.RID, 0), b.key.session, b.key.gen, 1},
		{b.key.link, b.key.session, b.key.gen, 2},
	} {
		stale.link.pressure(&wire.Pressure{ID: []byte("ada"), ObjGen: stale.objGen, Session: stale.session, BindingGen: stale.gen, Pending: 1})
		if n := c.bindingOf(cell).pending; n <= outMark {
			t.Errorf("%+v was believed: %d", stale, n)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, m) }()
	until(t, "it knows that nothing waits", func() bool { return c.bindingOf(cell).pending == 0 })
}

// However often a node says what waits, the Actor's queue has one of it, and the Actor knows
// the last.
func TestWordsOfPressureDoNotPileUp(t *testing.T) {
	c := newCluster(t)
	cell := c.place(1, 1, binding{})
	dialMute(t, c.nodes[0], "bind", cell.ref)
	b := c.bindingOf(cell)
	entered, leave := make(chan struct{}), make(chan struct{})
	if err := cell.control(func(*turn) { close(entered); <-leave }); err != nil {
		t.Fatal(err)
	}
	<-entered
	before := cell.box.Len()
	for n := range uint64(10_000) {
		b.key.link.pressure(&wire.Pressure{ID: []byte("ada"), ObjGen: 1, Session: b.key.session, BindingGen: b.key.gen, Pending: n})
	}
	if n := cell.box.Len() - before; n > 1 {
		t.Errorf("%d of them wait", n)
	}
	close(leave)
	if n := c.bindingOf(cell).pending; n != 9_999 {
		t.Errorf("the actor knows of %d bytes", n)
	}
}

func TestWhatIsToldOfPressureIsRightButForAFactorOfTwo(t *testing.T) {
	told := int64(0)
	for _, step := range []struct{ pending, told int64 }{
		{1, 0},
		{outMark, 0},
		{outMark + 1, outMark + 1},
		{2*outMark + 1, outMark + 1},
		{2*outMark + 2, 2*outMark + 2},
		{outMark + 2, 2*outMark + 2},
		{outMark + 1, outMark + 1},
		{outLow + 1, outMark + 1},
		{outLow, 0},
		{0, 0},
	} {
		if now, news := pressed(told, step.pending); news {
			told = now
		}
		if told != step.told {
			t.Errorf("of %d bytes is known that they are %d, want %d", step.pending, told, step.told)
		}
	}
}

func TestTheBoundsOfAClientsMessagesAreChecked(t *testing.T) {
	for _, c := range []struct {
		l    SessionListener
		good bool
	}{
		{SessionListener{}, true},
		{SessionListener{OutBytes: 8 << 20}, true}, // the burst's default grows with it
		{SessionListener{OutBytes: 1 << 10, OutBurstBytes: 1 << 10, OutTime: 250 * time.Millisecond}, true},
		{SessionListener{OutBytes: 1<<10 - 1}, false},
		{SessionListener{OutBytes: -1}, false},
		{SessionListener{OutBurstBytes: 1<<20 - 1}, false},
		{SessionListener{OutBurstBytes: 1<<30 + 1}, false},
		{SessionListener{OutTime: 249 * time.Millisecond}, false},
	} {
		l := c.l
		l.Addr, l.Type = "127.0.0.1:0", "player"
		cfg := Config{Sessions: []SessionListener{l}}.withDefaults()
		if err := cfg.check(playersOnly()); (err == nil) != c.good || err != nil && KindOf(err) != errkind.InvalidOperation {
			t.Errorf("%+v: %v", c.l, err)
		}
	}
}
