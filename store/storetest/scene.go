package storetest

import (
	"crypto/sha256"
	"reflect"
	"slices"
	"time"

	"github.com/zlnode/zlnode/store"
)

// What cases do with Spots, memberships and moves. As in world.go, helpers fail the
// test for errors and for every reason but the expected one.

// longValidity outlives every case; moves that shall be past it are reserved for
// shortValidity.
const (
	longValidity  = time.Minute
	shortValidity = time.Millisecond
)

// spotRequest is a reservation of a Spot of that kind at p under a new operation of p.
func spotRequest(kind store.Kind, id string, p process) store.Reserve {
	r := request(id, p)
	r.Kind, r.Type = kind, map[store.Kind]string{store.UserSpot: "room", store.InstanceSpot: "quest"}[kind]
	return r
}

// make makes a Ready row of the request.
func (w *world) make(r store.Reserve) store.Authority {
	w.t.Helper()
	return w.finish(w.reserve(r, store.Applied), r.Op, store.Created, store.Applied).Record
}

// room makes a User Spot.
func (w *world) room(id string, p process, wide bool) store.Authority {
	w.t.Helper()
	r := spotRequest(store.UserSpot, id, p)
	r.Wide = wide
	return w.make(r)
}

// actor makes an Actor in the Entry Spot of p.
func (w *world) actor(id string, p process) store.Authority {
	w.t.Helper()
	a, _ := w.create(id, p)
	return a
}

// member makes an Actor in the User Spot, at that one's owner p.
func (w *world) member(id string, p process, spot string) store.Authority {
	w.t.Helper()
	return w.change(changeOf(w.actor(id, p), spot, true), store.Applied)
}

// must reads a row that has to be there.
func (w *world) must(id string) store.Authority {
	w.t.Helper()
	a, found := w.read(id)
	if !found {
		w.t.Fatalf("%q is missing", id)
	}
	return a
}

func (w *world) outcome(what, id string, c store.Change, err error, want store.Reason) store.Change {
	w.t.Helper()
	if err != nil || c.Reason != want {
		w.t.Fatalf("%s(%q) = %+v, %v; want %v", what, id, c, err, want)
	}
	return c
}

func changeOf(a store.Authority, spot string, user bool) store.ChangeSpot {
	return store.ChangeSpot{Fence: fence(a), Op: newOp(), SpotID: spot, InUserSpot: user}
}

func (w *world) change(c store.ChangeSpot, want store.Reason) store.Authority {
	w.t.Helper()
	got, err := w.s.ChangeSpot(w.ctx(), c)
	return w.outcome("ChangeSpot", c.ID, got, err, want).Record
}

// moveOf is a first attempt to move a row to p. spot is an Actor's membership there.
func moveOf(a store.Authority, p process, spot string, user bool) store.ReserveMove {
	return store.ReserveMove{
		Fence: fence(a), Op: newOp(), Epoch: a.Epoch, Relocation: store.RelocationID(newOp()), Attempt: 1, Validity: longValidity,
		TargetRID: p.RID, TargetLifecycle: p.Gen, SpotID: spot, InUserSpot: user,
	}
}

func (w *world) reserveMove(r store.ReserveMove, want store.Reason) store.Authority {
	w.t.Helper()
	c, err := w.s.ReserveMove(w.ctx(), r)
	return w.outcome("ReserveMove", r.ID, c, err, want).Record
}

// commitOf is the commit of the row's move by its target p.
func commitOf(a store.Authority, p process) store.CommitMove {
	return store.CommitOf(&a, p.Lease, newOp())
}

func (w *world) commit(c store.CommitMove, want store.Reason) store.Authority {
	w.t.Helper()
	got, err := w.s.CommitMove(w.ctx(), c)
	return w.outcome("CommitMove", c.ID, got, err, want).Record
}

// moveTo moves a row that is no SpotWide Spot to p.
func (w *world) moveTo(a store.Authority, p process, spot string, user bool) store.Authority {
	w.t.Helper()
	return w.commit(commitOf(w.reserveMove(moveOf(a, p, spot, user), store.Applied), p), store.Applied)
}

func endOf(a store.Authority, by store.MoveParty, asker process) store.EndMove {
	return store.EndOf(&a, by, asker.Lease, newOp())
}

