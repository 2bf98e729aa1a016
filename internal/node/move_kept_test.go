package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/faultproxy"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// followed is an Actor that moves from node a into a Spot of node b, and another one of b.
type followed struct {
	*testing.T
	ctx     context.Context
	a, b    *Node
	joined  func() // within OnJoinedActor
	restore func() // within Restore
	roads   *faultproxy.Roads

	ada, room, other string

	mu  sync.Mutex
	ran []string
}

func newFollowed(t *testing.T, tune func(*Config)) *followed {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	w := &followed{T: t, ctx: ctx, joined: func() {}, restore: func() {}, roads: faultproxy.New()}
	t.Cleanup(w.roads.Close)
	e, err := StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	start := func(rid string) *Node {
		app := NewApp()
		typ := app.AddActor("walker", func(*ObjectContext) (any, error) { return nil, nil })
		typ.Policy = PreserveState
		typ.Capture = func(any) ([]byte, error) { return make([]byte, 100<<10), nil }
		typ.Restore = func(any, []byte) error { w.restore(); return nil }
		app.OnSend(typ, "home", func(c *Call, _ any, _ []byte) error {
			return c.Registration().Defer(Join{Entry: true, Timeout: 20 * time.Second})
		})
		app.OnSend(typ, "go", func(c *Call, _ any, spot []byte) error {
			return c.Registration().Defer(Join{Spot: string(spot), Timeout: 20 * time.Second})
		})
		app.OnSend(typ, "note", func(_ *Call, _ any, line []byte) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ran = append(w.ran, rid+" "+string(line))
			return nil
		})
		app.OnRequest(typ, "ask", func(*Call, any, []byte) (Reply, error) { return Reply{}, nil })
		room := app.AddSpot(store.UserSpot, "room", false, func(*ObjectContext) (any, error) { return nil, nil })
		room.Policy = Recreate
		room.OnJoinedActor = func(*Call, any, ActorRef) error { w.joined(); return nil }
		app.SetEntry(func(*ObjectContext) (any, error) { return nil, nil }).OnJoinedActor = room.OnJoinedActor
		c := Config{
			RID: rid, Role: store.RoleServer, StoreURL: e.URL(), MeshKey: []byte("a key of tests, long enough"),
			RecoveryHold: -1, Weight: 100, Logger: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
		}
		if c.Advertise, c.Listen, err = w.roads.Behind(rid); err != nil {
			t.Fatal(err)
		}
		tune(&c)
		return serve(t, c, app)
	}
	w.a, w.b = start("a"), start("b")
	for _, n := range []*Node{w.a, w.b} {
		if err := n.WaitPeers(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	w.ada, w.room = w.create(store.Actor, "walker", "ada", "a"), w.create(store.UserSpot, "room", "room", "b")
	w.other = w.create(store.Actor, "walker", "bob", "b")
	return w
}

// create makes objects until one is at the node, and returns its id.
func (w *followed) create(kind store.Kind, typ, name, rid string) string {
	w.Helper()
	for i := range 100 {
		id := name
		if i > 0 {
			id = fmt.Sprint(name, "-", i)
		}
		r, err := w.a.Create(w.ctx, CreateRequest{Kind: kind, ID: id, Type: typ})
		if err != nil {
			w.Fatal(err)
		}
		if r.Ref.RID == rid {
			return id
		}
	}
	w.Fatal("none was placed there")
	panic("unreachable")
}

// takesNoMore has node a be one that takes no new objects, with ada in a User Spot.
func (w *followed) takesNoMore() {
	w.Helper()
	joined := make(chan struct{}, 1)
	w.joined = func() { joined <- struct{}{} }
	w.send("go", w.create(store.UserSpot, "room", "near", "a"))
	await(w.T, "it is in a user spot", joined)
	w.ask(w.ada) // behind the join
	w.a.cfg.Weight = 0
	if err := w.a.publish(w.ctx, opServe); err != nil {
		w.Fatal(err)
	}
	until(w.T, "it knows", func() bool {
		return slices.ContainsFunc(w.a.discovery.nodes(), func(d store.Descriptor) bool { return d.RID == "a" && d.Weight == 0 })
	})
}

// goes has ada move, and returns both ends of that once OnJoinedActor has been called.
func (w *followed) goes() (*moveOut, *moveIn) {
	w.Helper()
	w.send("go", w.room)
	var out *moveOut
	var in *moveIn
	until(w.T, "it moves", func() bool {
		w.a.moves.out.Range(func(_ string, o *moveOut) bool { out = o; return false })
		w.b.moves.in.Range(func(_ string, i *moveIn) bool { in = i; return false })
		return out != nil && in != nil && out.now.Load() != nil
	})
	return out, in
}

// send sends ada a message from node a.
func (w *followed) send(name, payload string) {
	w.Helper()
	w.sendFrom(w.a, name, payload)
}

func (w *followed) sendFrom(n *Node, name, payload string) {
	w.Helper()
	to := n.Target(w.ada, false)
	if err := n.Send(w.ctx, &to, &Outgoing{Name: name, Payload: []byte(payload)}); err != nil {
		w.Fatal(err)
	}
}

// ask asks an Actor from node a.
func (w *followed) ask(id string) {
	w.Helper()
	to := w.a.Target(id, false)
	r, err := w.a.Request(w.ctx, &to, &Outgoing{Name: "ask"})
	if err != nil {
		w.Fatal(err)
	}
	r.Release()
}

// inTurnOf returns what f finds in a turn of the object.
func inTurnOf[T any](t *testing.T, c *objectCell, f func() T) (found T) {
	t.Helper()
	if err := c.inStep(func(*turn) *Error { found = f(); return nil }); err != nil {
		t.Fatal(err)
	}
	return found
}

// Nothing at the target bounds what comes between the commit and the opening: so the source
// keeps the originals till then.
func TestASourceKeepsWhatItRelayedUntilTheActorOpens(t *testing.T) {
	w := newFollowed(t, func(*Config) {})
	open := make(chan struct{})
	w.joined = func() { <-open }
	goOn := sync.OnceFunc(func() { close(open) })
	t.Cleanup(goOn)
	out, in := w.goes()
	kept := func() int { return inTurnOf(t, out.cell, func() int { return out.mover.Load().out.Kept() }) }
	const sent = 20
	var want []string
	for i := range sent {
		w.send("note", fmt.Sprint(i))
		want = append(want, fmt.Sprint("b ", i))
	}
	until(t, "they are there", func() bool {
		return inTurnOf(t, in.queue.cell.Load(), func() relay.Seq { return in.queue.in.Last() }) == sent
	})
	w.ask(w.other) // its answer is behind all that b has said
	if n := kept(); n != sent {
		t.Errorf("%d of %d originals are kept", n, sent)
	}
	goOn()
	until(t, "they are acknowledged", func() bool { return kept() == 0 })
	w.ask(w.ada)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.ran, want) {
		t.Errorf("%q ran", w.ran)
	}
}

