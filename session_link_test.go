package zlnode_test

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

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
		s.gateway = s.newGateway("a-gateway", 2)
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
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(killed.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatal(status, err)
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

// The other node takes no more for now: what a client sends waits, in its order,
// and goes on when it takes more again.
func TestRelayedPacketsWaitForCreditInOrder(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		s := newStage(w)
		s.owner = s.server("b-owner", s.app())
		spans := tracetest.NewSpanRecorder()
		s.gateway = s.startWith(zlnode.Config{RID: "a-gateway", Role: zlnode.RoleClient}, func(c *zlnode.Config) {
			c.SendTimeout, c.Tracer = 20*time.Second, sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("")
		})
		s.linked(s.gateway, 1)
		c := s.stream(t)
		c.write(request(1, "login", `{"ID":"a"}`))
		c.answer(1)
		sinks := []string{"x", "y", "z"}
		for _, id := range sinks {
			s.create(id)
			s.gate.stop(t, s.world, s.gateway.Actor(id))
		}
		var err error
		for i := 0; err == nil; i++ { // until the link's credit is used up
			ctx, cancel := context.WithTimeout(s.ctx, 100*time.Millisecond)
			err = s.gateway.Actor(sinks[i%3]).SendRaw(ctx, "swallow", make([]byte, 40<<10))
			cancel()
		}
		wantKind(t, err, zlnode.DeadlineExceeded)
		large := request(2, "echo", "")
		large.Payload = make([]byte, 60<<10)
		c.write(large, request(3, "note", "3"), send("note", "4"), request(5, "mark", "5"), request(6, "note", "6"))
		c.drained()
		if notes := s.journal.of("note"); len(notes) != 0 {
			t.Errorf("%v overtook what waits for credit", notes)
		}
		close(s.gate.open)
		seen := map[uint64]bool{}
		for len(seen) < 4 {
			p := c.read()
			if p.Kind != session.KindResponse || seen[p.Seq] {
				t.Fatalf("%v to %d: %s", p.Kind, p.Seq, p.Payload)
			}
			seen[p.Seq] = true
		}
		if notes := s.journal.of("note"); !slices.Equal(notes, []string{"3", "4", "6"}) {
			t.Errorf("executed %v", notes)
		}
		s.eventually("all spans have ended, also those of packets that waited", func() bool { return len(spans.Ended()) == len(spans.Started()) })
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
		s.gateway = s.newGateway("a-gateway", 1)
		ref := s.create("a")
		c := s.stream(t)
		c.write(request(1, "bind", jsonOf(t, ref)), request(2, "stop", "{}"))
		if p := c.answer(1); p.Kind != session.KindResponse {
			t.Fatalf("%s", p.Payload)
		}
		receive(t, s.gate.entered)
		road.cut("a-gateway")
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
		road.open("a-gateway")
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
		nonces, answered := map[[32]byte]bool{}, 0
		fresh := func(h *wire.Hello) {
			t.Helper()
			if h == nil || nonces[h.Nonce] {
				t.Errorf("a connection began with %+v, want a fresh hello", h)
			} else {
				nonces[h.Nonce] = true
			}
		}
		for _, w := range road.all() {
			fresh(firstHello(w.dialler))
			if len(w.acceptor) > 0 {
				fresh(firstHello(w.acceptor))
				answered++
			}
		}
		if answered != 2 {
			t.Errorf("%d connections passed, want 2", answered)
		}
	})
}
