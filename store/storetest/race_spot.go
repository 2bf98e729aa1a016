package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/store"
)

// movingSpot: a SpotWide Spot moves from process to process, and at times does not,
// while members come, go and are looked at. An Actor's owner generation as read never
// falls, and under each it has one owner, whether its row says so or its Spot's. Who
// stays in the Spot moves with it, and its own row is never written.
func movingSpot(w *world) {
	const moves, actors, lookers = 10, 4, 1
	r := &roundTrip{world: w, owners: map[string]string{}}
	for _, rid := range rids {
		r.processes = append(r.processes, w.server(rid))
	}
	w.room("wide", r.processes[0], true)
	ids, stays := []string(nil), w.member("stays", r.processes[0], "wide")
	for i := range actors {
		ids = append(ids, fmt.Sprint("player-", i))
		w.actor(ids[i], r.processes[i%len(rids)])
	}
	all := append([]string{stays.ID}, ids...)
	var over atomic.Bool
	together(1+actors+lookers, func(i int) {
		seen := look{r, map[string]store.OwnerGen{}}
		switch {
		case i == 0:
			defer over.Store(true)
			for n := 0; n < moves && !w.t.Failed(); n++ {
				r.moveSpot(seen, n%4 == 3)
			}
		case i <= actors:
			for n := 0; !over.Load() && !w.t.Failed(); n++ {
				r.enterOrLeave(seen, ids[i-1], n%2 == 0)
			}
		default:
			for !over.Load() && !w.t.Failed() {
				for _, id := range all {
					seen.read(id)
				}
			}
		}
	})
	if a := w.must(stays.ID); a.OwnerGen != stays.OwnerGen+store.OwnerGen(r.committed) || a.Version != stays.Version {
		w.t.Errorf("%d moves made %+v into %+v", r.committed, stays, a)
	}
}

// roundTrip is the way of a Spot around its processes.
type roundTrip struct {
	*world
	processes []process
	entered   atomic.Int32 // how often an Actor did
	committed int          // moves of the Spot

	mu     sync.Mutex
	owners map[string]string // of an id under an owner generation, as ever seen
}

// of returns the process that owns the row.
func (r *roundTrip) of(a store.Authority) process {
	for _, p := range r.processes {
		if p.OwnerID == a.OwnerID {
			return p
		}
	}
	r.t.Errorf("%s is owned by %q", a.ID, a.OwnerID)
	return r.processes[0]
}

// next is the process after the one that owns the row.
func (r *roundTrip) next(a store.Authority) process {
	for i, p := range r.processes {
		if p.OwnerID == a.OwnerID {
			return r.processes[(i+1)%len(r.processes)]
		}
	}
	return r.processes[0]
}

// look is what one observer saw of owner generations.
type look struct {
	*roundTrip
	latest map[string]store.OwnerGen
}

func (l look) at(a store.Authority) store.Authority {
	if a.OwnerGen < l.latest[a.ID] {
		l.t.Errorf("%s has owner generation %d, and had %d before", a.ID, a.OwnerGen, l.latest[a.ID])
	}
	l.latest[a.ID] = a.OwnerGen
	l.mu.Lock()
	defer l.mu.Unlock()
	under := fmt.Sprint(a.ID, " under owner generation ", a.OwnerGen)
	if before, there := l.owners[under]; there && before != a.OwnerID {
		l.t.Errorf("%s is owned by %s and by %s", under, before, a.OwnerID)
	}
	l.owners[under] = a.OwnerID
	return a
}

func (l look) read(id string) store.Authority {
	a, found, err := l.s.Read(l.ctx(), id)
	if err != nil || !found {
		l.t.Errorf("Read(%s): found %v, %v", id, found, err)
		return a
	}
	return l.at(a)
}

// applied reports whether a change was made, and shows its row.
func (l look) applied(c store.Change, err error) (store.Authority, bool) {
	if err != nil || !c.Found {
		l.t.Errorf("found %v, %v, %v", c.Found, c.Reason, err)
		return c.Record, false
	}
	return l.at(c.Record), c.Reason == store.Applied
}

// moveSpot waits until somebody has entered the Spot, and moves it to the next process
// or gives the move up when all is ready.
func (r *roundTrip) moveSpot(l look, givenUp bool) {
	ctx, before := r.ctx(), r.entered.Load()
	for ctx.Err() == nil && !r.t.Failed() {
		a := l.read("wide")
		if r.entered.Load() == before {
			continue
		}
		from, to := r.of(a), r.next(a)
		moving, ok := l.applied(r.s.ReserveMove(ctx, moveOf(a, to, "", false)))
		if !ok {
			continue // members are on their way
		}
		participants := []store.Participant{participantOf(moving)}
		ids, err := r.s.Members(ctx, a.ID, "", store.PageMax)
		if err != nil {
			r.t.Error(err)
		}
		for _, id := range ids {
			participants = append(participants, participantOf(l.read(id)))
		}
		chunks, inv, err := store.BuildInventory(participants)
		if err != nil {
			r.t.Error(err)
			return
		}
		for _, c := range chunks {
			if reason, err := r.s.PutInventory(ctx, store.MoveOf(&moving), c); err != nil || reason != store.Applied {
				r.t.Errorf("PutInventory = %v, %v", reason, err)
			}
		}
		prepared, ok := l.applied(r.s.PrepareAggregate(ctx, prepareOf(moving, from, inv)))
		if !ok {
			r.t.Errorf("the members changed while the Spot moved: %+v", prepared)
			return
		}
		if givenUp {
			_, ok = l.applied(r.s.EndMove(ctx, endOf(prepared, store.Target, to)))
		} else {
			_, ok = l.applied(r.s.CommitMove(ctx, commitOf(prepared, to)))
			r.committed++
		}
		if !ok {
			r.t.Error("the move did not end as its target wanted")
		}
		return
	}
	r.t.Errorf("the Spot did not move: %v", ctx.Err())
}

// enterOrLeave is an Actor's way into the Spot and out of it, at its own process or, if
// it is not there or away is set, from one to another. It may be refused: the Spot moves.
func (r *roundTrip) enterOrLeave(l look, id string, away bool) {
	a, spot := l.read(id), l.read("wide")
	target, place, enters := r.of(spot), spot.ID, !a.InUserSpot
	if !enters {
		if target = r.of(a); away {
			target = r.next(a)
		}
		place = target.desc.EntrySpotID
	}
	var after store.Authority
	var ok bool
	if a.OwnerID == target.OwnerID {
		after, ok = l.applied(r.s.ChangeSpot(r.ctx(), changeOf(a, place, enters)))
		if ok && after.OwnerGen != a.OwnerGen {
			r.t.Errorf("a change of Spots made %+v into %+v", a, after)
		}
	} else {
		moving, reserved := l.applied(r.s.ReserveMove(r.ctx(), moveOf(a, target, place, enters)))
		if !reserved {
			return
		}
		after, ok = l.applied(r.s.CommitMove(r.ctx(), commitOf(moving, target)))
		if !ok || after.OwnerGen != a.OwnerGen+1 {
			r.t.Errorf("a move that was reserved made %+v into %+v", a, after)
		}
	}
	if ok && enters {
		r.entered.Add(1)
	}
}
