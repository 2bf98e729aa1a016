package redislua

import (
	"context"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/store"
)

// chunks are all parts of inventories.
var chunks = [][]byte{[]byte("chunk 0"), []byte("chunk 1")}

// pass is the one pass that Cordons know.
var pass = store.PassDigest("tester")

// operations are drawn by weight.
var operations = weighted(map[string]int{
	"lease": 4, "expire": 1, "release": 1, "publish": 5, "unpublish": 1, "create": 9, "reserve": 4, "finish": 4, "cancel": 2,
	"first": 3, "delete": 3, "free": 3, "change": 9, "move": 14, "commit": 9, "end": 6, "put": 3, "prepare": 8, "complete": 1,
	"reassert": 7, "raise": 1, "mark": 1, "failover": 1, "compare": 3, "relocate": 6, "repeat": 4, "recover": 1,
})

func weighted(weights map[string]int) (all []string) {
	for _, name := range []string{
		"create", "change", "move", "relocate", "commit", "prepare", "end", "reassert", "reserve", "finish", "delete", "free", "first",
		"put", "complete", "cancel", "publish", "lease", "expire", "release", "unpublish", "raise", "mark", "failover", "compare",
		"repeat", "recover",
	} {
		for range weights[name] {
			all = append(all, name)
		}
	}
	return all
}

// even draws all numbers of twelve bits alike; rapid's own ranges prefer small ones.
var even = rapid.Custom(func(t *rapid.T) (n int) {
	for range 12 {
		n *= 2
		if rapid.Bool().Draw(t, "bit") {
			n++
		}
	}
	return n
})

func (d *duel) draw(what string, n int) int { return even.Draw(d.rt, what) % n }

// oneIn is true once in n times.
func (d *duel) oneIn(n int, what string) bool { return d.draw(what, n) == n-1 }

func (d *duel) id(what string) string { return ids[d.draw(what, len(ids))] }

func (d *duel) step() {
	switch op := operations[d.draw("operation", len(operations))]; op {
	case "lease":
		d.acquire(rids[d.draw("rid", len(rids))], d.oneIn(4, "same owner"))
	case "expire":
		d.expire(d.process("process"))
	case "release", "unpublish":
		d.leave(op, d.process("process"))
	case "publish":
		d.publish(d.process("process"), d.draw("variant", 9))
	case "create", "reserve":
		d.create(op == "create")
	case "finish":
		d.finish()
	case "cancel":
		d.cancel()
	case "first":
		d.advance()
	case "delete":
		d.delete()
	case "free":
		d.free()
	case "change":
		d.changeSpotOf(d.row("row"))
	case "move":
		d.reserveMoveOf(d.row("row"))
	case "relocate":
		d.relocate()
	case "commit":
		d.commit(d.row("row"))
	case "end":
		d.end()
	case "put", "prepare":
		d.inventory(d.row("row"), op == "put")
	case "complete":
		d.complete()
	case "reassert":
		d.reassert()
	case "raise":
		d.newEpoch("raise", func(ctx context.Context, s *side) error { _, err := s.store.RaiseEpoch(ctx); return err })
	case "mark":
		d.mark()
	case "failover":
		d.failover()
	case "compare":
		d.compareAll()
	case "repeat":
		d.repeat()
	case "recover":
		d.recover()
	}
}

// setUp starts two nodes that take everything and one that is full soon, and mostly some
// objects on one of them.
func (d *duel) setUp() {
	for i, rid := range rids {
		d.acquire(rid, false)
		variant := 0
		if rid == "c" {
			variant = 1
		}
		d.publish(chosen{index: i}, variant)
	}
	if d.oneIn(8, "begin with nothing") {
		return
	}
	home := chosen{rid: rids[d.draw("home", 2)]}
	for _, id := range ids[:3+d.draw("more objects", 4)] {
		d.createAt(id, kindOf(id), id == "s1", home, true)
	}
	for _, id := range []string{"p1", "p2", "p3"} {
		if !d.oneIn(4, "stays outside") {
			d.changeSpotOf(pick{id: id})
		}
	}
	d.mark()
}

