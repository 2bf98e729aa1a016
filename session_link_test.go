package zlnode_test

import (
	"net"
	"sync"
	"syscall"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// The node of a bound Actor is killed. What the client asked of that Actor ends
// with one Error each; everything else goes on.
// req: FO-03
func TestTheDeathOfAnActorsNodeEndsItsRequestsOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		s := newStage(w)
		killed := s.child(zlnode.Config{RID: "b-killed", Role: zlnode.RoleServer})
		s.owner = s.server("c-living", s.app())
		s.startGateway(2)
		ref := s.createAt(s.gateway, "b-killed")
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`), request(2, "bind", jsonOf(t, ref)), request(3, "add", `1`))
		for seq := range uint64(3) {
			if p := c.answer(seq + 1); p.Kind != session.KindResponse {
				t.Fatalf("request %d: %s", seq+1, p.Payload)
			}
		}
		// The process stands still while it gets the requests, so that they are
		// under way when it dies.
		if err := killed.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		const first, count = 10, 20
		for i := range uint64(count) {
			c.write(request(first+i, "add", `1`), send("add", `1`))
		}
		c.write(request(4, "note", "1")) // for the living: its answer overtakes the others
		if p := c.answer(4); p.Kind != session.KindResponse {
			t.Fatalf("%s", p.Payload)
		}
		killed.kill()
		ended := map[uint64]int{}
		for range count {
			p := c.read()
			if kind, _, err := session.ParseErrorBody(p.Payload); p.Kind != session.KindError || err != nil || kind != zlnode.Unavailable {
				t.Errorf("%v to %d: %s", p.Kind, p.Seq, p.Payload)
			}
			ended[p.Seq]++
		}
		for i := range uint64(count) {
			if n := ended[first+i]; n != 1 {
				t.Errorf("request %d ended %d times", first+i, n)
			}
		}
		c.write(request(100, "add", `1`))
		if kind, _, err := session.ParseErrorBody(c.answer(100).Payload); err != nil || kind != zlnode.Unavailable {
			t.Errorf("a later request: %v %v", kind, err)
		}
		c.write(request(101, "bind", jsonOf(t, ref)))
		if kind, _, err := session.ParseErrorBody(c.answer(101).Payload); err != nil || kind != zlnode.Unavailable {
			t.Errorf("binding it again: %v %v", kind, err)
		}
		c.write(request(102, "tick", "1"))
		if p := c.read(); string(p.Name) != "tick" {
			t.Errorf("%v %q, want the living Actor's push", p.Kind, p.Name)
		}
		c.answer(102)
	})
}

// The link to the Actor's node is cut and opened again. The new one repeats the
// whole handshake, and nothing of the old one is used on it: not the request
// under way and its way back, not the binding, not that the peer was ready.
// req: FO-08
func TestANewLinkReusesNothingOfTheOldOne(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		s := newStage(w)
		s.owner = s.start(zlnode.Config{RID: "b-owner", Role: zlnode.RoleServer, Advertise: "127.0.0.2"}, s.app())
		road := newProxy(t, s.owner.Endpoint(), "127.0.0.1")
		s.startGateway(1)
		ref := s.create("a")
		c := s.stream(t)
		c.write(request(1, "bind", jsonOf(t, ref)), request(2, "stop", "{}"))
		if p := c.answer(1); p.Kind != session.KindResponse {
			t.Fatalf("%s", p.Payload)
		}
		receive(t, s.gate.entered)
		road.cut()
		unavailable := func(seq uint64) {
			t.Helper()
			p := c.answer(seq)
			if kind, _, err := session.ParseErrorBody(p.Payload); p.Kind != session.KindError || err != nil || kind != zlnode.Unavailable {
				t.Errorf("%v to %d: %s", p.Kind, seq, p.Payload)
			}
		}
		unavailable(2)
		c.write(request(3, "note", "3"), request(4, "bind", jsonOf(t, ref)))
		unavailable(3)
		unavailable(4)
		road.open()
		s.linked(s.gateway, 1)
		s.gate.open <- struct{}{} // the Actor answers request 2, which has no way back
		_, err := s.ask("a", "tick", 1)
		for zlnode.KindOf(err) == zlnode.Unavailable { // the owner has not noticed yet
			_, err = s.ask("a", "tick", 1)
		}
		wantKind(t, err, zlnode.InvalidOperation)
		c.write(request(5, "note", "5"), request(6, "bind", jsonOf(t, ref)), request(7, "note", "7"))
		unavailable(5)
		for _, seq := range []uint64{6, 7} {
			if p := c.answer(seq); p.Kind != session.KindResponse {
				t.Errorf("request %d after binding anew: %s", seq, p.Payload)
			}
		}
		c.write(request(8, "tick", "1"))
		if p := c.read(); string(p.Name) != "tick" || string(p.Payload) != "0" {
			t.Errorf("%v %q %s", p.Kind, p.Name, p.Payload)
		}
		c.answer(8)
		if notes := s.journal.of("note"); len(notes) != 1 || notes[0] != "7" {
			t.Errorf("executed %v", notes)
		}
		nonces := map[[32]byte]bool{}
		for i, p := range road.passed() {
			for side, b := range map[string][]byte{"gateway": p.dialler, "owner": p.acceptor} {
				size, err := wire.RecordSize(b, wire.PreAdmitMax)
				if err != nil || size == 0 || size > len(b) {
					t.Fatalf("connection %d of the %s begins with %x: %v", i, side, b, err)
				}
				r, err := wire.Decode(b[:size])
				hello, ok := r.(*wire.Hello)
				if err != nil || !ok || nonces[hello.Nonce] {
					t.Errorf("connection %d of the %s begins with %+v, want a fresh hello: %v", i, side, r, err)
					continue
				}
				nonces[hello.Nonce] = true
			}
		}
		if len(nonces) != 4 {
			t.Errorf("%d nonces on two connections, want 4", len(nonces))
		}
	})
}

// proxy is the road between two nodes, which a test can cut. It listens on the
// port that the owner advertises and passes connections on to the same port of
// the host that the owner really listens on.
type proxy struct {
	ln     net.Listener
	target string
	work   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	ways   []*way
}

// way is one connection that passed and the beginnings of what its ends said.
type way struct {
	dialler, acceptor []byte
	conns             [2]net.Conn
}

func newProxy(t *testing.T, advertised, host string) *proxy {
	t.Helper()
	_, port, err := net.SplitHostPort(advertised)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", advertised)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ln: ln, target: net.JoinHostPort(host, port)}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		ln.Close()
		p.cut()
		p.work.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		from, err := p.ln.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", p.target)
		if err != nil {
			from.Close()
			continue
		}
		w := &way{conns: [2]net.Conn{from, to}}
		p.mu.Lock()
		if p.closed {
			w.close()
		} else {
			p.ways = append(p.ways, w)
		}
		p.mu.Unlock()
		p.work.Go(func() { p.pass(w, from, to, &w.dialler) })
		p.work.Go(func() { p.pass(w, to, from, &w.acceptor) })
	}
}

// pass moves bytes one way until either end closes.
func (p *proxy) pass(w *way, from, to net.Conn, heard *[]byte) {
	defer w.close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			p.mu.Lock()
			if len(*heard) < wire.PreAdmitMax {
				*heard = append(*heard, b[:n]...)
			}
			p.mu.Unlock()
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *way) close() {
	for _, c := range w.conns {
		c.Close()
	}
}

// cut ends every connection and lets none pass until open.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.ways {
		w.close()
	}
}

func (p *proxy) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
}

// passed returns the connections that passed.
func (p *proxy) passed() []way {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []way
	for _, w := range p.ways {
		out = append(out, *w)
	}
	return out
}
