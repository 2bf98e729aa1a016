package storetest

import (
	"bytes"
	"math"

	"github.com/zlnode/zlnode/store"
)

// questRequest is a reservation of an Instance Spot with its first message.
func questRequest(id string, p process, first []byte) store.Reserve {
	r := spotRequest(store.InstanceSpot, id, p)
	r.First = first
	return r
}

var firstCases = []testCase{
	{"MessageIsStoredWithTheReservationAndKeptUntilItIsBack", func(w *world) {
		p := w.server("node-a")
		message := bytes.Repeat([]byte{0, 0xff, '\r', '\n'}, store.PayloadBytesMax/4)
		r := questRequest("quest-1", p, message)
		a := w.reserve(r, store.Applied)
		w.wantFirst(a, message, 0)
		if !a.FirstPending {
			w.t.Errorf("reserved row is %+v; want its first message pending", a)
		}
		w.reserve(with(r, func(r *store.Reserve) { r.First = []byte("another") }), store.AlreadyApplied)
		w.wantFirst(a, message, 0)
		w.wantNoFirst("quest-1", a.ObjectGen+1)
		a = w.finish(a, r.Op, store.Created, store.Applied).Record
		w.wantFirst(a, message, 0)
		if !a.FirstPending || !w.must(a.ID).FirstPending {
			w.t.Errorf("Ready row is %+v; want its first message pending", a)
		}
		op := newOp()
		got := w.advance(a, op, 7, false, store.Applied)
		if got.Version <= a.Version || !got.FirstPending || got.ObjectGen != a.ObjectGen || got.OwnerGen != a.OwnerGen {
			w.t.Errorf("with its cursor moved the row is %+v; was %+v", got, a)
		}
		w.wantFirst(got, message, 7)
		w.advance(a, op, 7, false, store.AlreadyApplied)
		got = w.advance(got, newOp(), math.MaxUint64, false, store.Applied)
		w.wantFirst(got, message, math.MaxUint64)

		op = newOp()
		done := w.advance(got, op, 9, true, store.Applied)
		if done.FirstPending || done.Version <= got.Version || done.State != store.Ready {
			w.t.Errorf("done: %+v", done)
		}
		w.wantNoFirst(done.ID, done.ObjectGen)
		w.advance(got, op, 9, true, store.AlreadyApplied)
		w.refuses(attempt{"nothing is pending", store.VersionConflict, w.tryAdvance(done)})
	}},
	{"MessageMayBeEmptyOrNone", func(w *world) {
		p := w.server("node-a")
		empty := w.make(questRequest("empty", p, []byte{}))
		w.wantFirst(empty, []byte{}, 0)
		none := w.make(questRequest("none", p, nil))
		w.wantNoFirst(none.ID, none.ObjectGen)
		if none.FirstPending || !empty.FirstPending {
			w.t.Errorf("without message %+v, with an empty one %+v", none, empty)
		}
		w.refuses(attempt{"none is pending", store.VersionConflict, w.tryAdvance(none)})
	}},
	{"MessageGoesWithItsSpot", func(w *world) {
		p := w.server("node-a")
		end := map[string]func(r store.Reserve, a store.Authority){
			"rejected": func(r store.Reserve, a store.Authority) { w.finish(a, r.Op, store.Rejected, store.Applied) },
			"failed":   func(r store.Reserve, a store.Authority) { w.finish(a, r.Op, store.Failed, store.Applied) },
			"deleted": func(r store.Reserve, a store.Authority) {
				w.delete(w.finish(a, r.Op, store.Created, store.Applied).Record, newOp(), store.Applied)
			},
			"freed": func(r store.Reserve, a store.Authority) {
				a = w.finish(a, r.Op, store.Created, store.Applied).Record
				w.free(with(store.FreeOf(&a, newOp()), func(f *store.Free) { f.By = p.Lease }), store.Applied)
			},
		}
		for how, end := range end {
			r := questRequest(how, p, []byte("message"))
			a := w.reserve(r, store.Applied)
			end(r, a)
			w.consistent()
			w.wantMissing(how)
			w.wantNoFirst(how, a.ObjectGen)
			next := w.make(questRequest(how, p, []byte("next")))
			w.wantFirst(next, []byte("next"), 0)
			w.wantNoFirst(how, a.ObjectGen)
		}
	}},
	{"AdvanceIsForTheOwner", func(w *world) {
		p := w.server("node-a")
		creating := w.reserve(questRequest("creating", p, []byte("message")), store.Applied)
		a := w.make(questRequest("quest", p, []byte("message")))
		w.refuses(attempt{"Creating", store.VersionConflict, w.tryAdvance(creating)})
		w.refusesFence(a, w.tryAdvance)
		w.refusesHolder(p, func() func() (store.Change, error) { return w.tryAdvance(a) })
		w.wantFirst(a, []byte("message"), 0)
	}},
	{"SpotDoesNotMoveBeforeItsMessageIsBack", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		a := w.make(questRequest("quest", p, []byte("message")))
		w.refuses(attempt{"it is pending", store.Pending, w.tryMove(moveOf(a, q, "", false))})
		w.moveTo(w.advance(a, newOp(), 0, true, store.Applied), q, "", false)
	}},
	{"ReadySpotWhoseMessageIsNotBackIsCanceledOnceItsOwnerIsDead", func(w *world) {
		p, other := w.server("node-a"), w.server("node-b")
		pending := w.make(questRequest("pending", p, []byte("message")))
		back := w.advance(w.make(questRequest("back", p, []byte("message"))), newOp(), 0, true, store.Applied)
		w.refuses(attempt{"its owner lives", store.OwnerAlive, w.tryCancel(pending)})
		w.expire(p)
		w.refuses(
			attempt{"its message is back", store.VersionConflict, w.tryCancel(back)},
			attempt{"another version", store.VersionConflict, w.tryCancel(with(pending, func(a *store.Authority) { a.Version++ }))},
			attempt{"another incarnation", store.GenerationConflict, w.tryCancel(with(pending, func(a *store.Authority) { a.ObjectGen++ }))},
		)
		c, err := w.s.CancelCreation(w.ctx(), pending.ID, pending.ObjectGen, pending.Version)
		w.outcome("CancelCreation", pending.ID, c, err, store.Applied)
		w.wantMissing(pending.ID)
		w.wantNoFirst(pending.ID, pending.ObjectGen)
		w.refuses(attempt{"again", store.Missing, w.tryCancel(pending)})
		if n := w.freed(p); n != 1 {
			w.t.Errorf("the owner is told of %d rows; want 1", n)
		}
		w.wantSlots(p, 0, 1)
		w.make(questRequest(pending.ID, other, []byte("message")))
	}},
}