// chosen is a process: the one of that index, or the latest of an RID.
type chosen struct {
	rid   string
	index int
}

// process draws one, mostly the latest of its RID.
func (d *duel) process(what string) chosen {
	if d.oneIn(8, what+" of old") {
		return chosen{index: d.draw(what, len(d.sides[0].leases))}
	}
	return chosen{rid: rids[d.draw(what, len(rids))]}
}

func (s *side) lease(c chosen) store.Lease {
	for i := len(s.leases) - 1; i >= 0; i-- {
		if c.rid == "" && i == c.index || s.leases[i].RID == c.rid {
			return s.leases[i]
		}
	}
	return store.Lease{}
}

// pick is a row: as it is now, or as it was answered once.
type pick struct {
	id     string // of the row as it is now
	old    int
	latest string // id of the row as it was known last, also if it was lost since
}

// nobody owns the rows that are not there, at generations that no Store issues.
const (
	nobody = "nobody"
	never  = 1 << 62
)

func (d *duel) row(what string) pick {
	if n := len(d.sides[0].seen); n > 0 && d.oneIn(6, what+" of old") {
		return pick{old: d.draw(what, n)}
	}
	return pick{id: d.id(what)}
}

// get returns the row; one that is not there is a guess that never fits.
func (s *side) get(ctx context.Context, p pick) (store.Authority, error) {
	if p.latest != "" {
		p.id = p.latest
		for i := range s.seen {
			if a := &s.seen[i]; a.ID == p.latest && (p.id != "" || a.Version > s.seen[p.old].Version) {
				p = pick{old: i, latest: p.latest}
			}
		}
	}
	if p.id == "" {
		return s.seen[p.old], nil
	}
	a, found, err := s.store.Read(ctx, p.id)
	if err == nil && !found {
		a = store.Authority{ID: p.id, Kind: kindOf(p.id), Type: types[kindOf(p.id)], ObjectGen: never, Version: never, OwnerGen: 1, OwnerID: nobody, LeaseGen: never}
		if a.Kind == store.Actor {
			a.SpotID = "a-entry"
		}
	}
	return a, err
}

// op is a new operation id, or one that was used.
func (d *duel) op() store.OpID {
	if n := d.ops; n > 0 && d.oneIn(12, "operation again") {
		n = 1 + d.draw("which", n)
		return store.OpID{byte(n), 1}
	}
	d.ops++
	return store.OpID{byte(d.ops), 1}
}

func (s *side) key(op store.OpID) store.OperationKey {
	return store.OperationKey{SourceRID: s.leases[0].RID, SourceLifecycle: s.leases[0].Gen, Op: op}
}

func (d *duel) acquire(rid string, again bool) {
	answer := d.play("AcquireLease "+rid, func(ctx context.Context, s *side) (string, error) {
		owner := fmt.Sprintf("%s-%d", rid, len(s.leases))
		if again {
			owner = s.lease(chosen{rid: rid}).OwnerID
		}
		r, err := s.store.AcquireLease(ctx, rid, owner, time.Hour)
		if err == nil && r.Reason == store.Applied {
			s.leases = append(s.leases, r.Lease)
		}
		s.noteEpoch(r.Epoch)
		return s.names.Lease(r), err
	})
	d.count("AcquireLease", answer)
}

func (s *side) noteEpoch(e store.Epoch) {
	if n := len(s.epochs); n == 0 || s.epochs[n-1] != e {
		s.epochs = append(s.epochs, e)
	}
}

// epoch is the present one, or the first.
func (s *side) epoch(first bool) store.Epoch {
	if first {
		return s.epochs[0]
	}
	return s.epochs[len(s.epochs)-1]
}

