package node

import (
	"slices"
	"testing"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// To the Entry Spot of another node an Actor goes without a question: what announces its state
// is the first that the target hears of it, from which on the target takes what comes for the
// Actor. The chunks are of the size that every node takes.
// req: RL-04, RL-25, JN-14
func TestAnActorGoesToAnotherNodesEntrySpotUnasked(t *testing.T) {
	const chunk = 32 << 10
	w := newFollowed(t, func(c *Config) { c.Moves.ChunkBytes = 2 * chunk })
	w.takesNoMore()
	announced := make(chan wire.Manifest, 8)
	w.roads.Watch("a", "b", wire.CmdRestore, func(r wire.Record) { announced <- r.(*wire.Restore).Manifest })
	entered, open := make(chan struct{}), make(chan struct{})
	w.restore = func() { close(entered); <-open }
	joined := make(chan struct{}, 1)
	w.joined = func() { joined <- struct{}{} }
	w.send("home", "")
	await(t, "it is restored", entered)
	w.sendFrom(w.b, "note", "1")
	w.sendFrom(w.b, "note", "2")
	close(open)
	await(t, "the entry spot hears of it", joined)
	w.ask(w.ada)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.ran, []string{"b 1", "b 2"}) {
		t.Errorf("%q ran", w.ran)
	}
	row, found, err := w.b.store.Read(w.ctx, w.ada)
	if err != nil || !found || row.RID != "b" || row.SpotID != w.b.entryID || row.InUserSpot {
		t.Errorf("its row is %+v: %v", row, err)
	}
	if n, _ := w.roads.Passed("b", "a", wire.CmdActorSend); n != 0 {
		t.Errorf("%d messages went from the target to the source", n)
	}
	if n, _ := w.roads.Passed("a", "b", wire.CmdJoinAdmit); n != 0 {
		t.Error("the target was asked for admission")
	}
	chunks, bytes := w.roads.Passed("a", "b", wire.CmdStateChunk)
	if m := await(t, "its state is announced", announced); m.ChunkBytes != chunk || int(m.Chunks) != chunks || chunks < 4 || bytes > chunks*(chunk+wire.StateChunkHead) {
		t.Errorf("announced were %+v, and %d chunks of %d bytes in sum came", m, chunks, bytes)
	}
}

// Where no other node takes the Actor, the Join says so and it stays.
// req: JN-09
func TestAnActorThatNoOthersEntrySpotTakesStays(t *testing.T) {
	w := newFollowed(t, func(*Config) {})
	w.takesNoMore()
	failed := make(chan JoinDone, 1)
	typ := w.a.app.Actors["walker"]
	typ.OnJoinCompleted = func(_ *Call, _ any, done JoinDone) error { failed <- done; return nil }
	w.b.cfg.Weight = 0
	if err := w.b.publish(w.ctx, opServe); err != nil {
		t.Fatal(err)
	}
	until(t, "it knows of both", func() bool {
		_, err := w.a.chooseTarget("main", typeKey{store.Actor, "walker"}, nil, "")
		return err != nil
	})
	w.send("home", "")
	if done := await(t, "the join's end", failed); done.Result != JoinFailed || done.Err.Kind != errkind.Unavailable {
		t.Errorf("it ended with %+v", done)
	}
	w.ask(w.ada)
}
