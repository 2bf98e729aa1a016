package node

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/cmap"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/store"
)

// bareNode is a node without engine and Store, for what mailboxes do.
func bareNode(t testing.TB) *Node {
	t.Helper()
	n := &Node{
		log: zerolog.Nop(), local: newPendingTable(), actors: cmap.New[*objectCell](), news: newNews(), moves: newMoves(),
		creations: newLimiter(1, 8), running: runningOps{ops: map[store.OpID]*runningOp{}}, changes: make(chan struct{}, 1),
		reasserted: make(chan uint64, 1), done: make(chan struct{}),
	}
	n.cfg.Weight = 100
	n.cfg.RID = "a"
	n.home = newMesh(n, Mesh{Role: store.RoleServer})
	n.meshes = []*mesh{n.home}
	n.routes, n.discovery = newRoutes(n), newDiscovery(n)
	n.life, n.kill = context.WithCancel(context.Background())
	n.pool = mailbox.NewPool(mailbox.Config{})
	t.Cleanup(func() {
		n.kill()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := n.tasks.close(ctx); err != nil {
			t.Error(err)
		}
		if err := n.pool.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return n
}

type journal struct {
	mu  sync.Mutex
	all []byte
}

func (j *journal) add(b byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, b)
}

func journalType(j *journal) *ObjectType {
	return typeWith("journal", func(_ *Call, _ any, payload []byte) error { j.add(payload[0]); return nil })
}

// typeWith is an Actor type whose Actors take the one-way packet "note".
func typeWith(name string, h SendHandler) *ObjectType {
	app := NewApp()
	t := app.AddActor(name, func(*ObjectContext) (any, error) { return nil, nil })
	app.OnSend(t, "note", h)
	return t
}

func note(b byte) *Outgoing { return &Outgoing{Name: "note", Payload: []byte{b}} }

func pushNote(c *objectCell, b byte) *Error {
	return c.push(sender{kind: msgSend}, note(b), clock.Never, nil)
}

// barrier waits until everything pushed before has had its turn.
func barrier(t *testing.T, c *objectCell) {
	t.Helper()
	done := make(chan struct{})
	c.ended(func(*turn) { close(done) })
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the mailbox stands still")
	}
}

func TestWhatIsHeldRunsFirstAndInOrder(t *testing.T) {
	n, j := bareNode(t), &journal{}
	held := &hold{}
	c := n.newCell(journalType(j), ActorRef{ID: "x", ObjectGen: 1}, 1, held)
	for b := range byte(50) {
		if err := pushNote(c, b); err != nil {
			t.Fatal(err)
		}
		if b == 24 {
			c.box.Seal(&release{cell: c, from: held, next: c})
		}
	}
	barrier(t, c)
	want := make([]byte, 50)
	for i := range want {
		want[i] = byte(i)
	}
	if !slices.Equal(j.all, want) {
		t.Errorf("executed %v", j.all)
	}
}

func TestAHeldMessageThatChangesTheConsumerKeepsTheRestHeld(t *testing.T) {
	n, j := bareNode(t), &journal{}
	first, second := &hold{}, &hold{}
	c := n.newCell(journalType(j), ActorRef{ID: "x", ObjectGen: 1}, 1, first)
	push := func(b byte) {
		t.Helper()
		if err := pushNote(c, b); err != nil {
			t.Fatal(err)
		}
	}
	push(1)
	became := make(chan struct{})
	if err := c.control(func(t *turn) { t.cell.become(t.claim, second); close(became) }); err != nil {
		t.Fatal(err)
	}
	push(2)
	c.box.Seal(&release{cell: c, from: first, next: c})
	<-became
	push(3)
	c.box.Seal(&release{cell: c, from: second, next: c})
	barrier(t, c)
	if want := []byte{1, 2, 3}; !slices.Equal(j.all, want) {
		t.Errorf("executed %v, want %v", j.all, want)
	}
}

