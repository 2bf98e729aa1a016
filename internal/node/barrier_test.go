package node

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/link"
)

// ended waits for the Join's end and fails if it is not that one.
func (w *joins) ended(j *PendingJoin, want JoinResult, kind errkind.Kind) {
	w.Helper()
	await(w.T, "the join's end", j.Done())
	if o := j.Outcome(); o.Result != want || want == JoinFailed && o.Err.Kind != kind {
		w.Errorf("the join ended with %+v, want %v of kind %v", o, want, kind)
	}
	if j.Accept() || j.Reject() || j.Fail(errStopping) {
		w.Error("it ended twice")
	}
}

// phaseOf returns how far the Join is.
func phaseOf(j *PendingJoin) joinPhase {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.phase
}

// req: JN-04
func TestAJoinBeginsOnceTheReplyIsEncodedAndSent(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	room := w.room(false, a)
	var j *PendingJoin
	corr, full := w.node.local.add(completeFunc(func(r result) {
		if w.notes.add('R'); r.err != nil || phaseOf(j) != joinActive {
			t.Errorf("at the reply, %v, the join is in phase %v", r.err, phaseOf(j))
		}
		r.owner.Free()
	}), clock.Never)
	if full != nil {
		t.Fatal(full)
	}
	w.push(room, sender{kind: msgRequest, corr: corr}, &Outgoing{Name: "do", Payload: w.number(func(c *Call) (Reply, error) {
		w.notes.add('D')
		err := c.Registration().Defer(Join{Actor: "ada", Spot: "x"})
		j = a.joining.Load()
		barrier(t, a) // the Actor has had a turn, and nothing stands
		w.note(a, '1')
		w.heldAll(1)
		return Reply{}, err
	})})
	w.standing().Accept()
	w.is("D1RJ")
}

// req: JN-04
func TestAHandlerThatDoesNotEndNormallyHasRegisteredNothing(t *testing.T) {
	w := newJoins(t)
	a, b := w.actor("ada"), w.actor("bob")
	room := w.room(true, a, b)
	for what, end := range map[string]struct {
		kind errkind.Kind
		how  func(*Call) (Reply, error)
	}{
		"error":            {errkind.Rejected, func(*Call) (Reply, error) { return Reply{}, Errorf(errkind.Rejected, "no") }},
		"panic":            {errkind.InternalFailure, func(*Call) (Reply, error) { panic("boom") }},
		"end of goroutine": {errkind.InternalFailure, func(*Call) (Reply, error) { runtime.Goexit(); return Reply{}, nil }},
		"cancellation":     {errkind.DeadlineExceeded, func(*Call) (Reply, error) { return Reply{}, context.Canceled }},
		"too large reply":  {errkind.CapacityExceeded, func(*Call) (Reply, error) { return Reply{Payload: make([]byte, payloadBytesMax+1)}, nil }},
	} {
		pending := make(chan *PendingJoin, 2)
		r := await(t, what, w.ask(room, func(c *Call) (Reply, error) {
			for _, a := range []*objectCell{a, b} {
				if err := c.Registration().Defer(Join{Actor: a.ref.ID, Spot: "x"}); err != nil {
					t.Error(what, err)
				}
				pending <- a.joining.Load()
			}
			return end.how(c)
		}))
		w.wantKind(what, r.err, end.kind)
		for range 2 {
			w.ended(<-pending, JoinDropped, 0)
		}
		if a.joining.Load() != nil || b.joining.Load() != nil {
			t.Errorf("after %s a join is pending", what)
		}
	}
	w.run(a, func(c *Call) error { return errors.Join(register(toRoom7)(c), errors.New("a send that fails")) })
	barrier(t, a)
	barrier(t, b)
	w.none()
	w.tell(a, register(toRoom7)) // it is free
	w.standing().Accept()
}