// What a target says of a move that has ended at its source is not kept.
func TestAMoveThatHasEndedKeepsNothingOfWhatItIsTold(t *testing.T) {
	w := newFollowed(t, func(*Config) {})
	out, _ := w.goes()
	for range 20 { // each is acknowledged
		w.ask(w.ada)
	}
	until(t, "all are acknowledged", func() bool {
		return inTurnOf(t, out.cell, func() int { return out.mover.Load().out.Kept() }) == 0
	})
	out.events.mu.Lock()
	defer out.events.mu.Unlock()
	if len(out.events.all) != 0 {
		t.Errorf("%d events are kept", len(out.events.all))
	}
}

// A target that says the same all the time fills nobody's memory, though nobody looks.
func TestWhatATargetSaysAgainIsKeptOnce(t *testing.T) {
	o := &moveOut{events: newInbox(saidAgain)}
	for range 1000 {
		o.progress(nil, &wire.MoveProgress{State: wire.ProgressCommitted})
	}
	if len(o.events.all) != 1 {
		t.Errorf("%d events are kept", len(o.events.all))
	}
}

// However long the follow is that a node is configured with, its target takes what follows.
// req: MF-01
func TestATargetKnowsAMoveForAsLongAsItsSourceFollows(t *testing.T) {
	const follow = 10 * time.Minute
	w := newFollowed(t, func(c *Config) { c.MessageFollowDuration = follow })
	w.goes()
	w.ask(w.ada)
	later := clock.Now().Add(w.b.cfg.MoveValidity + follow) // the source may have learnt of the commit as late
	w.b.sweepMoves(later)
	w.ask(w.ada)
	w.b.sweepMoves(later.Add(2 * follow))
	if n := w.b.moves.in.Len(); n != 0 {
		t.Errorf("%d moves are known for ever", n)
	}
}

// What is sent at the node that an object has left is not lost when the follow ends, whenever the
// sender has looked it up.
// req: MF-01
func TestWhatIsSentWhereAnObjectWasIsNotLostAtTheEndOfTheFollow(t *testing.T) {
	w := newFollowed(t, func(*Config) {})
	out, _ := w.goes()
	ended := relay.NewFollow(store.ObjectGen(out.cell.ref.ObjectGen), store.OwnerGen(out.cell.ref.OwnerGen)+1, clock.Now(), 0)
	inTurnOf(t, out.cell, func() bool { out.mover.Load().follow = ended; return true })
	w.sendFrom(w.a, "note", "behind the end")
	end := clock.Mono(out.until.Load())
	w.a.sweepMoves(end)
	w.sendFrom(w.a, "note", "by the present route")
	if err := out.cell.push(sender{kind: msgSend}, &Outgoing{Name: "note", Payload: []byte("looked up before")}, clock.Never, nil); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"b behind the end", "b by the present route", "b looked up before"} {
		until(t, line, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Contains(w.ran, line)
		})
	}
	w.a.sweepMoves(end.Add(sweepPause))
	until(t, "the move is forgotten", func() bool { return w.a.moves.out.Len() == 0 })
}

