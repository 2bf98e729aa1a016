package node

import (
	"context"
	"testing"

	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// A row that cannot be read is not one that is gone: the Actor of which the next read says that
// it is here would be dropped.
// req: FO-17
func TestAConfirmedMoveReadsItsRowUntilItHasAnAnswer(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	row, reads := store.Authority{ID: "ada", Version: 7}, 0
	w.store.read = func(context.Context, string) (store.Authority, bool, error) {
		if reads++; reads < 3 {
			return store.Authority{}, false, store.ErrUnavailable
		}
		return row, true, nil
	}
	o := &moveOut{node: w.node, cell: a}
	e := o.confirm()
	o.leaveRow()
	if e.Is != relay.SourceConfirmed || !e.Found || e.Row != row || reads != 3 {
		t.Errorf("%+v after %d reads", e, reads)
	}
}