// req: JN-04
func TestACallerWhoDoesNotTakeTheReplyCancelsNoJoin(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	ask := func(from sender, f func(c *Call)) {
		t.Helper()
		from.kind = msgRequest
		w.push(a, from, &Outgoing{Name: "do", Payload: w.number(func(c *Call) (Reply, error) {
			err := c.Registration().Defer(toRoom7)
			f(c)
			return Reply{Payload: []byte("late")}, err
		})})
		w.ended(accepted(w.standing()), JoinAccepted, 0)
	}
	ask(sender{corr: 12345}, func(*Call) {}) // nobody waits any more
	ask(sender{corr: 12345}, func(c *Call) {
		c.deadline = clock.Now()
		<-c.Done()
	})
	l := &linkConn{node: w.node, conn: closedConn(t), returns: link.NewCreditReturn(linkCreditBytes)}
	if !errors.Is(l.conn.Send(buf.Get(1)), engine.ErrClosed) {
		t.Fatal("the link is open")
	}
	ask(sender{link: l, corr: 1}, func(*Call) {})
}

func accepted(j *PendingJoin) *PendingJoin {
	j.Accept()
	return j
}

// closing is a protocol whose connections tell that they are closed.
type closing chan *engine.Conn

func (closing) OnOpen(*engine.Conn)                            {}
func (closing) OnFrame(*engine.Conn, []byte, *buf.Buf) error   { return nil }
func (closing) OnTimer(*engine.Conn, clock.Mono)               {}
func (p closing) OnClose(c *engine.Conn, _ engine.CloseReason) { p <- c }