func TestTheEndRefusesWhatIsHeldQueuedAndLater(t *testing.T) {
	n, j := bareNode(t), &journal{}
	c := n.newCell(journalType(j), ActorRef{ID: "x", ObjectGen: 1}, 1, &hold{})
	ended := 0
	request := func() {
		corr, err := n.local.add(completeFunc(func(r result) {
			if r.err == errGone {
				ended++
			}
		}), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.push(sender{kind: msgRequest, corr: corr}, note(9), clock.Never, nil); err != nil {
			t.Fatal(err)
		}
	}
	request()
	c.refuseAll(errGone)
	request()
	barrier(t, c)
	request()
	barrier(t, c)
	if ended != 3 || len(j.all) != 0 {
		t.Errorf("%d of 3 requests refused, executed %v", ended, j.all)
	}
}

// What is held counts in the queue: the sender hears that there is no room, and nothing
// that was accepted is dropped.
func TestWhatIsHeldTakesRoomInTheQueue(t *testing.T) {
	n, j := bareNode(t), &journal{}
	held := &hold{}
	c := n.newCell(journalType(j), ActorRef{ID: "x", ObjectGen: 1}, 1, held)
	for i := range objectQueueMessages {
		if err := pushNote(c, byte(i)); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if err := pushNote(c, 0); err != errQueueFull {
		t.Errorf("one more: %v", err)
	}
	c.box.Seal(&release{cell: c, from: held, next: c})
	barrier(t, c)
	if len(j.all) != objectQueueMessages || n.counters.dropped.Load() != 0 {
		t.Errorf("%d executed, %d dropped", len(j.all), n.counters.dropped.Load())
	}
	if err := pushNote(c, 0); err != nil {
		t.Errorf("after them: %v", err)
	}
}

func TestAMessageForAnotherIncarnationIsRefused(t *testing.T) {
	n := bareNode(t)
	c := n.newCell(journalType(&journal{}), ActorRef{ID: "x", ObjectGen: 7}, 1, &hold{})
	if err := c.arrive(sender{kind: msgSend}, note(1), clock.Never, &arrival{objGen: 6}); err == nil {
		t.Error("taken")
	}
}

// A message that was accepted in time and whose turn comes when the node may not
// act any more is not executed.
// req: FO-20
func TestNoTurnBeginsPastTheAdmissionDeadline(t *testing.T) {
	n, j := bareNode(t), &journal{}
	n.store = struct{ store.Store }{} // there is one; nothing here calls it
	held := &hold{}
	c := n.newCell(journalType(j), ActorRef{ID: "x", ObjectGen: 1}, 1, held)
	if err := pushNote(c, 1); err != nil {
		t.Fatal(err)
	}
	n.admitUntil.Store(int64(clock.Now()))
	c.box.Seal(&release{cell: c, from: held, next: c})
	barrier(t, c)
	if len(j.all) != 0 || n.counters.dropped.Load() != 1 {
		t.Errorf("executed %v, %d dropped", j.all, n.counters.dropped.Load())
	}
	n.admitUntil.Store(int64(clock.Never))
	if err := pushNote(c, 2); err != nil {
		t.Fatal(err)
	}
	barrier(t, c)
	if len(j.all) != 1 {
		t.Errorf("with the lease renewed, executed %v", j.all)
	}
}

// A release that comes after the Actor's end, as of a Store call that was on its way,
// runs nothing of what it held.
func TestAReleaseDoesNotWakeAnActorThatEnded(t *testing.T) {
	n, j := bareNode(t), &journal{}
	held := &hold{}
	c := n.newCell(journalType(j), ActorRef{ID: "x", ObjectGen: 1}, 1, held)
	if err := pushNote(c, 1); err != nil {
		t.Fatal(err)
	}
	c.refuseAll(errGone)
	c.box.Seal(&release{cell: c, from: held, next: c})
	barrier(t, c)
	if err := pushNote(c, 2); err != nil {
		t.Fatal(err)
	}
	barrier(t, c)
	if len(j.all) != 0 {
		t.Errorf("ran %v after its end", j.all)
	}
}
