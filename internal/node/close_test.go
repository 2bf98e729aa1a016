package node

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// closer is a Spot that is closed while the test looks on.
type closer struct {
	*joins
	spot     *objectCell
	closings atomic.Int32
	deletes  chan store.Reason // what the Store answers
}

func newCloser(t *testing.T, kind store.Kind, wide bool) *closer {
	w := &closer{joins: newJoins(t), deletes: make(chan store.Reason, 10)}
	w.store.remove = func(f store.Fence) (store.Change, error) {
		if f.SpotID != "" {
			t.Errorf("a spot's fence names the spot %q", f.SpotID)
		}
		w.notes.add('D')
		return store.Change{Reason: <-w.deletes, Found: true, Record: store.Authority{OwnerID: "owner", LeaseGen: 5}}, nil
	}
	w.spot = w.object(kind, "spot", wide)
	w.spot.typ.OnClosing = func(*Call, any, ClosingReason) error {
		w.closings.Add(1)
		w.notes.add('C')
		return nil
	}
	return w
}

// close begins a close and returns when its turn has been.
func (w *closer) close(deadline clock.Mono) <-chan destroyEnd {
	w.Helper()
	turned, ended := make(chan struct{}), make(chan destroyEnd, 1)
	w.spot.ended(func(t *turn) {
		w.node.closeInTurn(t, spotClose{ref: w.spot.ref, op: newOpID(), reason: ExplicitClose, deadline: deadline}, func(e destroyEnd) { ended <- e })
		close(turned)
	})
	await(w.T, "the close's turn", turned)
	return ended
}

// yield has a handler of the Spot wait outside of the gate until release is closed.
func (w *closer) yield() (release chan<- struct{}) {
	w.Helper()
	waits, open := make(chan struct{}), make(chan struct{})
	w.tell(w.spot, func(c *Call) error {
		err := w.node.Do(c.Yielding(), IO, func(context.Context) error { close(waits); <-open; return nil })
		w.notes.add('Y')
		return err
	})
	await(w.T, "the yield", waits)
	return open
}

// Messages behind the close are held while it waits, and refused.
// req: CL-01
func TestACloseWaitsForTurnsInAYield(t *testing.T) {
	for kind, wide := range map[store.Kind]bool{store.UserSpot: true, store.InstanceSpot: false} {
		w := newCloser(t, kind, wide)
		release := w.yield()
		ended := w.close(clock.Never)
		w.note(w.spot, 'x')
		again := make(chan destroyEnd, 1)
		w.spot.ended(func(t *turn) { // a second close is behind the first
			w.node.closeInTurn(t, spotClose{deadline: clock.Never}, func(e destroyEnd) { again <- e })
		})
		close(release)
		w.deletes <- store.Applied
		if e := await(t, "the end", ended); !e.destroyed || e.err != nil {
			t.Errorf("%v: %+v", kind, e)
		}
		if e := await(t, "the second end", again); e.destroyed || e.err != nil {
			t.Errorf("%v: the second close: %+v", kind, e)
		}
		w.is("YCD")
		if !w.spot.gone.Load() || w.node.HasSpot("spot") {
			t.Errorf("%v: it is there still", kind)
		}
	}
}

// A close whose turns in a yield outlast its deadline gives the Spot back, with all that
// came meanwhile.
func TestACloseThatWaitsTooLongGivesTheSpotBack(t *testing.T) {
	w := newCloser(t, store.UserSpot, true)
	release := w.yield()
	ended := w.close(clock.Now())
	w.note(w.spot, 'x')
	close(release)
	if e := await(t, "the end", ended); e.destroyed || e.err != errCloseLate {
		t.Errorf("%+v", e)
	}
	w.note(w.spot, 'z')
	barrier(t, w.spot)
	w.is("Yxz")
	if !w.spot.members.enter() {
		t.Error("it takes no members any more")
	}
}

// While a Spot is closed nobody enters it, and with somebody inside it is not closed.
// req: MB-05
func TestNobodyEntersASpotThatIsBeingClosed(t *testing.T) {
	w := newCloser(t, store.UserSpot, true)
	w.actor("ada")
	w.actor("bob")
	if err := w.node.PlaceMember("ada", "spot"); err != nil {
		t.Fatal(err)
	}
	if e := await(t, "the end", w.close(clock.Never)); e.destroyed || e.err != nil {
		t.Errorf("closed with a member: %+v", e)
	}
	w.node.drop(w.node.cellOf("ada", store.Actor), errGone)
	until(t, "the member has left", w.spot.members.none)
	ended := w.close(clock.Never)
	if err := w.node.PlaceMember("bob", "spot"); KindOf(err) != errClosing.Kind {
		t.Errorf("entered: %v", err)
	}
	w.deletes <- store.Applied
	if e := await(t, "the end", ended); !e.destroyed || e.err != nil {
		t.Errorf("%+v", e)
	}
}

