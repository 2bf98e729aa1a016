package node

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// The scan for reservations ends one for an Instance Spot that nobody runs and does not run
// it: its message was taken for refused, and has gone elsewhere.
func TestTheScanForReservationsEndsThoseOfInstanceSpots(t *testing.T) {
	op := store.OperationKey{SourceRID: "n", SourceLifecycle: 5, Op: newOpID()}
	var ended []store.Finish
	n := storedNode(t, &scripted{
		held: func(store.Holding) []string { return []string{"x"} },
		read: func(_ context.Context, id string) (store.Authority, bool, error) {
			return store.Authority{
				ID: id, Kind: store.InstanceSpot, State: store.Creating, ObjectGen: 7, Version: 3, OwnerID: "owner", LeaseGen: 5,
				FirstPending: true, Create: &store.Creation{Op: op},
			}, true, nil
		},
		finish: func(f store.Finish) (store.Change, error) {
			ended = append(ended, f)
			return store.Change{Reason: store.Applied}, nil
		},
	})
	seen := n.continueReserved(map[string]store.Version{})
	if len(ended) > 0 || seen["x"] != 3 {
		t.Errorf("ended %v at first sight; seen %v", ended, seen)
	}
	n.continueReserved(seen)
	if len(ended) != 1 || ended[0].Result != store.Failed || ended[0].FailKind != uint8(errkind.Unavailable) ||
		ended[0].Op != op || ended[0].Version != 3 || ended[0].ObjectGen != 7 {
		t.Errorf("ended %+v", ended)
	}
}

// Who gives up a queue learns whether somebody is about to push into it, and who comes
// later does not get in.
func TestAQueueIsGivenUpOnlyWhileNobodyIsInside(t *testing.T) {
	var e entrance
	if !e.enter() || e.shut() {
		t.Fatal("shut with somebody inside")
	}
	e.leave()
	if !e.shut() || e.enter() || e.shut() {
		t.Fatal("not shut, or twice")
	}
	e.open()
	for range 2 {
		if !e.enter() {
			t.Fatal("not open again")
		}
	}
	e.leave()
	e.leave()
	if !e.shut() {
		t.Error("somebody is left inside")
	}
	if none := (*entrance)(nil); !none.enter() || !none.shut() {
		t.Error("no entrance is no obstacle")
	}
}

// activations is a node whose Store lets Instance Spots come into being. finished is how
// their creations ended.
func activations(t *testing.T) (n *Node, typ *ObjectType, finished <-chan store.Finish) {
	ends := make(chan store.Finish, 10)
	rows := struct {
		sync.Mutex
		all map[string]store.Authority
		gen store.ObjectGen
	}{all: map[string]store.Authority{}}
	n = storedNode(t, &scripted{
		reserve: func(r store.Reserve) (store.Change, error) {
			rows.Lock()
			defer rows.Unlock()
			rows.gen++
			row := store.Authority{
				ID: r.ID, Kind: r.Kind, Type: r.Type, State: store.Creating, ObjectGen: rows.gen, OwnerGen: 1, Version: 1, RID: "a", OwnerID: "owner",
				LeaseGen: 5, FirstPending: true, Create: &store.Creation{Op: r.Op},
			}
			rows.all[r.ID] = row
			return store.Change{Reason: store.Applied, Found: true, Record: row}, nil
		},
		finish: func(f store.Finish) (store.Change, error) {
			rows.Lock()
			defer rows.Unlock()
			ends <- f
			row := rows.all[f.ID]
			row.Create, row.Version = nil, row.Version+1
			row.State = store.Ready
			row.FirstPending = false
			return store.Change{Reason: store.Applied, Found: f.Result == store.Created, Record: row}, nil
		},
	})
	n.cfg.Role, n.cfg.CreateTimeout = store.RoleServer, 10*time.Second
	typ = typeWith("quest", func(*Call, any, []byte) error { return nil })
	typ.Kind = store.InstanceSpot
	n.app = &App{Spots: map[string]*ObjectType{"quest": typ}}
	return n, typ, ends
}

// Who hangs is given up, and its creation ended in the Store, so that the id can have another
// Spot. But it keeps its place: else those who hang would be without a bound.
// req: CR-08
func TestAnActivationThatHangsKeepsItsPlace(t *testing.T) {
	for _, way := range []string{"factory", "initialize"} {
		n, typ, finished := activations(t)
		var inside atomic.Int64
		entered, release := make(chan struct{}, 10), make(chan struct{})
		hang := func(here string) {
			if here == way {
				inside.Add(1)
				entered <- struct{}{}
				<-release
				inside.Add(-1)
			}
		}
		typ.Factory = func(*ObjectContext) (any, error) { hang("factory"); return 1, nil }
		typ.OnInitialize = func(*Call, any) error { hang("initialize"); return nil }
		ask := func(id string, within time.Duration) *Error {
			deadline := clock.Now().Add(within)
			return n.askHere(t.Context(), msgIntentRequest, deadline, func(s sender) *Error {
				return n.offerHere(nil, id, "quest", s, note('x'), deadline, nil)
			}).err
		}
		given := make(chan *Error, 1)
		go func() { given <- ask("one", 500*time.Millisecond) }()
		await(t, "the "+way, entered)
		if err := await(t, "its end", given); err == nil || err.Kind != errkind.DeadlineExceeded {
			t.Errorf("%s: %v", way, err)
		}
		if f := await(t, "the creation's end", finished); f.Result != store.Failed || f.FailKind != uint8(errkind.DeadlineExceeded) {
			t.Errorf("%s: ended as %+v", way, f)
		}
		until(t, "its spot is given up", func() bool { return !n.knows("one") })
		if err := ask("two", 200*time.Millisecond); err == nil || inside.Load() != 1 {
			t.Errorf("%s: %d of 1 that may run at once, and the second got %v", way, inside.Load(), err)
		}
		close(release)
		until(t, "the place is free", func() bool { return n.creations.inside.Load() == 0 })
	}
}
