package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/cmap"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// route is a snapshot of a Ready authority row. It says where to send and never
// who owns (ID-05): the owner checks for itself.
type route struct {
	ref     ActorRef
	typ     string
	kind    store.Kind
	version store.Version
	mesh    *mesh      // of the object; nil: this node uses no objects of it
	asked   clock.Mono // when the Store was asked
	until   clock.Mono // the snapshot's age limit and the owner's lease, whichever ends first
}

// link returns the link that the route names, or nil.
func (r *route) link() *linkConn {
	if r.mesh == nil {
		return nil
	}
	return r.mesh.links.to(r.ref.RID, r.ref.Lifecycle)
}

// noLink says why there is none.
func (r *route) noLink(op string) *Error {
	if r.mesh == nil {
		return errNoMesh(op, r.ref.ID, r.ref.Mesh)
	}
	return errNoLink(op, r.ref.ID, r.ref.RID)
}

// routes caches snapshots of Ready rows. Missing, Creating and Store failures
// are never kept (CR-14).
type routes struct {
	node    *Node
	known   *cmap.Map[*route]
	cleared atomic.Int64       // when all was forgotten
	reads   singleflight.Group // one read per id at a time, whoever asks
}

func newRoutes(n *Node) *routes { return &routes{node: n, known: cmap.New[*route]()} }

// cached returns the route of id if there is a fresh one.
func (r *routes) cached(id string, now clock.Mono) *route {
	if known, ok := r.known.Load(id); ok && !now.Reached(known.until) {
		return known
	}
	return nil
}

// read asks the Store. The error is NotFound for an object that is not Ready and Unavailable
// for one whose owner is dead (FO-10), whose route comes with it. Callers that ask at once
// share one read, each with its own deadline.
func (r *routes) read(ctx context.Context, op, id string) (*route, *Error) {
	if r.node.store == nil {
		return nil, errNoStore(op, id)
	}
	for {
		got, err := r.share(ctx, op, id)
		switch {
		case err != nil:
			return nil, err
		case errors.Is(got.Err, store.ErrUnknown) && pause(ctx, createWaitMin):
			continue // a read that was lost is read again
		case got.Err != nil:
			return nil, fromStore(got.Err, op, id)
		}
		seen := got.Val.(snapshot)
		switch {
		case seen.row == nil || seen.row.State != store.Ready:
			return nil, fail(errkind.NotFound, op, id, "there is no object with that id")
		case seen.row.LeaseLeft <= 0:
			return r.newRoute(seen.row, seen.asked), errOwnerDead(op, id, seen.row.RID)
		}
		return r.newRoute(seen.row, seen.asked), nil
	}
}

// share makes one read of the row, or takes part in one that is under way.
func (r *routes) share(ctx context.Context, op, id string) (singleflight.Result, *Error) {
	answer := r.reads.DoChan(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(r.node.life, storeCallMax)
		defer cancel()
		asked := clock.Now()
		row, found, err := r.node.store.Read(ctx, id)
		if err != nil || !found {
			return snapshot{}, err
		}
		r.learn(&row, asked)
		return snapshot{&row, asked}, nil
	})
	select {
	case <-ctx.Done():
		return singleflight.Result{}, fromContext(ctx, op, id)
	case got := <-answer:
		return got, nil
	}
}

// snapshot is a row as it was at some time after asked; nil if Missing.
type snapshot struct {
	row   *store.Authority
	asked clock.Mono
}

// newRoute makes the route of a Ready row. It is used no longer than the owner may
// act, which ends a margin before its lease does.
func (r *routes) newRoute(row *store.Authority, asked clock.Mono) *route {
	return &route{
		ref: refOf(row), typ: row.Type, kind: row.Kind, version: row.Version, mesh: r.node.objectMesh(row.Mesh), asked: asked,
		until: asked.Add(min(r.node.cfg.RouteCacheMaxAge, row.LeaseLeft-r.node.cfg.Lease.Margin)),
	}
}

// learn keeps the snapshot of a row that was asked for at the given time. A
// snapshot older than the one that is kept is ignored.
func (r *routes) learn(row *store.Authority, asked clock.Mono) {
	if row.State != store.Ready || row.LeaseLeft <= 0 {
		r.known.Delete(row.ID)
		return
	}
	if r.node.cfg.RouteCacheMaxAge <= 0 || asked <= clock.Mono(r.cleared.Load()) {
		return
	}
	fresh, full := r.newRoute(row, asked), r.known.Len() >= routesMax
	r.known.Update(row.ID, func(old *route, present bool) (*route, bool) {
		switch {
		case present && old.ref.ObjectGen > fresh.ref.ObjectGen,
			present && old.ref.ObjectGen == fresh.ref.ObjectGen && old.version > fresh.version:
			return old, true
		case !present && full:
			return nil, false
		}
		return fresh, true
	})
}

// forget drops the route if it is still the one that turned out to be wrong.
func (r *routes) forget(id string, wrong *route) {
	r.known.Update(id, func(now *route, present bool) (*route, bool) {
		return now, present && now.ref != wrong.ref
	})
}

// drop forgets whatever is known of id, because this node has just changed it.
// A read that is under way tells later callers nothing.
func (r *routes) drop(id string) {
	r.reads.Forget(id)
	r.known.Delete(id)
}

// clear forgets all: the Store may have lost what they were taken from, or this process
// its place among those that learn of changes.
func (r *routes) clear() {
	r.cleared.Store(int64(clock.Now()))
	r.known.Range(func(id string, _ *route) bool {
		r.known.Delete(id)
		return true
	})
}

// moved drops a route from which the object has moved on, as the node at its end says.
func (r *routes) moved(f *wire.FollowNotice, from *linkConn) {
	if known, ok := r.known.LoadBytes(f.Ref.ID); ok && known.ref.ObjectGen == f.Ref.ObjGen && known.ref.OwnerGen < f.Ref.OwnerGen && known.endsAt(from) {
		r.forget(known.ref.ID, known)
	}
}

// stale drops a route that the node at its end says is wrong.
func (r *routes) stale(w *wire.RouteStale, from *linkConn) {
	if known, ok := r.known.LoadBytes(w.ID); ok && known.ref.OwnerGen == w.OwnerGen && known.endsAt(from) {
		r.forget(known.ref.ID, known)
	}
}

// endsAt reports whether the route leads to the node at the other end of that link, by its mesh.
func (r *route) endsAt(l *linkConn) bool { return r.ref.RID == l.peer.RID && r.mesh == l.mesh }

// sweep drops what is too old, so that ids nobody asks for any more cost nothing.
func (r *routes) sweep(now clock.Mono) {
	r.known.Range(func(id string, known *route) bool {
		if now.Reached(known.until.Add(time.Second)) {
			r.forget(id, known)
		}
		return true
	})
}