// The Store is tried until the row is gone: a Spot does not come back from its OnClosing,
// but for members of which its node should have known.
// req: CL-01
func TestAClosedSpotsRowIsRemovedInTheEnd(t *testing.T) {
	w := newCloser(t, store.UserSpot, true)
	ended := w.close(clock.Never)
	for _, r := range []store.Reason{store.LeaseExpired, store.VersionConflict, store.AlreadyApplied} {
		w.deletes <- r
	}
	if e := await(t, "the end", ended); !e.destroyed || e.err != nil {
		t.Errorf("%+v", e)
	}
	w.is("CDDD")

	w = newCloser(t, store.UserSpot, true)
	ended = w.close(clock.Never)
	w.note(w.spot, 'x')
	w.deletes <- store.NotEmpty
	if e := await(t, "the end", ended); e.destroyed || e.err != nil {
		t.Errorf("%+v", e)
	}
	barrier(t, w.spot)
	w.is("CDx")
	if w.spot.gone.Load() {
		t.Error("a spot with members ended")
	}
	if err := w.node.closeSpot(t.Context(), w.spot); err != nil || w.closings.Load() != 1 {
		t.Errorf("closed again: %v, %d closings", err, w.closings.Load())
	}
}

// The shutdown meets a close at every of its steps: OnClosing runs once, and one removes
// the row.
// req: CL-02
func TestAShutdownAndACloseMeet(t *testing.T) {
	for name, yields := range map[string]bool{"while it waits": true, "behind its OnClosing": false} {
		t.Run(name, func(t *testing.T) {
			w := newCloser(t, store.UserSpot, true)
			var release chan<- struct{}
			if yields {
				release = w.yield()
			}
			ended := w.close(clock.Never)
			w.node.stopping.Store(true)
			stopped := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			go func() {
				err := w.node.closeSpots(ctx)
				if err == nil {
					err = w.node.removeRows(ctx)
				}
				stopped <- err
			}()
			if yields {
				close(release)
			}
			w.deletes <- store.Applied
			if e := await(t, "the close", ended); !e.destroyed || e.err != nil {
				t.Errorf("%+v", e)
			}
			if err := await(t, "the shutdown", stopped); err != nil {
				t.Error(err)
			}
			if n := w.closings.Load(); n != 1 {
				t.Errorf("%d closings", n)
			}
		})
	}
	w := newCloser(t, store.UserSpot, true)
	w.node.stopping.Store(true)
	if e := await(t, "a close of a node that stops", w.close(clock.Never)); e.err != errStopping || w.closings.Load() != 0 {
		t.Errorf("%+v, %d closings", e, w.closings.Load())
	}
}

func TestARosterIsEitherEnteredOrShut(t *testing.T) {
	for range 200 {
		var r roster
		var in, shut atomic.Int32
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if r.enter() {
					in.Add(1)
				}
			})
			all.Go(func() {
				if r.shut() {
					shut.Add(1)
				}
			})
		}
		all.Wait()
		if shut.Load() > 1 || (shut.Load() == 1) == (in.Load() > 0) || (in.Load() == 0) != r.none() {
			t.Fatalf("%d entered, shut %d times, none left: %v", in.Load(), shut.Load(), r.none())
		}
		if shut.Load() == 1 {
			r.reopen()
			if !r.enter() {
				t.Fatal("it did not open again")
			}
			continue
		}
		for range in.Load() {
			r.leave()
		}
		if !r.shut() {
			t.Fatal("it cannot be shut when all have left")
		}
	}
}

// A close that the Spot was told comes, comes when the node may act again.
// req: CL-01
func TestACloseOfItselfOutlivesADoubtOfTheLease(t *testing.T) {
	for kind, wide := range map[store.Kind]bool{store.UserSpot: true, store.InstanceSpot: false} {
		w := newCloser(t, kind, wide)
		w.node.cfg.CreateTimeout = 10 * time.Second
		w.deletes <- store.Applied
		closes := make(chan bool, 1)
		w.tell(w.spot, func(c *Call) error {
			ok, err := c.Close()
			w.node.admitUntil.Store(0) // the Store does not answer
			closes <- ok && err == nil
			return nil
		})
		if !await(t, "the handler", closes) {
			t.Fatalf("%v: not closed", kind)
		}
		barrier(t, w.spot)
		if w.closings.Load() != 0 {
			t.Errorf("%v: it was closed by a node that may not act", kind)
		}
		w.node.admitUntil.Store(int64(clock.Never))
		until(t, "its end", func() bool { w.node.late.run(); return !w.node.HasSpot("spot") })
		w.is("CD")
	}
}