func (w *world) end(e store.EndMove, want store.Reason) store.Authority {
	w.t.Helper()
	c, err := w.s.EndMove(w.ctx(), e)
	return w.outcome("EndMove", e.ID, c, err, want).Record
}

func prepareOf(a store.Authority, p process, inv store.Inventory) store.PrepareAggregate {
	return store.PrepareAggregate{MoveRef: store.MoveOf(&a), Op: newOp(), Asker: p.Lease, Inventory: inv}
}

func (w *world) prepare(p store.PrepareAggregate, want store.Reason) store.Authority {
	w.t.Helper()
	c, err := w.s.PrepareAggregate(w.ctx(), p)
	return w.outcome("PrepareAggregate", p.ID, c, err, want).Record
}

func (w *world) putChunk(m store.MoveRef, chunk []byte, want store.Reason) store.Digest {
	w.t.Helper()
	if reason, err := w.s.PutInventory(w.ctx(), m, chunk); err != nil || reason != want {
		w.t.Fatalf("PutInventory(%q) = %v, %v; want %v", m.ID, reason, err, want)
	}
	return sha256.Sum256(chunk)
}

// prepared reserves the move of a SpotWide Spot with so many members and fixes a root.
func (w *world) prepared(a store.Authority, from, to process, members int) store.Authority {
	w.t.Helper()
	moving := w.reserveMove(moveOf(a, to, "", false), store.Applied)
	root := w.putChunk(store.MoveOf(&moving), []byte("inventory of "+a.ID), store.Applied)
	return w.prepare(prepareOf(moving, from, store.Inventory{Root: root, Count: members + 1}), store.Applied)
}

// moveWide moves a SpotWide Spot with so many members.
func (w *world) moveWide(a store.Authority, from, to process, members int) store.Authority {
	w.t.Helper()
	return w.commit(commitOf(w.prepared(a, from, to, members), to), store.Applied)
}

func (w *world) free(f store.Free, want store.Reason) store.Change {
	w.t.Helper()
	c, err := w.s.Free(w.ctx(), f)
	return w.outcome("Free", f.ID, c, err, want)
}

func (w *world) raise() store.Epoch {
	w.t.Helper()
	e, err := w.s.RaiseEpoch(w.ctx())
	if err != nil {
		w.t.Fatalf("RaiseEpoch: %v", err)
	}
	return e
}

// assertionOf is a row as its owner knows it, in that epoch.
func assertionOf(a store.Authority, p process, e store.Epoch) store.Reassert {
	return store.Reassert{
		Op: newOp(), Epoch: e, Owner: p.Lease, ID: a.ID, Kind: a.Kind, Type: a.Type, Wide: a.Wide, ObjectGen: a.ObjectGen,
		OwnerGen: a.OwnerGen, Version: a.Version, Mesh: a.Mesh, SpotID: a.SpotID, InUserSpot: a.InUserSpot, Shares: a.SpotVersion != 0,
	}
}

func (w *world) reassert(r store.Reassert, want store.Reason) store.Authority {
	w.t.Helper()
	c, err := w.s.Reassert(w.ctx(), r)
	return w.outcome("Reassert", r.ID, c, err, want).Record
}

// freed is how many rows of the process were freed by hand.
func (w *world) freed(p process) uint64 {
	w.t.Helper()
	return w.renewKnowing(w.epoch(), p.Lease, longTTL, store.Applied).Freed
}

// wantSlots fails unless the node has so many Actor and Spot slots in use.
func (w *world) wantSlots(p process, actors, spots int) {
	w.t.Helper()
	if d, found := w.node(p.RID); !found || d.Actors != actors || d.Spots != spots {
		w.t.Fatalf("node %s (listed: %v) has %d Actor and %d Spot slots in use; want %d and %d", p.RID, found, d.Actors, d.Spots, actors, spots)
	}
}

func (w *world) wantMembers(spot string, want ...string) {
	w.t.Helper()
	got, err := w.s.Members(w.ctx(), spot, "", store.PageMax)
	if err != nil || !slices.Equal(got, want) {
		w.t.Fatalf("members of %q are %q, %v; want %q", spot, got, err, want)
	}
}

