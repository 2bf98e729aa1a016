package node

import (
	"context"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/lease"
	"github.com/zlnode/zlnode/store"
)

// scripted is a Store that answers what a test says; it has no other calls.
type scripted struct {
	store.Store
	read     func(ctx context.Context, id string) (store.Authority, bool, error)
	reserve  func(store.Reserve) (store.Change, error)
	finish   func(store.Finish) (store.Change, error)
	terminal func(store.OperationKey) (store.Terminal, bool, error)
	remove   func(store.Fence) (store.Change, error)
	change   func(store.ChangeSpot) (store.Change, error)
	free     func(store.Free) (store.Change, error)
	members  func(spot, after string) []string
	reassert func(store.Reassert) (store.Change, error)
	held     func(what store.Holding) []string
	list     func(since uint64) (store.NodeList, error)
}

func (s *scripted) Read(ctx context.Context, id string) (store.Authority, bool, error) {
	return s.read(ctx, id)
}

func (s *scripted) Finish(_ context.Context, f store.Finish) (store.Change, error) {
	return s.finish(f)
}

func (s *scripted) Reserve(_ context.Context, r store.Reserve) (store.Change, error) {
	return s.reserve(r)
}

func (s *scripted) ReadTerminal(_ context.Context, op store.OperationKey) (store.Terminal, bool, error) {
	return s.terminal(op)
}

func (s *scripted) Delete(_ context.Context, f store.Fence, _ store.OpID) (store.Change, error) {
	return s.remove(f)
}

func (s *scripted) ChangeSpot(_ context.Context, c store.ChangeSpot) (store.Change, error) {
	return s.change(c)
}

func (s *scripted) Free(_ context.Context, f store.Free) (store.Change, error) { return s.free(f) }

func (s *scripted) Members(_ context.Context, spot, after string, _ int) ([]string, error) {
	return s.members(spot, after), nil
}

func (s *scripted) Reassert(_ context.Context, r store.Reassert) (store.Change, error) {
	return s.reassert(r)
}

func (s *scripted) Held(_ context.Context, _ string, _ store.LeaseGen, what store.Holding, _ string, _ int) ([]string, error) {
	return s.held(what), nil
}

func (s *scripted) ListNodes(_ context.Context, since uint64) (store.NodeList, error) {
	return s.list(since)
}

// storedNode is a bare node with that Store, which it may use for ever.
func storedNode(t *testing.T, s *scripted) *Node {
	t.Helper()
	n := bareNode(t)
	n.store, n.lease = s, store.Lease{RID: "a", OwnerID: "owner", Gen: 5}
	n.cfg = Config{RID: "a", Weight: 100, Lease: lease.Config{}.WithDefaults()}
	n.id = Identity{RID: "a", Lifecycle: 5}
	n.admitUntil.Store(int64(clock.Never))
	n.leased.Store(int64(clock.Never))
	return n
}

// ready makes an Actor that is Ready since epoch 1.
func (n *Node) ready(id string, j *journal) *objectCell {
	held := &hold{}
	c := n.newCell(journalType(j), ActorRef{ID: id, ObjectGen: 1, OwnerGen: 1, RID: "a", Lifecycle: 5}, 1, held)
	c.epoch.Store(1)
	n.actors.Store(id, c)
	c.box.Seal(&release{cell: c, from: held, next: c})
	return c
}

// destroy begins the Actor's end and returns when its turn has been.
func destroy(t *testing.T, c *objectCell) <-chan destroyEnd {
	t.Helper()
	turned, ended := make(chan struct{}), make(chan destroyEnd, 1)
	c.ended(func(t *turn) {
		c.node.destroyInTurn(t, newOpID(), func(e destroyEnd) { ended <- e })
		close(turned)
	})
	await(t, "its turn", turned)
	return ended
}

// await receives within the time that a test may take.
func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: nothing came", what)
		panic("unreachable")
	}
}

// until waits for what comes within the time that a test may take.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if waitFor(ctx, done); ctx.Err() != nil {
		t.Fatalf("until %s: it never came", what)
	}
}

func applied(v store.Version) (store.Change, error) {
	return store.Change{Reason: store.Applied, Found: true, Record: store.Authority{Version: v}}, nil
}

// serve starts a node, which the test's end stops in order.
func serve(t *testing.T, c Config, app *App) *Node {
	t.Helper()
	n, err := Start(t.Context(), c, app)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := n.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return n
}
