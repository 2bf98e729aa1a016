package node

import (
	"context"
	"testing"

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
