package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/timer"
	"github.com/zlnode/zlnode/store"
)

// joins is a node whose Joins wait for the test once their barriers stand, and whose
// handlers are functions of the test.
type joins struct {
	*testing.T
	node  *Node
	store *scripted // whoever calls what the test does not set panics
	notes *journal
	stood chan *PendingJoin

	mu  sync.Mutex
	fns []func(*Call) (Reply, error)
}

func newJoins(t *testing.T) *joins {
	w := &joins{T: t, store: &scripted{}, notes: &journal{}, stood: make(chan *PendingJoin, 1000)}
	w.node = storedNode(t, w.store)
	w.node.workers = newWorkers()
	w.node.cfg.RequestTimeout = 10 * time.Second
	w.node.cfg.OnJoin = func(j *PendingJoin) { w.notes.add('J'); w.stood <- j }
	w.node.timers = timer.New(timer.Config[*objectCell]{Fire: w.node.fireTimers})
	t.Cleanup(func() {
		if err := w.node.timers.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	w.node.entry = w.object(store.EntrySpot, "the-entry", false)
	return w
}

// object makes an Actor of the Entry Spot or a Spot, which runs.
func (w *joins) object(kind store.Kind, id string, wide bool) *objectCell {
	w.Helper()
	typ := journalType(w.notes)
	typ.Kind, typ.Wide = kind, wide
	*typ.packet("do") = packetType{
		name:    "do",
		send:    func(c *Call, _ any, payload []byte) error { _, err := w.fn(payload)(c); return err },
		request: func(c *Call, _ any, payload []byte) (Reply, error) { return w.fn(payload)(c) },
	}
	held := &hold{}
	c := w.node.newCell(typ, ActorRef{ID: id, ObjectGen: 1}, 1, held)
	if kind != store.EntrySpot && !w.node.admitCell(c) {
		w.Fatalf("%q is there already", id)
	}
	c.box.Seal(&release{cell: c, from: held, next: c})
	return c
}

func (w *joins) actor(id string) *objectCell {
	w.Helper()
	return w.object(store.Actor, id, false)
}

// room makes a User Spot and puts the Actors into it.
func (w *joins) room(wide bool, actors ...*objectCell) *objectCell {
	w.Helper()
	room := w.object(store.UserSpot, "room", wide)
	for _, a := range actors {
		if err := w.node.PlaceMember(a.ref.ID, "room"); err != nil {
			w.Fatal(err)
		}
	}
	return room
}

func (w *joins) fn(number []byte) func(*Call) (Reply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fns[binary.BigEndian.Uint16(number)]
}

// number gives f a name that fits into a payload.
func (w *joins) number(f func(*Call) (Reply, error)) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fns = append(w.fns, f)
	return binary.BigEndian.AppendUint16(nil, uint16(len(w.fns)-1))
}

func (w *joins) push(c *objectCell, s sender, o *Outgoing) {
	w.Helper()
	if err := c.push(s, o, clock.Never, nil); err != nil {
		w.Fatal(err)
	}
}

// note has the object add b to the notes.
func (w *joins) note(c *objectCell, b byte) { w.Helper(); w.push(c, sender{kind: msgSend}, note(b)) }

// tell has f run in a handler of the object, which returns without waiting for it.
func (w *joins) tell(c *objectCell, f func(*Call) error) {
	w.Helper()
	do := w.number(func(c *Call) (Reply, error) { return Reply{}, f(c) })
	w.push(c, sender{kind: msgSend}, &Outgoing{Name: "do", Payload: do})
}

// run is tell and returns when the handler has returned and the scope is closed.
func (w *joins) run(c *objectCell, f func(*Call) error) {
	w.Helper()
	ended := make(chan *joinScope, 1)
	w.tell(c, func(c *Call) error {
		defer func() { ended <- c.joins }()
		return f(c)
	})
	scope := await(w.T, "the handler's end", ended)
	until(w.T, "the scope is closed", func() bool {
		if scope == nil {
			return true
		}
		scope.mu.Lock()
		defer scope.mu.Unlock()
		return scope.closed
	})
}

// ask is tell for a request.
func (w *joins) ask(c *objectCell, f func(*Call) (Reply, error)) <-chan result {
	w.Helper()
	answer := make(chan result, 1)
	corr, err := w.node.local.add(completeFunc(func(r result) { w.notes.add('R'); answer <- r }), clock.Never)
	if err != nil {
		w.Fatal(err)
	}
	w.push(c, sender{kind: msgRequest, corr: corr}, &Outgoing{Name: "do", Payload: w.number(f)})
	return answer
}

// registered has a handler of the Actor register the Join, which it returns.
func (w *joins) registered(a *objectCell, to Join) *PendingJoin {
	w.Helper()
	var j *PendingJoin
	w.run(a, func(c *Call) error {
		err := c.Registration().Defer(to)
		j = a.joining.Load()
		return err
	})
	return j
}

// standing returns the next Join whose barrier stands.
func (w *joins) standing() *PendingJoin { w.Helper(); return await(w.T, "a barrier", w.stood) }

// none fails if a barrier stands or has stood.
func (w *joins) none() {
	w.Helper()
	select {
	case j := <-w.stood:
		w.Errorf("a join of %q runs", j.Actor)
	default:
	}
}

// is fails if the notes are not those.
func (w *joins) is(want string) {
	w.Helper()
	if got := w.sofar(); got != want {
		w.Errorf("it ran %q, want %q", got, want)
	}
}

func (w *joins) sofar() string {
	w.notes.mu.Lock()
	defer w.notes.mu.Unlock()
	return string(w.notes.all)
}

// heldAll waits until nothing is left to be given to a consumer, while as many handlers
// as running are not over.
func (w *joins) heldAll(running int) {
	w.Helper()
	until(w.T, "all is held", func() bool {
		s := w.node.pool.Stats()
		return s.Ready == 0 && s.Running <= running
	})
}

// wantKind fails if err is not of that kind.
func (w *joins) wantKind(what string, err error, kind errkind.Kind) {
	w.Helper()
	if !errors.Is(err, kind) {
		w.Errorf("%s: %v, want %v", what, err, kind)
	}
}

// wantError fails if err does not say what want says.
func (w *joins) wantError(what string, err error, want *Error) {
	w.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != want.Kind || !strings.HasSuffix(e.Text, want.Text) {
		w.Errorf("%s: %v, want %v", what, err, want)
	}
}

var toRoom7 = Join{Spot: "room-7"}

// register is a handler that registers a Join.
func register(to Join) func(*Call) error {
	return func(c *Call) error { return c.Registration().Defer(to) }
}

// req: JN-02
func TestDeferCopiesTheRequestAndAsksNobody(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	var seen [2]clock.Mono
	w.tell(a, func(c *Call) error {
		request := []byte("as it was")
		seen[0] = clock.Now()
		err := c.Registration().Defer(Join{Spot: "room-7", Codec: 3, Request: request})
		seen[1] = clock.Now()
		copy(request, "as it is!")
		return err
	})
	j := w.standing()
	if string(j.Request) != "as it was" || j.Codec != 3 || j.Spot != "room-7" || j.Actor != "ada" {
		t.Errorf("the join is %+v with request %q", j.Join, j.Request)
	}
	if j.Deadline < seen[0].Add(5*time.Second) || j.Deadline > seen[1].Add(5*time.Second) {
		t.Errorf("its deadline is %v after the registration, want 5 s", j.Deadline.Sub(seen[1]))
	}
	j.Accept()
	w.tell(a, register(Join{Entry: true, Timeout: time.Hour}))
	k := w.standing()
	if k.Op == j.Op || k.Op == (store.OpID{}) || j.Op == (store.OpID{}) {
		t.Errorf("operations %x and %x", j.Op, k.Op)
	}
	if left := k.Deadline.Sub(clock.Now()); left > time.Hour || left < 59*time.Minute || len(k.Request) != 0 || !k.Entry {
		t.Errorf("the join is %+v, its deadline %v from now", k.Join, left)
	}
	k.Accept()
	if n := w.node.counters.panics.Load(); n != 0 {
		t.Errorf("the Store was called %d times", n)
	}
}

// req: JN-02
func TestTheDeadlineRunsFromTheRegistration(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	var j *PendingJoin
	w.run(a, func(c *Call) error {
		err := c.Registration().Defer(Join{Spot: "room-7", Timeout: 300 * time.Millisecond})
		j = a.joining.Load()
		until(t, "the deadline", func() bool { return clock.Now().Reached(j.Deadline) })
		return err
	})
	await(t, "the join's end", j.Done())
	if o := j.Outcome(); o.Result != JoinFailed || o.Err.Kind != errkind.DeadlineExceeded {
		t.Errorf("it ended with %+v", o)
	}
	w.none()
}

// req: JN-03
func TestAScopeIsOpenAsLongAsTheHandlerRuns(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	var kept *Call
	var before, used *Registration
	w.run(a, func(c *Call) error {
		kept, before, used = c, c.Registration(), c.Registration()
		return w.node.Do(c, IO, func(context.Context) error { return used.Defer(toRoom7) }) // a wait is part of it
	})
	j := w.standing()
	w.wantError("kept registration", before.Defer(toRoom7), errJoinLate)
	w.wantError("kept call", kept.Registration().Defer(toRoom7), errJoinLate)
	j.Accept()
	w.run(a, func(c *Call) error { kept, before = c, c.Registration(); return nil })
	w.run(a, func(*Call) error { return nil }) // which has another Call
	w.wantError("kept registration", before.Defer(toRoom7), errJoinLate)
	w.wantError("kept call", kept.Registration().Defer(toRoom7), errJoinLate)
	w.run(a, func(c *Call) error { kept = c; return nil })
	barrier(t, a) // its turn is over
	w.wantKind("call that registered nothing", kept.Registration().Defer(toRoom7), errkind.InvalidOperation)
	w.run(a, func(c *Call) error { kept = c; c.Done(); return nil })
	barrier(t, a)
	w.wantError("call that is not used again", kept.Registration().Defer(toRoom7), errJoinLate)
	w.none()
}

// req: JN-03
func TestOneCallRegistersOneJoin(t *testing.T) {
	w := newJoins(t)
	a, b := w.actor("ada"), w.actor("bob")
	room := w.room(false, a, b)
	w.run(room, func(c *Call) error {
		r := c.Registration()
		if err := r.Defer(Join{Actor: "ada", Spot: "room-7"}); err != nil {
			return err
		}
		w.wantKind("second", r.Defer(Join{Actor: "bob", Spot: "room-7"}), errkind.InvalidOperation)
		return nil
	})
	j := w.standing()
	if j.Actor != "ada" || b.joining.Load() != nil {
		t.Errorf("%q joins, %v is pending for the other", j.Actor, b.joining.Load())
	}
	j.Accept()
	w.none()
}

func TestAnActorHasOnePendingJoin(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	room := w.room(false, a)
	try := func(c *Call) error {
		w.wantKind("another", c.Registration().Defer(Join{Actor: "ada", Spot: "room-7"}), errkind.Unavailable)
		return nil
	}
	w.tell(a, func(c *Call) error {
		err := c.Registration().Defer(toRoom7)
		w.run(room, try) // while it is registered
		return errors.Join(err, try(c))
	})
	j := w.standing()
	w.run(room, try) // while its barrier stands
	j.Reject()
	w.run(room, register(Join{Actor: "ada", Entry: true}))
	w.standing().Accept()
	w.none()
}

// req: JN-03
func TestAJoinIsRegisteredForALocalMemberOnly(t *testing.T) {
	w := newJoins(t)
	a, b := w.actor("ada"), w.actor("bob")
	room := w.room(true, a)
	w.object(store.UserSpot, "other", false)
	refused := func(from *objectCell, what string, to Join, kind errkind.Kind) {
		t.Helper()
		w.run(from, func(c *Call) error {
			w.wantKind(what, c.Registration().Defer(to), kind)
			return nil
		})
	}
	refused(a, "another Actor, by an Actor", Join{Actor: "bob", Spot: "x"}, errkind.InvalidOperation)
	refused(room, "who is in the entry spot", Join{Actor: "bob", Spot: "x"}, errkind.InvalidOperation)
	refused(room, "who is nowhere", Join{Actor: "cid", Spot: "x"}, errkind.NotFound)
	refused(room, "nobody", Join{Spot: "x"}, errkind.NotFound)
	refused(room, "a spot", Join{Actor: "other", Spot: "x"}, errkind.NotFound)
	refused(a, "to nowhere", Join{}, errkind.InvalidOperation)
	refused(a, "to two spots", Join{Spot: "x", Entry: true}, errkind.InvalidOperation)
	refused(a, "with too little time", Join{Spot: "x", Timeout: time.Microsecond}, errkind.InvalidOperation)
	refused(a, "with too much time", Join{Spot: "x", Timeout: 1 << 31 * time.Millisecond}, errkind.InvalidOperation)
	b.refuseAll(errGone)
	refused(w.object(store.UserSpot, "third", false), "who is gone", Join{Actor: "bob", Spot: "x"}, errkind.NotFound)
	w.none()
}

// req: JN-03
func TestCallbacksAndInstanceSpotsRegisterNoJoin(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	room := w.room(true, a)
	try := func(c *Call, _ any) error { return register(Join{Actor: "ada", Spot: "x"})(c) }
	for _, c := range []*objectCell{room, w.node.entry} {
		for _, what := range []string{"OnInitialize", "OnClosing"} {
			err := c.await(t.Context(), c.ended, what, func(t *turn) *Error {
				return c.callback(t.claim, what, clock.Never, func(c *Call) error { return try(c, nil) })
			})
			w.wantError(what, err, errJoinNotHere)
		}
		told := make(chan error, 1)
		c.typ.OnDisconnectActor = func(c *Call, s any, _ ActorRef) error { told <- try(c, s); return nil }
		w.node.tellSpot(clientGone, c, a.ref, nil)
		w.wantError("OnDisconnectActor", await(t, "the handler", told), errJoinNotHere)
	}
	told := make(chan error, 1)
	w.tell(w.object(store.InstanceSpot, "instance", false), func(c *Call) error { told <- try(c, nil); return nil })
	w.wantError("an Instance Spot", await(t, "the handler", told), errJoinNotHere)
	a.typ.Timers = map[string]TimerHandler{"tick": func(c *Call, s any, _ Tick) error { told <- try(c, s); return nil }}
	w.tell(a, func(c *Call) error { return c.StartTimer("tick", timer.Options{}) })
	w.wantError("an Actor's timer", await(t, "the handler", told), errJoinNotHere)
	if a.joining.Load() != nil {
		t.Error("a join is pending")
	}
	w.none()
}

// req: JN-04
func TestASpotsTimerRegistersJoinsOfItsMembers(t *testing.T) {
	w := newJoins(t)
	a, b := w.actor("ada"), w.actor("bob")
	room := w.room(true, b)
	for spot, member := range map[*objectCell]*objectCell{w.node.entry: a, room: b} {
		fails := true
		spot.typ.Timers = map[string]TimerHandler{"tick": func(c *Call, _ any, _ Tick) error {
			if fails {
				fails = false
				return errors.Join(register(Join{Actor: member.ref.ID, Spot: "not-x"})(c), errors.New("fails"))
			}
			return register(Join{Actor: member.ref.ID, Spot: "x"})(c)
		}}
		spot.ended(func(turn *turn) {
			_ = spot.callback(turn.claim, "start", clock.Never, func(c *Call) error {
				return c.StartTimer("tick", timer.Options{Delay: time.Millisecond, Period: time.Millisecond})
			})
		})
		j := w.standing()
		if j.Actor != member.ref.ID || j.Spot != "x" || fails {
			t.Errorf("the join is %+v; the first tick failed: %v", j.Join, !fails)
		}
		barrier(t, spot) // the next tick finds the Join pending, or registers another
		spot.ended(func(*turn) { spot.fenceTimers() })
		barrier(t, spot)
		j.Accept()
	}
	w.none()
}

// req: JN-05
func TestWhatIsOverALimitLeavesNothingBehind(t *testing.T) {
	w := newJoins(t)
	var members []*objectCell
	for i := range joinsMax + 1 {
		members = append(members, w.actor(fmt.Sprint(i)))
	}
	room := w.room(true, members...)
	join := func(c *Call, i, bytes int) error {
		return c.Registration().Defer(Join{Actor: fmt.Sprint(i), Spot: "x", Request: make([]byte, bytes)})
	}
	all := func(n int) { // ends n Joins, with no other registered
		t.Helper()
		for range n {
			w.standing().Accept()
		}
		w.none()
		for _, a := range members {
			if a.joining.Load() != nil {
				t.Errorf("a join of %q is left", a.ref.ID)
			}
		}
	}
	w.run(room, func(c *Call) (err error) {
		for i := range joinsMax {
			err = errors.Join(err, join(c, i, 0))
		}
		w.wantKind("one too many", join(c, joinsMax, 0), errkind.CapacityExceeded)
		return err
	})
	all(joinsMax)
	w.run(room, func(c *Call) (err error) {
		w.wantKind("a large one", join(c, 0, 1<<20+1), errkind.InvalidOperation)
		for i := range 8 {
			err = errors.Join(err, join(c, i, 1<<20))
		}
		w.wantKind("too many bytes", join(c, 8, 1), errkind.CapacityExceeded)
		return errors.Join(err, join(c, 8, 0)) // what was refused counts nothing
	})
	all(9)
}