// What was relayed and not acknowledged takes none of the node's budget once its Actor is gone.
func TestWhatWasRelayedGivesTheNodesBudgetBackWithItsActor(t *testing.T) {
	n := storedNode(t, &scripted{})
	n.cfg.ObjectQueueBytes = objectQueueBytesMax
	if err := n.pool.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.pool = mailbox.NewPool(mailbox.Config{Bytes: 1 << 20})
	moving, other := n.ready("ada", &journal{}), n.ready("bob", &journal{})
	v := &mover{cell: moving, id: moveID{[16]byte{1}, 1}, to: process{"b", 1}, back: &hold{cell: moving}, phase: moverRelaying, unsure: true}
	moving.box.Seal(v)
	fill := func(c *objectCell) (taken int) {
		for c.push(sender{kind: msgSend}, &Outgoing{Name: "note", Payload: make([]byte, 10_000)}, clock.Never, nil) == nil {
			taken++
		}
		return taken
	}
	other.box.Seal(&hold{cell: other})
	taken := 0
	until(t, "all are relayed", func() bool {
		more := fill(moving)
		taken += more
		return more == 0 && inTurnOf(t, moving, func() int { return v.out.Kept() }) == taken
	})
	if taken := fill(other); taken != 0 {
		t.Fatalf("beside them there is room for %d", taken)
	}
	n.drop(moving, errGone)
	until(t, "there is room", func() bool { return fill(other) > 0 })
}

// The target may have executed what it was given, also if the Actor's row is gone since: who asked
// is not told that it was not. What has not left ends with the Actor.
func TestWhatTheTargetWasGivenIsNotCalledUntakenWhenItsActorEnds(t *testing.T) {
	gone := func(c *objectCell, _ *mover) { c.node.drop(c, errGone) }
	strands := func(elsewhere bool) func(*objectCell, *mover) {
		return func(c *objectCell, v *mover) { c.step(func(t *turn) { v.strand(t.claim, errStranded, elsewhere) }) }
	}
	for _, c := range []struct {
		what         string
		asked, ended moverPhase
		end          func(*objectCell, *mover)
		want         *Error
	}{
		{"it is saved, and the move goes on", moverSaving, moverRelaying, gone, errHanded},
		{"it is relayed", moverRelaying, moverRelaying, gone, errHanded},
		{"it is saved, and the move does not go on", moverSaving, moverHolding, gone, errGone},
		{"it is held", moverHolding, moverHolding, gone, errGone},
		{"it is saved, and the target may have it", moverSaving, moverRelaying, strands(true), errHanded},
		{"it is relayed, and the target may have it", moverRelaying, moverRelaying, strands(true), errHanded},
		{"it is saved, and is nowhere", moverSaving, moverRelaying, strands(false), errStranded},
		{"it is relayed, and is nowhere", moverRelaying, moverRelaying, strands(false), errStranded},
	} {
		t.Run(c.what, func(t *testing.T) {
			n := storedNode(t, &scripted{})
			cell := n.ready("ada", &journal{})
			v := &mover{cell: cell, id: moveID{[16]byte{1}, 1}, to: process{"b", 1}, back: &hold{cell: cell}, phase: c.asked, unsure: true}
			cell.box.Seal(v)
			asked := make(chan *Error, 1)
			go func() {
				asked <- n.requestHere(t.Context(), cell, false, &Outgoing{Name: "note"}, clock.Now().Add(time.Minute)).err
			}()
			until(t, "it has it", func() bool {
				return inTurnOf(t, cell, func() bool { return v.out.Kept()+len(v.saved)+len(v.held) == 1 })
			})
			inTurnOf(t, cell, func() bool { v.phase = c.ended; return true })
			c.end(cell, v)
			if err := await(t, "its answer", asked); err != c.want {
				t.Errorf("it ends with %v, want %v", err, c.want)
			}
			until(t, "nothing is left", func() bool { return cell.box.Len() == 0 })
		})
	}
}

// The target's word that it has the Actor may come when the Source has ended and the Actor is not
// listed yet, as that waits for its turn. So the target is asked behind that.
// req: RL-16
func TestATargetsWordIsNotLostWhileItsActorIsStranded(t *testing.T) {
	w := newFollowed(t, func(*Config) {})
	out, _ := w.goes()
	busy, goOn := make(chan struct{}), make(chan struct{})
	out.cell.step(func(*turn) { close(busy); <-goOn })
	<-busy
	stranded := make(chan struct{})
	go func() {
		defer close(stranded)
		out.strand(&relay.SourceEnded{Elsewhere: true, Failure: &relay.Failure{Kind: errkind.Unavailable, Text: "a new epoch"}})
	}()
	out.progress(w.a.linkOf(out.to), &wire.MoveProgress{Relocation: out.id.relocation, Attempt: out.id.attempt, State: wire.ProgressCommitted})
	close(goOn)
	<-stranded
	until(t, "it is not listed", func() bool { return len(w.a.StuckObjects()) == 0 })
	w.ask(w.ada)
}