// closedConn returns a connection that is over.
func closedConn(t *testing.T) *engine.Conn {
	t.Helper()
	e, err := engine.New(engine.Config{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	closed := make(closing, 1)
	p := &engine.Protocol{Name: "test", Handler: closed, HelloTimeout: -1, FrameSize: func([]byte, bool) (int, error) { return 0, nil }}
	l, err := e.Listen(engine.Listen{Addr: "127.0.0.1:0", Protocol: p})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return await(t, "the connection's end", closed)
}

// req: JN-17
func TestNothingOfTheActorRunsBetweenItsHandlerAndItsJoin(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	begun, before, deferred, after := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	w.tell(a, func(c *Call) error {
		close(begun)
		<-before
		err := c.Registration().Defer(toRoom7)
		close(deferred)
		<-after
		w.notes.add('H')
		return err
	})
	await(t, "the handler", begun)
	w.note(a, '1')
	a.ended(func(*turn) { w.notes.add('2') })
	close(before)
	await(t, "the registration", deferred)
	w.note(a, '3')
	a.lifecycle(func(*turn) { w.notes.add('L') })
	close(after)
	j := w.standing()
	w.note(a, '4')
	w.heldAll(0)
	w.is("HJ")
	j.Reject()
	w.note(a, '5')
	barrier(t, a)
	w.is("HJL12345")
}

// One handler after the other registers a Join while messages of all of them are held.
// req: JN-17
func TestAHeldMessageMayRegisterTheNextJoin(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	step := func(b byte) func(*Call) error {
		return func(c *Call) error { w.notes.add(b); return c.Registration().Defer(toRoom7) }
	}
	w.tell(a, step('1'))
	j := w.standing()
	w.note(a, '2')
	w.tell(a, step('3'))
	w.note(a, '4')
	w.tell(a, step('5'))
	w.heldAll(0)
	j.Accept()
	j = w.standing()
	w.note(a, '6')
	w.heldAll(0)
	w.is("1J23J")
	j.Reject()
	w.standing().Accept()
	barrier(t, a)
	w.is("1J23J45J6")
}

// req: JN-17
func TestAMembersBarrierStandsAfterItsPresentTurn(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	room := w.room(false, a)
	begun, goOn := make(chan struct{}), make(chan struct{})
	w.tell(a, func(*Call) error { close(begun); <-goOn; w.notes.add('A'); return nil })
	await(t, "the turn", begun)
	w.note(a, '1')
	w.run(room, register(Join{Actor: "ada", Spot: "x"}))
	w.none()
	close(goOn)
	j := w.standing()
	w.heldAll(0)
	w.is("AJ")
	j.Accept()
	barrier(t, a)
	w.is("AJ1")
}

// req: JN-17
func TestAMemberWhoseBarrierStandsGivesBackTheSpotsGate(t *testing.T) {
	w := newJoins(t)
	a, b := w.actor("ada"), w.actor("bob")
	room := w.room(true, a, b)
	w.tell(a, register(toRoom7))
	j := w.standing()
	w.note(a, '1')
	w.heldAll(0)
	w.note(b, 'b')
	barrier(t, b)
	w.note(room, 'r')
	barrier(t, room)
	w.is("Jbr")
	w.run(room, register(Join{Actor: "bob", Spot: "x"}))
	k := w.standing()
	w.note(b, '2')
	w.heldAll(0)
	j.Accept()
	barrier(t, a)
	w.is("JbrJ1")
	k.Accept()
	barrier(t, b)
	w.is("JbrJ12")
}

// req: JN-06
func TestAHandlerDoesNotWaitForWhomItHasJoin(t *testing.T) {
	w := newJoins(t)
	a, b := w.actor("ada"), w.actor("bob")
	name := w.number(func(c *Call) (Reply, error) { return Reply{Payload: []byte(c.Object().Ref().ID)}, nil })
	ask := func(ctx context.Context, id string) error {
		to := w.node.Target(id, false)
		r, err := w.node.Request(ctx, &to, &Outgoing{Name: "do", Payload: name})
		r.Release()
		return err
	}
	for _, wide := range []bool{false, true} {
		room := w.room(wide, a, b)
		w.run(room, func(c *Call) error {
			ctx := context.Context(c)
			if wide {
				ctx = c.Yielding()
			}
			if err := errors.Join(ask(ctx, "ada"), register(Join{Actor: "ada", Spot: "x"})(c)); err != nil {
				t.Error(err)
			}
			derived, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			w.wantKind("whom it has join", ask(derived, "ada"), errkind.InvalidOperation)
			if err := ask(ctx, "bob"); err != nil {
				t.Error("another: ", err)
			}
			return nil
		})
		j := w.standing()
		w.run(room, func(c *Call) error { // which has registered nothing
			ctx := context.Context(c)
			if wide {
				ctx = c.Yielding()
			}
			j.Accept()
			if err := ask(ctx, "ada"); err != nil {
				t.Error("the next handler: ", err)
			}
			return nil
		})
		w.node.drop(room, errGone)
	}
}

// A Join has no part in a yielded wait: it is registered before or after.
// req: JN-15
func TestAHandlerThatHasGivenUpItsGateRegistersNoJoin(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	room := w.room(true, a)
	for _, c := range []*objectCell{a, room} {
		var refused error
		w.run(c, func(c *Call) error {
			r := c.Registration()
			err := w.node.Do(c.Yielding(), IO, func(context.Context) error {
				refused = r.Defer(Join{Actor: "ada", Spot: "x"})
				w.run(room, func(*Call) error { w.notes.add('r'); return nil }) // as the gate is free
				return nil
			})
			return errors.Join(err, c.Registration().Defer(Join{Actor: "ada", Spot: "x"}))
		})
		w.wantKind("in a yield", refused, errkind.InvalidOperation)
		w.standing().Accept()
	}
	w.none()
	w.is("rJrJ")
}

// Once a caller has the reply, nothing that it sends to who joins runs before the Join.
// req: JN-17
func TestABarrierIsThereBeforeTheReplyIs(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	room := w.room(false, a)
	corr, full := w.node.local.add(completeFunc(func(r result) {
		r.owner.Free()
		w.note(a, '1') // the caller's next message, before anything else happens
		w.heldAll(1)
	}), 0)
	if full != nil {
		t.Fatal(full)
	}
	do := w.number(func(c *Call) (Reply, error) {
		return Reply{}, c.Registration().Defer(Join{Actor: "ada", Spot: "x"})
	})
	w.push(room, sender{kind: msgRequest, corr: corr}, &Outgoing{Name: "do", Payload: do})
	w.standing().Accept()
	barrier(t, a)
	w.is("J1")
}
