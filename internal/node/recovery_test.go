package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/lease"
	"github.com/zlnode/zlnode/store"
)

// The row is being written again: the Actor goes on, and a Destroy waits, then removes
// the row as it is now.
func TestARowIsWrittenAgainWhileItsActorGoesOn(t *testing.T) {
	asked, answer, removed := make(chan struct{}), make(chan struct{}), make(chan store.Fence, 1)
	n := storedNode(t, &scripted{
		reassert: func(store.Reassert) (store.Change, error) {
			asked <- struct{}{}
			<-answer
			return applied(7)
		},
		remove: func(f store.Fence) (store.Change, error) {
			removed <- f
			return applied(0)
		},
	})
	j := &journal{}
	c := n.ready("x", j)
	round := make(chan bool, 1)
	go func() { round <- n.reassertObjects(n.life, 2) }()
	await(t, "the re-assertion", asked)
	if err := pushNote(c, 1); err != nil {
		t.Fatal(err)
	}
	barrier(t, c)
	if len(j.all) != 1 {
		t.Error("the actor stands still while its row is written again")
	}
	destroyed := destroy(t, c)
	if len(removed) > 0 {
		t.Error("the row was removed while it was written again")
	}
	close(answer)
	if !await(t, "the round", round) {
		t.Error("the row is written and the round not complete")
	}
	if e := await(t, "the destroy", destroyed); !e.destroyed || e.err != nil {
		t.Errorf("%+v", e)
	}
	if f := await(t, "the removal", removed); f.Version != 7 {
		t.Errorf("removed version %d, the row has 7", f.Version)
	}
}

// The row turns out to be another's while a Destroy waits for it: there is nothing left to
// destroy, and nothing is asked of the Store.
func TestADestroyOfWhatIsAnothersByThenDoesNothing(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	n := storedNode(t, &scripted{
		reassert: func(store.Reassert) (store.Change, error) {
			asked <- struct{}{}
			<-answer
			return store.Change{Reason: store.OwnerConflict, Found: true, Record: store.Authority{Version: 9}}, nil
		},
		remove: func(store.Fence) (store.Change, error) {
			t.Error("another's row was to be removed")
			return applied(0)
		},
	})
	c := n.ready("x", &journal{})
	round := make(chan bool, 1)
	go func() { round <- n.reassertObjects(n.life, 2) }()
	await(t, "the re-assertion", asked)
	destroyed := destroy(t, c)
	close(answer)
	if e := await(t, "the destroy", destroyed); e.destroyed || e.err != nil {
		t.Errorf("%+v; it was gone already", e)
	}
	if !await(t, "the round", round) || n.knows("x") {
		t.Error("the actor is here though its row is another's")
	}
}

// A Destroy whose outcome is not known yet ends first; then nothing is written again,
// which would bring the row back.
func TestARowThatIsBeingRemovedIsNotWrittenAgain(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	var written atomic.Int64
	n := storedNode(t, &scripted{
		reassert: func(store.Reassert) (store.Change, error) {
			written.Add(1)
			return applied(7)
		},
		remove: func(store.Fence) (store.Change, error) {
			asked <- struct{}{}
			<-answer
			return applied(0)
		},
	})
	c := n.ready("x", &journal{})
	destroyed := destroy(t, c)
	await(t, "the removal", asked)
	if n.reassertObjects(n.life, 2) {
		t.Error("the round is complete though the row's fate is not known")
	}
	close(answer)
	if e := await(t, "the destroy", destroyed); !e.destroyed || e.err != nil {
		t.Errorf("%+v", e)
	}
	if !n.reassertObjects(n.life, 2) {
		t.Error("the row is gone and the round not complete")
	}
	n.reassertObject(n.life, c, 2) // of a round that found the Actor before its end
	if written.Load() != 0 {
		t.Errorf("the row was written %d times after its end", written.Load())
	}
}

// A creation at its end is waited for by the re-assertion, so it must not wait for that.
func TestACreationEndsThoughTheNodeMayNotActBeforeItsRowsAreWritten(t *testing.T) {
	n := storedNode(t, &scripted{
		finish: func(f store.Finish) (store.Change, error) {
			return store.Change{Reason: store.Applied, Found: true, Record: store.Authority{
				ID: f.ID, State: store.Ready, ObjectGen: f.ObjectGen, Version: 2, Epoch: 2,
			}}, nil
		},
	})
	typ := journalType(&journal{})
	typ.Factory = func(*ObjectContext) (any, error) {
		n.admitUntil.Store(0)
		return &journal{}, nil
	}
	n.app = &App{Actors: map[string]*ObjectType{"journal": typ}}
	row := &store.Authority{ID: "x", Kind: store.Actor, Type: "journal", State: store.Creating, ObjectGen: 1, Version: 1, Create: &store.Creation{}}
	job := jobOf(row, clock.Never)
	job.Row = row
	ended := make(chan *Error, 1)
	n.tasks.Go(func() {
		_, err := n.runCreation(job, false)
		ended <- err
	})
	if err := await(t, "the end", ended); err != nil {
		t.Fatal(err)
	}
	if !n.reassertObjects(n.life, 2) {
		t.Error("it is Ready in the new epoch, and the round not complete")
	}
}

