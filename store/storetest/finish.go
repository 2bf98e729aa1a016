package storetest

import (
	"bytes"
	"crypto/sha256"

	"github.com/zlnode/zlnode/store"
)

var finishCases = []testCase{
	{"CreatedMakesTheRowReady", func(w *world) {
		p := w.server("node-a", limit(1))
		r := request("player-1", p)
		reserved := w.reserve(r, store.Applied)
		ready := w.finish(reserved, r.Op, store.Created, store.Applied).Record
		want := reserved
		want.State, want.Version, want.LeaseLeft, want.Create = store.Ready, ready.Version, ready.LeaseLeft, nil
		if ready != want || ready.Version <= reserved.Version || ready.SpotID != p.desc.EntrySpotID {
			w.t.Errorf("Ready row is %+v; want %+v with a larger version", ready, want)
		}
		read, found := w.read(r.ID)
		read.LeaseLeft = ready.LeaseLeft
		if !found || read != ready {
			w.t.Errorf("read %+v, %v; want %+v", read, found, ready)
		}
		w.wantActors(p.RID, 1)
		w.reserve(request("player-2", p), store.CapacityExceeded) // the slot is active, not free
		t := w.wantTerminal(r.Op, store.Created)
		if t.ID != r.ID || t.ObjectGen != ready.ObjectGen {
			w.t.Errorf("terminal record is %+v", t)
		}
	}},
	{"RejectedAndFailedLeaveNoRow", func(w *world) {
		p := w.server("node-a", limit(1))
		for _, result := range []store.Result{store.Rejected, store.Failed} {
			r := request("player-1", p)
			reserved := w.reserve(r, store.Applied)
			if c := w.finish(reserved, r.Op, result, store.Applied); c.Found {
				w.t.Errorf("%v shows a row: %+v", result, c.Record)
			}
			w.wantMissing(r.ID)
			w.wantActors(p.RID, 0)
			t := w.wantTerminal(r.Op, result)
			if t.ID != r.ID || t.ObjectGen != reserved.ObjectGen || string(t.Reply) != "reply" || t.FailKind != 12 ||
				t.Hash != sha256.Sum256(t.Reply) {
				w.t.Errorf("terminal record of %v is %+v", result, t)
			}
			w.wantTerminal(r.Op, result)
			next := w.reserve(request(r.ID, p), store.Applied) // the slot is free again
			if next.ObjectGen <= reserved.ObjectGen || next.Version <= reserved.Version {
				w.t.Errorf("next incarnation is %d at version %d, after %d at %d", next.ObjectGen, next.Version, reserved.ObjectGen, reserved.Version)
			}
			w.finish(next, next.Create.Op, store.Failed, store.Applied)
		}
	}},
	{"ReplyOfOneMiBIsKept", func(w *world) {
		p := w.server("node-a")
		r := request("player-1", p)
		a := w.reserve(r, store.Applied)
		reply := bytes.Repeat([]byte{0, 1, 0xfe, '\n'}, store.PayloadBytesMax/4)
		c, err := w.s.Finish(w.ctx(), store.Finish{Fence: fence(a), Op: r.Op, Result: store.Rejected, Reply: reply})
		if err != nil || c.Reason != store.Applied {
			w.t.Fatalf("Finish = %+v, %v", c, err)
		}
		if t := w.wantTerminal(r.Op, store.Rejected); !bytes.Equal(t.Reply, reply) {
			w.t.Errorf("reply of %d bytes came back with %d", len(reply), len(t.Reply))
		}
	}},
	{"OperationOfAnotherSourceEndsNothing", func(w *world) {
		p := w.server("node-a")
		r := request("player-1", p)
		a := w.reserve(r, store.Applied)
		for _, change := range []func(*store.OperationKey){
			func(k *store.OperationKey) { k.SourceRID = "node-z" },
			func(k *store.OperationKey) { k.SourceLifecycle++ },
		} {
			op := r.Op // of the same id
			change(&op)
			if c := w.finish(a, op, store.Created, store.VersionConflict); c.Record.State != store.Creating {
				w.t.Errorf("it ended the creation: %+v", c.Record)
			}
		}
		w.finish(a, r.Op, store.Created, store.Applied)
	}},
	{"OtherIncarnationWithTheSameOperationIsNoRepeat", func(w *world) {
		p := w.server("node-a")
		r := request("player-1", p)
		a := w.reserve(r, store.Applied)
		w.finish(a, r.Op, store.Created, store.Applied)
		a.ObjectGen++
		w.finish(a, r.Op, store.Created, store.GenerationConflict)
	}},
	{"AgainIsAlreadyApplied", func(w *world) {
		p := w.server("node-a")
		for _, result := range []store.Result{store.Created, store.Rejected, store.Failed} {
			r := request("player-"+result.String(), p)
			a := w.reserve(r, store.Applied)
			first := w.finish(a, r.Op, result, store.Applied)
			again := w.finish(a, r.Op, result, store.AlreadyApplied)
			if again.Found != first.Found || again.Record.Version != first.Record.Version {
				w.t.Errorf("%v again gives %+v; first was %+v", result, again, first)
			}
			// A second thought comes too late: the first result stands.
			w.finish(a, r.Op, store.Rejected, store.AlreadyApplied)
			w.wantTerminal(r.Op, result)
		}
		w.wantActors(p.RID, 1)
	}},
	{"NeedsTheReservationsOperation", func(w *world) {
		p := w.server("node-a")
		r := request("player-1", p)
		a := w.reserve(r, store.Applied)
		w.finish(a, operation(p), store.Created, store.VersionConflict)
		if read, _ := w.read(r.ID); read.State != store.Creating || read.Version != a.Version {
			w.t.Errorf("row is %+v after a refused finish", read)
		}
	}},
	{"UnknownOperationHasNoTerminal", func(w *world) {
		p := w.server("node-a")
		r := request("player-1", p)
		w.reserve(r, store.Applied)
		if t, found, err := w.s.ReadTerminal(w.ctx(), r.Op); err != nil || found {
			w.t.Errorf("ReadTerminal of an open operation = %+v, %v, %v", t, found, err)
		}
	}},
	{"TerminalsAreKeyedByTheWholeOperation", func(w *world) {
		p, other := w.server("node-a"), w.server("node-b")
		_, op := w.create("player-1", p)
		for _, foreign := range []store.OperationKey{
			{SourceRID: other.RID, SourceLifecycle: op.SourceLifecycle, Op: op.Op},
			{SourceRID: op.SourceRID, SourceLifecycle: other.Gen, Op: op.Op},
			{SourceRID: op.SourceRID, SourceLifecycle: op.SourceLifecycle, Op: newOp()},
		} {
			if t, found, err := w.s.ReadTerminal(w.ctx(), foreign); err != nil || found {
				w.t.Errorf("ReadTerminal(%+v) = %+v, %v, %v; want none", foreign, t, found, err)
			}
		}
		w.wantTerminal(op, store.Created)
	}},
	{"TargetThatOnlyExpiredRenewsAndTriesAgain", func(w *world) {
		p := w.server("node-a")
		r := request("player-1", p)
		a := w.reserve(r, store.Applied)
		w.expire(p)
		w.finish(a, r.Op, store.Created, store.LeaseExpired)
		w.renew(p.Lease, longTTL, store.Applied)
		w.finish(a, r.Op, store.Created, store.Applied)
	}},
}

