package node

import (
	"context"
	"testing"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// The coordinator's ask comes when the scan for reservations has found the creation
// already: it waits for that one and gets its result. One who only made sure that it
// runs does not wait.
// req: CR-15
func TestALateAskGetsTheResultOfTheCreationThatRuns(t *testing.T) {
	entered, decide := make(chan struct{}, 1), make(chan struct{})
	op := store.OperationKey{SourceRID: "b", SourceLifecycle: 4, Op: newOpID()}
	row := store.Authority{
		ID: "x", Kind: store.Actor, Type: "journal", State: store.Creating, ObjectGen: 9, Version: 3,
		RID: "a", OwnerID: "owner", LeaseGen: 5, Create: &store.Creation{Op: op},
	}
	kept := make(chan store.Terminal, 1)
	n := storedNode(t, &scripted{
		read: func(context.Context, string) (store.Authority, bool, error) { return row, true, nil },
		finish: func(f store.Finish) (store.Change, error) {
			kept <- store.Terminal{Result: f.Result, ID: f.ID, ObjectGen: f.ObjectGen, Reply: f.Reply}
			ready := row
			ready.State, ready.Version, ready.Create = store.Ready, 4, nil
			return store.Change{Reason: store.Applied, Found: true, Record: ready}, nil
		},
		terminal: func(key store.OperationKey) (store.Terminal, bool, error) {
			if key != op {
				t.Errorf("asked for the result of %+v", key)
			}
			return <-kept, true, nil
		},
	})
	typ := journalType(&journal{})
	typ.Factory = func(*ObjectContext) (any, error) { return 1, nil }
	n.app = &App{Actors: map[string]*ObjectType{"journal": typ}, Entry: EntrySpot{
		OnCreateActor: func(*CreateCall) (Admission, error) {
			entered <- struct{}{}
			<-decide
			return Admission{Reply: []byte("welcome")}, nil
		},
	}}
	job := creation.Job{Op: op, ID: "x", Type: "journal", Kind: store.Actor, ObjGen: 9, Version: 3, Deadline: clock.Never}
	type end struct {
		result creation.Result
		err    *Error
	}
	run := func(waits bool) <-chan end {
		ended := make(chan end, 1)
		n.tasks.Go(func() {
			result, err := n.runCreation(job, waits)
			ended <- end{result, err}
		})
		return ended
	}
	scan := run(false)
	await(t, "the decision", entered)
	if e := await(t, "who does not wait", run(false)); e.err != errCreationRuns {
		t.Errorf("who does not wait got %+v", e)
	}
	late := run(true)
	until(t, "it waits", func() bool { return n.creations.inside.Load() == 2 || len(late) > 0 })
	close(decide)
	if e := await(t, "the scan's", scan); e.err != nil {
		t.Error(e.err)
	}
	e := await(t, "the late one", late)
	if e.err != nil || e.result.Terminal.Result != store.Created || e.result.Owner.ObjectGen != 9 || string(e.result.Reply) != "welcome" {
		t.Errorf("the late one got %+v, %v", e.result, e.err)
	}
	if left := n.creations.inside.Load(); left != 0 {
		t.Errorf("%d creations are counted though all have ended", left)
	}
}

// A Store that forgot a creation's end shows it as Creating: its Actor is here, and the
// operation has its kept result.
// req: CR-15
func TestACreationWhoseActorIsHereIsNotRunAgain(t *testing.T) {
	op := store.OperationKey{SourceRID: "b", SourceLifecycle: 4, Op: newOpID()}
	n := storedNode(t, &scripted{
		read: func(context.Context, string) (store.Authority, bool, error) {
			return store.Authority{
				ID: "x", Kind: store.Actor, Type: "journal", State: store.Creating, ObjectGen: 1, Version: 3,
				RID: "a", OwnerID: "owner", LeaseGen: 5, Create: &store.Creation{Op: op},
			}, true, nil
		},
		finish: func(store.Finish) (store.Change, error) {
			t.Error("it was ended again")
			return store.Change{}, store.ErrInvalid
		},
		terminal: func(store.OperationKey) (store.Terminal, bool, error) {
			return store.Terminal{Result: store.Created, ID: "x", ObjectGen: 1, Reply: []byte("welcome")}, true, nil
		},
	})
	typ := journalType(&journal{})
	typ.Factory = func(*ObjectContext) (any, error) {
		t.Error("the factory ran again")
		return 1, nil
	}
	n.app = &App{Actors: map[string]*ObjectType{"journal": typ}}
	c := n.ready("x", &journal{})
	r, err := n.runCreation(creation.Job{Op: op, ID: "x", Type: "journal", Kind: store.Actor, ObjGen: 1, Version: 3, Deadline: clock.Never}, true)
	if err != nil || r.Terminal.Result != store.Created || string(r.Reply) != "welcome" {
		t.Errorf("%+v, %v", r, err)
	}
	if now, _ := n.actors.Load("x"); now != c || c.gone.Load() {
		t.Error("the actor is not the same")
	}
}

// A primary that is over answers when this node has ended its round for the next epoch:
// the Actor opens when its row is written there, and not at all if that is another's.
// req: FO-18
func TestAnAnswerOfAnEarlierEpochOpensNoActor(t *testing.T) {
	for _, taken := range []bool{false, true} {
		asked, answer := make(chan store.Reassert), make(chan store.Reason)
		n := storedNode(t, &scripted{
			finish: func(f store.Finish) (store.Change, error) {
				return store.Change{Reason: store.Applied, Found: true, Epoch: 1, Record: store.Authority{
					ID: f.ID, State: store.Ready, ObjectGen: f.ObjectGen, Version: 2, Epoch: 1,
				}}, nil
			},
			reassert: func(r store.Reassert) (store.Change, error) {
				asked <- r
				return store.Change{Reason: <-answer, Found: true, Record: store.Authority{Version: 7}}, nil
			},
		})
		n.known.Store(2)
		j := &journal{}
		typ := journalType(j)
		typ.Factory = func(*ObjectContext) (any, error) { return j, nil }
		n.app = &App{Actors: map[string]*ObjectType{"journal": typ}}
		row := &store.Authority{
			ID: "x", Kind: store.Actor, Type: "journal", State: store.Creating, ObjectGen: 1, Version: 1, OwnerGen: 1, Create: &store.Creation{},
		}
		job := jobOf(row, clock.Never)
		job.Row = row
		ended := make(chan *Error, 1)
		n.tasks.Go(func() {
			_, err := n.runCreation(job, false)
			ended <- err
		})
		if r := await(t, "the re-assertion", asked); r.Epoch != 2 || r.Version != 2 {
			t.Errorf("written again: %+v", r)
		}
		c, _ := n.actors.Load("x")
		if err := pushNote(c, 1); err != nil {
			t.Fatal(err)
		}
		answer <- store.EpochChanged // the third
		n.known.Store(3)
		for r := await(t, "the next one", asked); r.Epoch != 3; r = await(t, "the next one", asked) {
			answer <- store.EpochChanged
		}
		if len(ended) > 0 {
			t.Error("the creation ended by an answer of an epoch that is over")
		}
		if taken {
			answer <- store.OwnerConflict
			if err := await(t, "the end", ended); err == nil || err.Kind != errkind.Unavailable || n.knows("x") {
				t.Errorf("another's row: %v, here %v", err, n.knows("x"))
			}
			continue
		}
		answer <- store.Applied
		if err := await(t, "the end", ended); err != nil || c.version.Load() != 7 || c.behind(3) {
			t.Errorf("%v, version %d, behind %v", err, c.version.Load(), c.behind(3))
		}
		barrier(t, c)
		if len(j.all) != 1 {
			t.Errorf("%d of what was held came", len(j.all))
		}
	}
}

// req: CR-13
func TestWhoWaitsForACreationThatRunsWaitsToItsOwnDeadline(t *testing.T) {
	n := storedNode(t, &scripted{})
	job := creation.Job{Op: store.OperationKey{Op: newOpID()}, ID: "x", Deadline: clock.Now()}
	n.running.begin(job.Op.Op, job.ID)
	if _, err := n.runCreation(job, true); err == nil || err.Kind != errkind.DeadlineExceeded {
		t.Errorf("past its deadline it got %v", err)
	}
}

// Who finds a reservation at this process before its maker has the Store's answer, a nudge
// or the scan, does not run it: the maker would run what it was told once more.
// req: CR-01
func TestAReservationIsItsMakersToRunFromBeforeTheStoreIsAsked(t *testing.T) {
	key := store.OperationKey{SourceRID: "a", SourceLifecycle: 5, Op: newOpID()}
	var n *Node
	n = storedNode(t, &scripted{reserve: func(r store.Reserve) (store.Change, error) {
		job := creation.Job{Op: r.Op, ID: r.ID, Type: r.Type, Kind: r.Kind, Deadline: clock.Never}
		if _, err := n.runCreation(job, false); err != errCreationRuns {
			t.Errorf("another one who would run it got %v", err)
		}
		return store.Change{}, store.ErrUnknown
	}})
	c := creating{node: n, ctx: t.Context(), req: &CreateRequest{Kind: store.Actor, ID: "x", Type: "journal"}}
	here := creation.Place{RID: "a", Lifecycle: 5}
	for range 2 { // the answer is lost, and it is asked again
		c.perform(&creation.SourceEffect{Do: creation.SourceReserve, Place: here, Op: key})
	}
	if ids := n.running.ids(); !ids["x"] {
		t.Error("it is not the maker's to run while the answer is awaited")
	}
	c.leave()
	if ids := n.running.ids(); len(ids) > 0 {
		t.Errorf("the maker is gone, and nobody else may run %v", ids)
	}
}

// What another runs, as the scan does that found it first, is not its maker's to end.
func TestAnOperationThatRunsIsNotTakenByItsMaker(t *testing.T) {
	n := storedNode(t, &scripted{reserve: func(store.Reserve) (store.Change, error) { return store.Change{}, store.ErrUnknown }})
	op := store.OperationKey{SourceRID: "a", SourceLifecycle: 5, Op: newOpID()}
	if _, first := n.running.begin(op.Op, "x"); !first {
		t.Fatal("not first")
	}
	c := creating{node: n, ctx: t.Context(), req: &CreateRequest{Kind: store.Actor, ID: "x", Type: "journal"}}
	c.perform(&creation.SourceEffect{Do: creation.SourceReserve, Place: creation.Place{RID: "a", Lifecycle: 5}, Op: op})
	c.leave()
	if !n.running.ids()["x"] {
		t.Error("the maker ended what another runs")
	}
	n.running.end(op.Op)
}

// The lease may end while a creation waits for its place.
// req: FO-18
func TestNoFactoryRunsWithoutTheRightToAct(t *testing.T) {
	row := &store.Authority{
		ID: "x", Kind: store.Actor, Type: "journal", State: store.Creating, ObjectGen: 1, Version: 1, OwnerGen: 1, Create: &store.Creation{},
	}
	n := storedNode(t, &scripted{finish: func(f store.Finish) (store.Change, error) { return applied(2) }})
	typ := journalType(&journal{})
	typ.Factory = func(*ObjectContext) (any, error) { t.Error("the factory ran"); return nil, context.Canceled }
	n.app = &App{Actors: map[string]*ObjectType{"journal": typ}}
	if err := n.creations.enter(t.Context(), clock.Never); err != nil { // the only place
		t.Fatal(err)
	}
	job := jobOf(row, clock.Never)
	job.Row = row
	ended := make(chan *Error, 1)
	n.tasks.Go(func() {
		_, err := n.runCreation(job, false)
		ended <- err
	})
	until(t, "it waits", func() bool { return n.creations.inside.Load() == 2 })
	n.admitUntil.Store(0)
	n.creations.leave()
	if err := await(t, "the end", ended); err != nil {
		t.Error(err) // how it ended is in the Store
	}
}