// expire ends the process's lease, or renews it.
func (d *duel) expire(c chosen) {
	ttl := time.Millisecond
	if d.oneIn(3, "renew") {
		ttl = time.Hour
	}
	early := d.oneIn(3, "old epoch")
	answer := d.play(fmt.Sprintf("RenewLease %+v for %v", c, ttl), func(ctx context.Context, s *side) (string, error) {
		r, err := s.store.RenewLease(ctx, s.lease(c), s.epoch(early), ttl)
		if ttl == time.Millisecond {
			s.elapse()
		}
		return s.names.Lease(r), err
	})
	d.count("RenewLease", answer)
}

func (d *duel) leave(how string, c chosen) {
	answer := d.play(fmt.Sprintf("%s %+v", how, c), func(ctx context.Context, s *side) (string, error) {
		do := s.store.ReleaseLease
		if how == "unpublish" {
			do = s.store.RemoveNode
		}
		reason, err := do(ctx, s.lease(c))
		return reason.String(), err
	})
	d.count(how, answer)
}

// publish writes a descriptor. Variant 0 takes everything, the others do not.
func (d *duel) publish(c chosen, variant int) {
	answer := d.play(fmt.Sprintf("PublishNode %+v, variant %d", c, variant), func(ctx context.Context, s *side) (string, error) {
		l := s.lease(c)
		n := store.Descriptor{
			RID: l.RID, Lifecycle: l.Gen, Mesh: "mesh-" + l.RID, Role: store.RoleServer, State: store.Serving, Weight: 100, Revision: 2,
			ActorTypes: []string{"player"}, EntrySpotID: l.RID + "-entry",
			SpotTypes: []store.SpotType{{Type: "cell", Kind: store.InstanceSpot}, {Type: "room", Kind: store.UserSpot}},
		}
		switch variant {
		case 1:
			n.MaxActors, n.MaxSpots = 2, 2
		case 2:
			n.SpotTypes[1].Max = 1
		case 3:
			n.State = store.Draining
		case 4:
			n.EntrySpotID = "p3"
		case 5:
			n.Weight = 0
		case 6:
			n.ActorTypes = nil
		case 7:
			n.Revision = 1
		case 8:
			n.Weight, n.Cordoned, n.Passes = 0, true, []string{pass}
		}
		reason, err := s.store.PublishNode(ctx, l, n)
		return reason.String(), err
	})
	d.count("PublishNode", answer)
}

// create reserves an object, and if whole makes it Ready at once.
func (d *duel) create(whole bool) {
	id := d.id("id")
	kind := kindOf(id)
	if d.oneIn(12, "other kind") {
		kind = []store.Kind{store.Actor, store.UserSpot, store.InstanceSpot}[d.draw("kind", 3)]
	}
	wide := kind == store.UserSpot && d.oneIn(2, "wide")
	d.createAt(id, kind, wide, d.process("target"), whole)
}

func (d *duel) createAt(id string, kind store.Kind, wide bool, target chosen, whole bool) {
	first := kind == store.InstanceSpot && d.oneIn(2, "with a first message")
	named := ""
	if d.oneIn(3, "with a pass") {
		named = pass
	}
	op := d.op()
	answer := d.play("Reserve "+id, func(ctx context.Context, s *side) (string, error) {
		l := s.lease(target)
		r := store.Reserve{
			ID: id, Kind: kind, Type: types[kind], Wide: wide, Op: s.key(op), TargetRID: l.RID, TargetLifecycle: l.Gen,
			Request: []byte("request " + id), Timeout: time.Hour, Pass: named,
		}
		if first {
			r.First = []byte("first")
		}
		return s.change(ctx, func(ctx context.Context) (store.Change, error) { return s.store.Reserve(ctx, r) })
	})
	d.count("Reserve", answer)
	if whole {
		d.play("Finish "+id, func(ctx context.Context, s *side) (string, error) {
			a, err := s.get(ctx, pick{id: id})
			if err != nil {
				return "", err
			}
			f := store.Finish{Fence: store.FenceOf(&a), Op: s.key(op), Result: store.Created}
			return s.change(ctx, func(ctx context.Context) (store.Change, error) { return s.store.Finish(ctx, f) })
		})
	}
}