var deleteCases = []testCase{
	{"RemovesRowAndSlot", func(w *world) {
		p := w.server("node-a", limit(1))
		a, _ := w.create("player-1", p)
		if c := w.delete(a, newOp(), store.Applied); c.Found {
			w.t.Errorf("deletion shows a row: %+v", c.Record)
		}
		w.wantMissing(a.ID)
		w.wantActors(p.RID, 0)
		next, _ := w.create(a.ID, p)
		if next.ObjectGen <= a.ObjectGen || next.Version <= a.Version {
			w.t.Errorf("next incarnation is %d at version %d, after %d at %d", next.ObjectGen, next.Version, a.ObjectGen, a.Version)
		}
	}},
	{"AgainIsAlreadyApplied", func(w *world) {
		p := w.server("node-a")
		a, _ := w.create("player-1", p)
		op := newOp()
		w.delete(a, op, store.Applied)
		w.delete(a, op, store.AlreadyApplied)
		w.delete(a, newOp(), store.Missing)
		next, _ := w.create(a.ID, p)
		if c := w.delete(a, op, store.AlreadyApplied); c.Record.ObjectGen != next.ObjectGen {
			w.t.Errorf("late repeat shows %+v; want the row as it is, %+v", c.Record, next)
		}
		if read, found := w.read(a.ID); !found || read.ObjectGen != next.ObjectGen {
			w.t.Errorf("a late repeat removed the next incarnation: %+v, %v", read, found)
		}
	}},
	{"LeavesACreatingRow", func(w *world) {
		p := w.server("node-a")
		a := w.reserve(request("player-1", p), store.Applied)
		w.delete(a, newOp(), store.VersionConflict)
		w.wantActors(p.RID, 1)
	}},
}
