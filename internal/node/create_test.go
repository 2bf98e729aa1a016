package node

import (
	"context"
	"testing"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
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
	job := creation{op: op, id: "x", typ: "journal", objGen: 9, version: 3, deadline: clock.Never}
	type end struct {
		result wire.CreateResult
		err    *Error
	}
	run := func(job creation) <-chan end {
		ended := make(chan end, 1)
		n.tasks.Go(func() {
			result, err := n.runCreation(job)
			ended <- end{result, err}
		})
		return ended
	}
	scan := run(job)
	await(t, "the decision", entered)
	if e := await(t, "who does not wait", run(job)); e.err != errCreationRuns {
		t.Errorf("who does not wait got %+v", e)
	}
	job.waits = true
	late := run(job)
	until(t, "it waits", func() bool { return n.creations.inside.Load() == 2 || len(late) > 0 })
	close(decide)
	if e := await(t, "the scan's", scan); e.err != nil {
		t.Error(e.err)
	}
	e := await(t, "the late one", late)
	if e.err != nil || e.result.Outcome != wire.OutcomeCreated || e.result.Ref.ObjGen != 9 || string(e.result.Reply) != "welcome" {
		t.Errorf("the late one got %+v, %v", e.result, e.err)
	}
	if left := n.creations.inside.Load(); left != 0 {
		t.Errorf("%d creations are counted though all have ended", left)
	}
}

// req: CR-15
func TestWhoWaitsForACreationThatRunsWaitsToItsOwnDeadline(t *testing.T) {
	n := storedNode(t, &scripted{})
	job := creation{op: store.OperationKey{Op: newOpID()}, id: "x", deadline: clock.Now(), waits: true}
	n.running.begin(&job)
	if _, err := n.runCreation(job); err == nil || err.Kind != errkind.DeadlineExceeded {
		t.Errorf("past its deadline it got %v", err)
	}
}