func (d *duel) finish() {
	p, op, result := d.row("row"), d.op(), store.Result(1+d.draw("result", 3))
	answer := d.play(fmt.Sprintf("Finish %+v %v", p, result), func(ctx context.Context, s *side) (string, error) {
		a, err := s.get(ctx, p)
		if err != nil {
			return "", err
		}
		f := store.Finish{Fence: store.FenceOf(&a), Op: s.key(op), Result: result, Reply: []byte("reply"), FailKind: 3}
		if a.Create != nil {
			f.Op = a.Create.Op
		}
		answer, err := s.change(ctx, func(ctx context.Context) (store.Change, error) { return s.store.Finish(ctx, f) })
		if err != nil {
			return "", err
		}
		t, found, err := s.store.ReadTerminal(ctx, f.Op)
		return fmt.Sprintf("%s; terminal %v %v of %s %q %d", answer, found, t.Result, t.ID, t.Reply, t.FailKind), err
	})
	d.count("Finish", answer)
}

// changeOf plays a change of a row.
func (d *duel) changeOf(op string, p pick, do func(ctx context.Context, s *side, a *store.Authority) (store.Change, error)) {
	answer := d.play(fmt.Sprintf("%s %+v", op, p), func(ctx context.Context, s *side) (string, error) {
		a, err := s.get(ctx, p)
		if err != nil {
			return "", err
		}
		return s.change(ctx, func(ctx context.Context) (store.Change, error) { return do(ctx, s, &a) })
	})
	d.count(op, answer)
}

// repeat sends the last change again, as one does whose answer was lost.
func (d *duel) repeat() {
	if d.sides[0].last == nil {
		return
	}
	answer := d.play("again", func(ctx context.Context, s *side) (string, error) { return s.change(ctx, s.last) })
	d.count("again", answer)
}

// kill ends the lease of the row's owner.
func (d *duel) kill(p pick) {
	d.play(fmt.Sprintf("death of the owner of %+v", p), func(ctx context.Context, s *side) (string, error) {
		a, err := s.get(ctx, p)
		if err != nil || a.RID == "" {
			return "", err
		}
		r, err := s.store.RenewLease(ctx, store.Lease{RID: a.RID, OwnerID: a.OwnerID, Gen: a.LeaseGen}, s.epoch(false), time.Millisecond)
		s.elapse()
		return s.names.Lease(r), err
	})
}

func (d *duel) cancel() {
	p := d.row("row")
	if d.oneIn(2, "dead") {
		d.kill(p)
	}
	d.changeOf("CancelCreation", p, func(ctx context.Context, s *side, a *store.Authority) (store.Change, error) {
		return s.store.CancelCreation(ctx, a.ID, a.ObjectGen, a.Version)
	})
}

func (d *duel) advance() {
	op, cursor, done := d.op(), uint64(d.draw("cursor", 3)), d.oneIn(2, "done")
	d.changeOf("AdvanceFirst", d.row("row"), func(ctx context.Context, s *side, a *store.Authority) (store.Change, error) {
		return s.store.AdvanceFirst(ctx, store.FenceOf(a), op, cursor, done)
	})
}

func (d *duel) delete() {
	op := d.op()
	d.changeOf("Delete", d.row("row"), func(ctx context.Context, s *side, a *store.Authority) (store.Change, error) {
		return s.store.Delete(ctx, store.FenceOf(a), op)
	})
}

func (d *duel) free() {
	op, asks, p := d.op(), d.oneIn(2, "the owner asks"), d.row("row")
	if d.oneIn(4, "dead") {
		d.kill(p)
	}
	d.changeOf("Free", p, func(ctx context.Context, s *side, a *store.Authority) (store.Change, error) {
		f := store.FreeOf(a, op)
		if asks && a.RID != "" {
			f.By = store.Lease{RID: a.RID, OwnerID: a.OwnerID, Gen: a.LeaseGen}
		}
		return s.store.Free(ctx, f)
	})
}