// A later epoch makes the rest of the round void.
func TestARoundOfAnEpochThatIsOverEnds(t *testing.T) {
	var tries atomic.Int64
	n := storedNode(t, &scripted{reassert: func(store.Reassert) (store.Change, error) {
		tries.Add(1)
		return store.Change{Reason: store.EpochChanged, Epoch: 3}, nil
	}})
	for i := range 40 * rowCallsMax {
		n.ready(fmt.Sprint("x", i), &journal{})
	}
	if n.reassertObjects(n.life, 2) {
		t.Error("a round is complete of which nothing was written")
	}
	if tries.Load() > 4*rowCallsMax {
		t.Errorf("%d rows were tried in an epoch that is over", tries.Load())
	}
}

// However many rows were freed, the lease's next renewal is not late for it: they are
// read a few at once.
func TestFreedRowsAreReadAFewAtOnce(t *testing.T) {
	const together = 8
	var inside, most atomic.Int64
	gathered := make(chan struct{})
	n := storedNode(t, &scripted{
		held: func(store.Holding) []string { return []string{"kept"} },
		read: func(ctx context.Context, id string) (store.Authority, bool, error) {
			if id == "kept" {
				t.Error("a row was read that this node has, as the list says")
			}
			now := inside.Add(1)
			defer inside.Add(-1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			if now == together {
				close(gathered)
			}
			select {
			case <-gathered:
				return store.Authority{}, false, nil
			case <-ctx.Done():
				return store.Authority{}, false, store.ErrUnknown
			}
		},
	})
	n.ready("kept", &journal{})
	for i := range together {
		n.ready(fmt.Sprint("freed-", i), &journal{})
	}
	if !n.dropFreed(1) {
		t.Errorf("%d rows were read at once, want %d", most.Load(), together)
	}
	if n.actors.Len() != 1 || !n.knows("kept") {
		t.Errorf("%d actors are left", n.actors.Len())
	}
}

// In a new epoch, rows that are not there may be lost. Only who was away for longer than
// its lease, and is told of more that was taken than before, takes them for freed.
func TestLostRowsAreNotTakenForFreed(t *testing.T) {
	for _, c := range []struct {
		what         string
		freed, epoch uint64
		away         bool
		ends         bool
	}{
		{"nothing new", 1, 1, false, false},
		{"more, in the same epoch", 2, 1, false, true},
		{"more, in a new epoch", 2, 2, false, false},
		{"more, in a new epoch, after an absence", 2, 2, true, true},
		{"less, in a new epoch, after an absence", 0, 2, true, false},
	} {
		n := storedNode(t, &scripted{
			held: func(store.Holding) []string { return nil },
			read: func(context.Context, string) (store.Authority, bool, error) { return store.Authority{}, false, nil },
		})
		n.keeper = lease.New(n.cfg.Lease, lease.Answered{SentAt: clock.Now(), Epoch: 1})
		n.freed = 1
		n.ready("x", &journal{})
		if c.away {
			n.admitUntil.Store(0)
		}
		n.heardFreed(&store.LeaseResult{Freed: c.freed, Epoch: store.Epoch(c.epoch)})
		if n.knows("x") == c.ends || n.unread || n.freed != c.freed {
			t.Errorf("%s: the actor is here: %v; it knows of %d, unread %v", c.what, n.knows("x"), n.freed, n.unread)
		}
	}
}

// Others' re-assertions take rows while this node writes its own again: what they have
// not taken is lost, not freed.
func TestATakenRowDoesNotEndThoseThatAreYetToBeWrittenAgain(t *testing.T) {
	var n *Node
	other := store.Authority{State: store.Ready, OwnerID: "other", LeaseGen: 9, ObjectGen: 1}
	n = storedNode(t, &scripted{
		held: func(store.Holding) []string { return nil },
		read: func(_ context.Context, id string) (store.Authority, bool, error) {
			row := other
			switch id {
			case "taken":
				row.Epoch = 2
			case "undone": // its history before this node had it
				row.Epoch = 1
			case "written meanwhile":
				c, _ := n.actors.Load(id)
				c.epoch.Store(2)
				return row, false, nil
			default:
				return row, false, nil
			}
			return row, true, nil
		},
	})
	n.keeper = lease.New(n.cfg.Lease, lease.Answered{SentAt: clock.Now(), Remaining: 15 * time.Second, Epoch: 2})
	stays := map[string]bool{"taken": false, "undone": true, "lost": true, "written meanwhile": true, "freed": false}
	for id := range stays {
		n.ready(id, &journal{})
	}
	freed, _ := n.actors.Load("freed")
	freed.epoch.Store(2)
	n.heardFreed(&store.LeaseResult{Freed: 1, Epoch: 2})
	for id, want := range stays {
		if n.knows(id) != want {
			t.Errorf("%s: it is here: %v", id, n.knows(id))
		}
	}
}

// A try whose answer was lost may be applied yet, and would bring a row back behind a
// Destroy: later tries that say nothing of it settle nothing.
func TestALostAnswerIsSettledOnlyByAnAnswerToTheSameOperation(t *testing.T) {
	var ops []store.OpID
	answers := []func() (store.Change, error){
		func() (store.Change, error) { return store.Change{}, store.ErrUnknown },
		func() (store.Change, error) { return store.Change{}, store.ErrUnavailable },
		func() (store.Change, error) { return store.Change{Reason: store.LeaseExpired, Found: true}, nil },
		func() (store.Change, error) { return applied(7) },
	}
	tries := 0
	next := func() (store.Change, error) {
		tries++
		return answers[tries-1]()
	}
	n := storedNode(t, &scripted{
		reassert: func(r store.Reassert) (store.Change, error) {
			ops = append(ops, r.Op)
			return next()
		},
		remove: func(store.Fence) (store.Change, error) { return next() },
	})
	c := n.ready("x", &journal{})
	if end := n.reassertObject(n.life, c, 2); end != rowIsWritten || tries != len(answers) {
		t.Errorf("after %d tries the end is %v", tries, end)
	}
	for _, op := range ops {
		if op != ops[0] {
			t.Error("the operation was another one before its outcome was known")
		}
	}
	tries = 0
	if e := await(t, "the destroy", destroy(t, c)); !e.destroyed || tries != len(answers) {
		t.Errorf("after %d tries the destroy ended as %+v", tries, e)
	}
}

// errForeign is as the Store reports an answer that was another call's.
var errForeign = errors.Join(store.ErrUnknown, store.ErrCorrupt)

// One unreadable row does not keep the node from acting: its Actor ends, and no other.
func TestAnActorWhoseRowIsUnreadableEndsAlone(t *testing.T) {
	var tries atomic.Int64
	n := storedNode(t, &scripted{reassert: func(r store.Reassert) (store.Change, error) {
		switch {
		case tries.Add(1) <= 2:
			return store.Change{}, errForeign
		case r.ID == "bad":
			return store.Change{}, fmt.Errorf("its row: %w", store.ErrCorrupt)
		}
		return applied(7)
	}})
	n.ready("bad", &journal{})
	n.ready("good", &journal{})
	round := make(chan bool, 1)
	n.tasks.Go(func() { round <- n.reassertObjects(n.life, 2) })
	if !await(t, "the round", round) {
		t.Error("the round is not complete")
	}
	if n.knows("bad") || !n.knows("good") {
		t.Errorf("the unreadable one is here: %v, the other: %v", n.knows("bad"), n.knows("good"))
	}
}

// An answer that was another call's says nothing of a row that may be freed.
func TestAnAnswerThatWasAnothersEndsNoActor(t *testing.T) {
	n := storedNode(t, &scripted{
		held: func(store.Holding) []string { return nil },
		read: func(_ context.Context, id string) (store.Authority, bool, error) {
			if id == "bad" {
				return store.Authority{}, false, store.ErrCorrupt
			}
			return store.Authority{}, false, errForeign
		},
	})
	n.ready("bad", &journal{})
	n.ready("good", &journal{})
	if n.dropFreed(1) {
		t.Error("all is read")
	}
	if n.knows("bad") || !n.knows("good") {
		t.Errorf("the unreadable one is here: %v, the other: %v", n.knows("bad"), n.knows("good"))
	}
}

// What a refusal says of the row: it is another's for good, or it is to be tried again.
func TestARefusedReassertionEndsTheActorOnlyIfItsRowIsAnothers(t *testing.T) {
	own := store.Authority{OwnerID: "owner", LeaseGen: 5, ObjectGen: 1, Version: 7}
	other := store.Authority{OwnerID: "other", LeaseGen: 9, ObjectGen: 1, Version: 7}
	changing := other
	changing.Version = 1 // as this node knows it: it changed while it was read
	for _, c := range []struct {
		what    string
		reason  store.Reason
		row     store.Authority
		end     rowEnd
		version store.Version
	}{
		{"a node's Entry Spot", store.TypeMismatch, other, rowIsOver, 1},
		{"another process's", store.OwnerConflict, other, rowIsOver, 1},
		{"another incarnation", store.GenerationConflict, own, rowIsOver, 1},
		{"a later one of another process", store.VersionConflict, other, rowIsOver, 1},
		{"an own change whose answer was lost", store.VersionConflict, own, rowInDoubt, 7},
		{"changed while it was read", store.VersionConflict, changing, rowInDoubt, 1},
		{"the lease is in doubt", store.LeaseExpired, own, rowInDoubt, 1},
		{"no room", store.CapacityExceeded, own, rowInDoubt, 1},
		{"removed", store.Missing, store.Authority{}, rowIsOver, 1},
		{"a later epoch", store.EpochChanged, own, epochIsOver, 1},
		{"written", store.Applied, own, rowIsWritten, 7},
		{"written by an earlier try", store.AlreadyApplied, own, rowIsWritten, 7},
	} {
		n := storedNode(t, &scripted{reassert: func(store.Reassert) (store.Change, error) {
			return store.Change{Reason: c.reason, Found: true, Record: c.row}, nil
		}})
		cell := n.ready("x", &journal{})
		end := n.reassertObject(n.life, cell, 2)
		if end != c.end || store.Version(cell.version.Load()) != c.version || n.knows("x") == (end == rowIsOver) || cell.behind(2) != (end == rowInDoubt || end == epochIsOver) {
			t.Errorf("%s: end %d, version %d, here %v, behind %v", c.what, end, cell.version.Load(), n.knows("x"), cell.behind(2))
		}
	}
}

// The lease's core hears of the end only when no row is left.
// req: FO-18
func TestTheEndOfARoundIsToldWhenNoRowIsLeft(t *testing.T) {
	n := storedNode(t, &scripted{
		held: func(store.Holding) []string { return nil },
		reassert: func() func(store.Reassert) (store.Change, error) {
			var refused atomic.Bool
			return func(store.Reassert) (store.Change, error) {
				if refused.CompareAndSwap(false, true) {
					return store.Change{Reason: store.LeaseExpired}, nil
				}
				return applied(7)
			}
		}(),
	})
	n.stopping.Store(true) // nothing to publish
	n.endRound = func() {}
	n.keeper = lease.New(n.cfg.Lease, lease.Answered{SentAt: clock.Now(), Epoch: 2})
	c := n.ready("x", &journal{})
	n.beginReassertion(2)
	if epoch := await(t, "the end", n.reasserted); epoch != 2 || c.behind(2) {
		t.Errorf("told of epoch %d, the row is left: %v", epoch, c.behind(2))
	}
}

// A later epoch's round takes the place of the one before, which says nothing any more.
func TestALaterRoundEndsTheOneBefore(t *testing.T) {
	tried := make(chan struct{}, 1)
	n := storedNode(t, &scripted{
		held: func(store.Holding) []string { return nil },
		reassert: func(r store.Reassert) (store.Change, error) {
			if r.Epoch == 3 {
				return applied(7)
			}
			select {
			case tried <- struct{}{}:
			default:
			}
			return store.Change{}, store.ErrUnavailable
		},
	})
	n.serves.Store(true)
	n.stopping.Store(true) // nothing to publish
	n.endRound = func() {}
	n.keeper = lease.New(n.cfg.Lease, lease.Answered{SentAt: clock.Now(), Epoch: 2})
	n.ready("x", &journal{})
	n.beginReassertion(2)
	await(t, "the first round", tried)
	n.beginReassertion(3)
	if epoch := await(t, "the second round's end", n.reasserted); epoch != 3 {
		t.Errorf("told of epoch %d", epoch)
	}
	if err := n.tasks.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(n.reasserted) > 0 {
		t.Errorf("and then of epoch %d", <-n.reasserted)
	}
}

// What runs, or is here already, needs no look at its row, which carries its request.
func TestTheScanForReservationsPassesOverWhatRuns(t *testing.T) {
	var reads atomic.Int64
	n := storedNode(t, &scripted{
		held: func(store.Holding) []string { return []string{"runs", "here", "new"} },
		read: func(_ context.Context, id string) (store.Authority, bool, error) {
			reads.Add(1)
			return store.Authority{
				ID: id, State: store.Creating, Version: 3, OwnerID: "owner", LeaseGen: 5, Create: &store.Creation{},
			}, true, nil
		},
	})
	job := creation.Job{ID: "runs", Op: store.OperationKey{Op: newOpID()}}
	if _, first := n.running.begin(job.Op.Op, job.ID); !first {
		t.Fatal("it runs already")
	}
	n.ready("here", &journal{})
	seen := n.continueReserved(map[string]store.Version{})
	if reads.Load() != 1 || len(seen) != 1 || seen["new"] != 3 {
		t.Errorf("%d reads, seen %v; want the one that is new", reads.Load(), seen)
	}
}
