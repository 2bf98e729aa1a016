package node

import (
	"context"
	"testing"

	"github.com/zlnode/zlnode/store"
)

// req: CL-02
func TestASpotIsClosedWhenNoTurnOfItIsInAYield(t *testing.T) {
	w := newJoins(t)
	spot := w.object(store.InstanceSpot, "dungeon", false)
	spot.typ.OnClosing = func(*Call, any, ClosingReason) error { w.notes.add('C'); return nil }
	waits, release := make(chan struct{}), make(chan struct{})
	w.tell(spot, func(c *Call) error {
		err := w.node.Do(c.Yielding(), IO, func(context.Context) error { close(waits); <-release; return nil })
		w.notes.add('Y')
		return err
	})
	await(t, "the yield", waits)
	closed := make(chan error, 1)
	go func() { closed <- w.node.closeSpot(t.Context(), spot) }()
	until(t, "the closing has had its turn", func() bool {
		calm := make(chan bool, 1)
		spot.ended(func(*turn) { calm <- spot.calm.Load() != nil })
		return <-calm
	})
	w.note(spot, 'x') // the Spot goes on meanwhile
	barrier(t, spot)
	close(release)
	if err := await(t, "the end", closed); err != nil {
		t.Error(err)
	}
	w.is("xYC")
}

// A Spot that ends while its closing waits for a yield answers it.
func TestAClosingThatWaitsEndsWithItsSpot(t *testing.T) {
	w := newJoins(t)
	spot := w.object(store.InstanceSpot, "dungeon", false)
	waits, release := make(chan struct{}), make(chan struct{})
	w.tell(spot, func(c *Call) error {
		return w.node.Do(c.Yielding(), IO, func(context.Context) error { close(waits); <-release; return nil })
	})
	await(t, "the yield", waits)
	refused := make(chan *Error, 1)
	spot.whenCalm(func(turn *turn) { refused <- turn.refused })
	spot.refuseAll(errGone)
	if err := await(t, "the refusal", refused); err != errGone {
		t.Errorf("refused with %v", err)
	}
	close(release)
	barrier(t, spot)
}