func (w *world) wantHeld(p process, h store.Holding, want ...string) {
	w.t.Helper()
	got, err := w.s.Held(w.ctx(), p.RID, p.Gen, h, "", store.PageMax)
	if err != nil || !slices.Equal(got, want) {
		w.t.Fatalf("%s holds %q, %v; want %q", p.RID, got, err, want)
	}
}

// state is all that a change could change.
type state struct {
	rows  map[string]store.Authority
	slots map[string][2]int
}

func (w *world) state() state {
	w.t.Helper()
	s := state{map[string]store.Authority{}, map[string][2]int{}}
	page, err := w.s.List(w.ctx(), store.Filter{}, "", store.PageMax)
	if err != nil || page.Next != "" {
		w.t.Fatalf("List = %d rows, next %q, %v; want all", len(page.Objects), page.Next, err)
	}
	for _, a := range page.Objects {
		a.LeaseLeft = 0 // falls by itself
		s.rows[a.ID] = a
	}
	for _, d := range w.list(0).Nodes {
		s.slots[d.RID] = [2]int{d.Actors, d.Spots}
	}
	return s
}

// attempt is a change that the Store must not make.
type attempt struct {
	why  string
	want store.Reason
	try  func() (store.Change, error)
}

// refuses makes the attempts, and fails unless each has its reason, answers with the
// row as it is, and leaves everything as it was.
func (w *world) refuses(attempts ...attempt) {
	w.t.Helper()
	before := w.state()
	for _, a := range attempts {
		c, err := a.try()
		if err != nil || c.Reason != a.want {
			w.t.Errorf("%s: %+v, %v; want %v", a.why, c, err, a.want)
		}
		c.Record.LeaseLeft = 0
		if is, found := before.rows[c.Record.ID]; found != c.Found || found && !reflect.DeepEqual(is, c.Record) {
			w.t.Errorf("%s: the answer shows %+v (found: %v); the row is %+v (found: %v)", a.why, c.Record, c.Found, is, found)
		}
		if after := w.state(); !reflect.DeepEqual(before, after) {
			w.t.Fatalf("%s: refused, and yet\n%+v\nbecame\n%+v", a.why, before, after)
		}
	}
	w.consistent()
}

// consistent fails unless what stands beside the rows follows from them.
func (w *world) consistent() {
	w.t.Helper()
	if lines, err := w.s.Audit(w.ctx()); err != nil || len(lines) > 0 {
		w.t.Fatalf("audit: %q, %v", lines, err)
	}
}

func (w *world) tryChange(c store.ChangeSpot) func() (store.Change, error) {
	return func() (store.Change, error) { return w.s.ChangeSpot(w.ctx(), c) }
}

func (w *world) tryMove(r store.ReserveMove) func() (store.Change, error) {
	return func() (store.Change, error) { return w.s.ReserveMove(w.ctx(), r) }
}

func (w *world) tryCommit(c store.CommitMove) func() (store.Change, error) {
	return func() (store.Change, error) { return w.s.CommitMove(w.ctx(), c) }
}

func (w *world) tryEnd(e store.EndMove) func() (store.Change, error) {
	return func() (store.Change, error) { return w.s.EndMove(w.ctx(), e) }
}

func (w *world) tryPrepare(p store.PrepareAggregate) func() (store.Change, error) {
	return func() (store.Change, error) { return w.s.PrepareAggregate(w.ctx(), p) }
}

func (w *world) tryDelete(a store.Authority) func() (store.Change, error) {
	return func() (store.Change, error) { return w.s.Delete(w.ctx(), fence(a), newOp()) }
}

func (w *world) tryFree(f store.Free) func() (store.Change, error) {
	return func() (store.Change, error) { return w.s.Free(w.ctx(), f) }
}

func (w *world) tryReassert(r store.Reassert) func() (store.Change, error) {
	return func() (store.Change, error) { return w.s.Reassert(w.ctx(), r) }
}

func (w *world) tryReserve(r store.Reserve) func() (store.Change, error) {
	return func() (store.Change, error) { return w.s.Reserve(w.ctx(), r) }
}

// with returns a copy of what was edited.
func with[T any](v T, edit func(*T)) T {
	edit(&v)
	return v
}