func (w *world) advance(a store.Authority, op store.OpID, cursor uint64, done bool, want store.Reason) store.Authority {
	w.t.Helper()
	c, err := w.s.AdvanceFirst(w.ctx(), fence(a), op, cursor, done)
	return w.outcome("AdvanceFirst", a.ID, c, err, want).Record
}

func (w *world) tryAdvance(a store.Authority) func() (store.Change, error) {
	return func() (store.Change, error) { return w.s.AdvanceFirst(w.ctx(), fence(a), newOp(), 1, true) }
}

func (w *world) wantFirst(a store.Authority, message []byte, cursor uint64) {
	w.t.Helper()
	f, found, err := w.s.ReadFirst(w.ctx(), a.ID, a.ObjectGen)
	if err != nil || !found || !bytes.Equal(f.Message, message) || f.Cursor != cursor {
		w.t.Fatalf("first message of %q is %.20q of %d bytes at %d, %v, %v; want %.20q at %d",
			a.ID, f.Message, len(f.Message), f.Cursor, found, err, message, cursor)
	}
}

func (w *world) wantNoFirst(id string, gen store.ObjectGen) {
	w.t.Helper()
	if f, found, err := w.s.ReadFirst(w.ctx(), id, gen); err != nil || found {
		w.t.Fatalf("incarnation %d of %q has the first message %.20q, %v", gen, id, f.Message, err)
	}
}
