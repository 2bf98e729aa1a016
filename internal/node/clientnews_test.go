package node

import (
	"testing"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/cmap"
	"github.com/zlnode/zlnode/internal/wire"
)

// What a Spot is told of a client keeps its order, also if the node may not act for a time in
// between, and each of it is told once.
// req: MB-04
func TestNewsOfAClientKeepTheirOrderOverALapse(t *testing.T) {
	w := newJoins(t)
	w.node.sessions = cmap.New[*sessionConn]()
	a, typ := w.actor("ada"), w.node.entry.typ
	note := func(line string) func(*Call, any, ActorRef) error {
		return func(*Call, any, ActorRef) error {
			w.notes.add(line[0])
			return nil
		}
	}
	typ.OnReconnectingActor, typ.OnReconnectedActor, typ.OnDisconnectActor = note("lost"), note("back"), note("gone")
	first, second := bindingKey{session: 7, gen: 1}, bindingKey{session: 8, gen: 2}
	a.ended(func(turn *turn) { turn.take(binding{key: first}) })
	a.ended(func(turn *turn) { turn.clientAway(second) }) // not yet its binding
	w.node.admitUntil.Store(0)
	a.ended(func(turn *turn) { turn.clientAway(first) })
	a.ended(func(turn *turn) { turn.clientAway(first) })
	barrier(t, a)
	barrier(t, w.node.entry)
	w.is("")
	w.node.admitUntil.Store(int64(clock.Never)) // what waits is not yet called again
	a.ended(func(turn *turn) { turn.take(binding{key: second}) })
	a.ended(func(turn *turn) { turn.clientAway(first) })
	a.ended(func(turn *turn) { turn.clientAway(second) })
	a.ended(func(turn *turn) { turn.unregister(second, nil) })
	barrier(t, a)
	barrier(t, w.node.entry)
	w.node.late.run()
	barrier(t, w.node.entry)
	w.is("lblg")
	if n := w.node.disconnects.Load(); n != 0 {
		t.Errorf("%d notices wait", n)
	}
}

// However often a node says that a client is away, the Actor's queue has one word of it. One
// that waits when the Actor ends is refused with it.
func TestWordsOfAClientThatIsAwayDoNotPileUp(t *testing.T) {
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
	for range 10_000 {
		b.key.link.clientAway(&wire.SessionReconnecting{BindingName: b.key.wire(&cell.ref)})
	}
	if n := cell.box.Len() - before; n > 1 {
		t.Errorf("%d of them wait", n)
	}
	close(leave)
	if !c.bindingOf(cell).away {
		t.Error("the actor does not know")
	}
	refused := make(chan *Error, 1)
	cell.refuseAll(errGone)
	cell.ended(func(t *turn) { t.clientAway(b.key); refused <- t.refused })
	if err := await(t, "the refusal", refused); err != errGone {
		t.Error(err)
	}
}

// The Actor's Spot is gone while news wait for it: whoever waits for them goes on.
func TestNewsForASpotThatIsGoneEnd(t *testing.T) {
	w := newJoins(t)
	w.node.entry.typ.OnDisconnectActor = func(*Call, any, ActorRef) error { return nil }
	w.node.entry.refuseAll(errGone)
	ended := make(chan *Error, 1)
	w.node.tellSpot(clientGone, w.node.entry, ActorRef{ID: "ada"}, func(err *Error) { ended <- err })
	if err := await(t, "the end", ended); err != nil {
		t.Error(err)
	}
	if n := w.node.disconnects.Load(); n != 0 {
		t.Errorf("%d notices wait", n)
	}
}
