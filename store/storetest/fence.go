package storetest

import (
	"github.com/zlnode/zlnode/store"
)

var fenceCases = []testCase{
	{"EveryPartIsCompared", func(w *world) {
		p, other := w.server("node-a"), w.server("node-b")
		w.create("player-0", p) // so that no generation or version is the first
		r := request("player-1", p)
		creating := w.reserve(r, store.Applied)
		ready, _ := w.create("player-2", p)
		for _, c := range []struct {
			edit func(*store.Authority)
			want store.Reason
		}{
			{func(a *store.Authority) { a.ID = "Player-1" }, store.Missing},
			{func(a *store.Authority) { a.ObjectGen-- }, store.GenerationConflict},
			{func(a *store.Authority) { a.ObjectGen++ }, store.GenerationConflict},
			{func(a *store.Authority) { a.Version-- }, store.VersionConflict},
			{func(a *store.Authority) { a.Version++ }, store.VersionConflict},
			{func(a *store.Authority) { a.OwnerID = other.OwnerID }, store.OwnerConflict},
			{func(a *store.Authority) { a.LeaseGen = other.Gen }, store.OwnerConflict},
			{func(a *store.Authority) { a.OwnerID, a.LeaseGen = other.OwnerID, other.Gen }, store.OwnerConflict},
		} {
			a := creating
			c.edit(&a)
			w.finish(a, r.Op, store.Created, c.want)
			a = ready
			c.edit(&a)
			w.delete(a, newOp(), c.want)
		}
		for _, a := range []store.Authority{creating, ready} {
			if now, found := w.read(a.ID); !found || now.Version != a.Version || now.State != a.State {
				w.t.Errorf("%q is %+v after refused changes; want %+v", a.ID, now, a)
			}
		}
		w.wantActors(p.RID, 3)
	}},
	{"OldFenceNeverMatchesALaterIncarnation", func(w *world) {
		p := w.server("node-a")
		r := request("player-1", p)
		old := w.reserve(r, store.Applied)
		w.finish(old, r.Op, store.Rejected, store.Applied)
		next := request(r.ID, p)
		w.reserve(next, store.Applied)
		w.finish(old, next.Op, store.Created, store.GenerationConflict)
		w.delete(old, newOp(), store.GenerationConflict)
	}},
	{"ExpiredHolderChangesNothing", func(w *world) {
		p := w.server("node-a")
		w.everythingRefused(p, store.LeaseExpired, func() { w.expire(p) })
	}},
	{"ReleasedHolderChangesNothing", func(w *world) {
		p := w.server("node-a")
		w.everythingRefused(p, store.LeaseExpired, func() {
			if reason, err := w.s.ReleaseLease(w.ctx(), p.Lease); err != nil || reason != store.Applied {
				w.t.Fatalf("ReleaseLease = %v, %v", reason, err)
			}
		})
	}},
	{"PausedHolderThatWasSupersededChangesNothing", func(w *world) {
		p := w.server("node-a")
		next := process{}
		w.everythingRefused(p, store.LeaseSuperseded, func() {
			w.expire(p)
			next = w.server("node-a")
		})
		w.renew(p.Lease, longTTL, store.LeaseSuperseded)
		if reason, err := w.s.ReleaseLease(w.ctx(), p.Lease); err != nil || reason != store.LeaseSuperseded {
			w.t.Errorf("ReleaseLease = %v, %v", reason, err)
		}
		if reason, err := w.s.RemoveNode(w.ctx(), p.Lease); err != nil || reason != store.LeaseSuperseded {
			w.t.Errorf("RemoveNode = %v, %v", reason, err)
		}
		if d, found := w.node("node-a"); !found || d.Lifecycle != next.Gen || d.LeaseLeft <= 0 || d.Actors != 0 {
			w.t.Errorf("node is %+v, %v; want the next process's, with none of the old one's Actors", d, found)
		}
	}},
	{"LaterProcessOfTheRIDIsNotTheOwner", func(w *world) {
		p := w.server("node-a")
		a, _ := w.create("player-1", p)
		w.expire(p)
		next := w.server("node-a")
		a.OwnerID, a.LeaseGen = next.OwnerID, next.Gen
		w.delete(a, newOp(), store.OwnerConflict)
		if read, found := w.read(a.ID); !found || read.LeaseLeft != 0 || read.OwnerID != p.OwnerID {
			w.t.Errorf("row of the dead process reads %+v, %v; want it unchanged without lease", read, found)
		}
	}},
}

// everythingRefused ends p's lease and lets p try all that it could do before.
func (w *world) everythingRefused(p process, want store.Reason, end func()) {
	w.t.Helper()
	r := request("player-1", p)
	creating := w.reserve(r, store.Applied)
	ready, _ := w.create("player-2", p)
	end()
	for _, result := range []store.Result{store.Created, store.Rejected, store.Failed} {
		w.finish(creating, r.Op, result, want)
	}
	w.delete(ready, newOp(), want)
	w.publish(p.Lease, p.desc, want)
	w.reserve(request("player-3", p), store.TargetUnavailable)
	for _, a := range []store.Authority{creating, ready} {
		if now, found := w.read(a.ID); !found || now.Version != a.Version || now.LeaseLeft != 0 {
			w.t.Errorf("%q is %+v, %v; want version %d and no lease left", a.ID, now, found, a.Version)
		}
	}
	w.wantMissing("player-3")
}
