package redislua

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/zlnode/zlnode/store"
)

// place is where an Actor shall go: the Entry Spot of the process, or a User Spot.
type place struct {
	spot string
	user bool
}

func (d *duel) place() place {
	if d.oneIn(3, "to entry") {
		return place{}
	}
	return place{spot: []string{"s1", "s2", "s1", "s2", "p1"}[d.draw("spot", 5)], user: !d.oneIn(12, "not as a User Spot")}
}

// at gives an Entry Spot its name.
func (p place) at(rid string) place {
	if p.spot == "" {
		p.spot = rid + "-entry"
	}
	return p
}

func (d *duel) changeSpotOf(p pick) {
	op, to := d.op(), d.place()
	d.changeOf("ChangeSpot", p, func(ctx context.Context, s *side, a *store.Authority) (store.Change, error) {
		if a.SpotID == "" {
			return store.Change{Reason: store.TypeMismatch}, nil // no argument that the Store takes
		}
		at := to.at(a.RID)
		return s.store.ChangeSpot(ctx, store.ChangeSpot{Fence: store.FenceOf(a), Op: op, SpotID: at.spot, InUserSpot: at.user})
	})
}

func (d *duel) reserveMoveOf(p pick) {
	op, to, target := d.op(), d.place(), d.process("target")
	move, attempt := store.RelocationID{byte(1 + d.draw("move", 3))}, uint32(1+d.draw("attempt", 2))
	late, oldEpoch := d.oneIn(6, "short validity"), d.oneIn(12, "old epoch")
	d.changeOf("ReserveMove", p, func(ctx context.Context, s *side, a *store.Authority) (store.Change, error) {
		l := s.lease(target)
		m := store.ReserveMove{
			Fence: store.FenceOf(a), Op: op, Epoch: s.epoch(oldEpoch), Relocation: move, Attempt: attempt, Validity: time.Hour,
			TargetRID: l.RID, TargetLifecycle: l.Gen,
		}
		if a.SpotID != "" {
			at := to.at(l.RID)
			m.SpotID, m.InUserSpot = at.spot, at.user
		}
		if late {
			m.Validity = time.Millisecond
			defer s.elapse()
		}
		return s.store.ReserveMove(ctx, m)
	})
}

// relocate is a move as it goes when nothing disturbs it.
func (d *duel) relocate() {
	p := pick{id: []string{"s1", "s2", "s1", "p1", "p2", "i1"}[d.draw("row", 6)]}
	d.reserveMoveOf(p)
	d.inventory(p, true)
	d.inventory(p, false)
	d.commit(p)
}

// moveOf names the row's move, or one that never was.
func moveOf(a *store.Authority) store.MoveRef {
	if a.Move == nil {
		b := *a
		b.Move = &store.Move{ID: store.RelocationID{9}, Attempt: 1, SpotID: a.SpotID}
		a = &b
	}
	m := store.MoveOf(a)
	m.Epoch = max(m.Epoch, 1)
	return m
}

func targetOf(a *store.Authority) store.Lease {
	if a.Move == nil {
		return store.Lease{RID: "a", OwnerID: nobody, Gen: never}
	}
	return store.Lease{RID: a.Move.TargetRID, OwnerID: a.Move.TargetOwnerID, Gen: a.Move.TargetLifecycle}
}

func (d *duel) commit(p pick) {
	op, other, otherRoot := d.op(), d.oneIn(12, "other target"), d.oneIn(12, "other root")
	c := d.process("process")
	d.changeOf("CommitMove", p, func(ctx context.Context, s *side, a *store.Authority) (store.Change, error) {
		m := store.CommitMove{MoveRef: moveOf(a), Op: op, SourceOwnerID: a.OwnerID, SourceLease: a.LeaseGen, Target: targetOf(a)}
		if other {
			m.Target = s.lease(c)
		}
		if a.Move != nil && a.Move.Prepared != nil {
			m.Root = a.Move.Prepared.Root
		}
		if otherRoot {
			m.Root = sha256.Sum256(chunks[0])
		}
		return s.store.CommitMove(ctx, m)
	})
}

func (d *duel) end() {
	op, by, c, other := d.op(), store.MoveParty(1+d.draw("party", 3)), d.process("process"), d.oneIn(12, "other asker")
	d.changeOf("EndMove", d.row("row"), func(ctx context.Context, s *side, a *store.Authority) (store.Change, error) {
		e := store.EndMove{MoveRef: moveOf(a), Op: op, By: by, Asker: targetOf(a)}
		if by == store.Source {
			e.Asker = store.Lease{RID: a.RID, OwnerID: a.OwnerID, Gen: a.LeaseGen}
		}
		if other || e.Asker.RID == "" {
			e.Asker = s.lease(c)
		}
		return s.store.EndMove(ctx, e)
	})
}

// inventory puts a chunk, or fixes the inventory.
func (d *duel) inventory(p pick, put bool) {
	chunk := chunks[0]
	if d.oneIn(8, "other chunk") {
		chunk = chunks[1]
	}
	if put {
		answer := d.play(fmt.Sprintf("PutInventory %+v", p), func(ctx context.Context, s *side) (string, error) {
			a, err := s.get(ctx, p)
			if err != nil {
				return "", err
			}
			reason, err := s.store.PutInventory(ctx, moveOf(&a), chunk)
			return reason.String(), err
		})
		d.count("PutInventory", answer)
		return
	}
	op, more := d.op(), d.oneIn(8, "wrong count")
	d.changeOf("PrepareAggregate", p, func(ctx context.Context, s *side, a *store.Authority) (store.Change, error) {
		prepare := store.PrepareAggregate{
			MoveRef: moveOf(a), Op: op, Asker: store.Lease{RID: a.RID, OwnerID: a.OwnerID, Gen: a.LeaseGen},
			Inventory: store.Inventory{Root: sha256.Sum256(chunk), Count: 1},
		}
		if a.Move != nil {
			prepare.Inventory.Count += a.Move.Members
		}
		if more {
			prepare.Inventory.Count++
		}
		if a.RID == "" {
			prepare.Asker.RID = "a"
		}
		return s.store.PrepareAggregate(ctx, prepare)
	})
}

func (d *duel) complete() {
	move := store.RelocationID{byte(1 + d.draw("move", 3))}
	d.changeOf("CompleteMove", d.row("row"), func(ctx context.Context, s *side, a *store.Authority) (store.Change, error) {
		return s.store.CompleteMove(ctx, store.FenceOf(a), move)
	})
}

// reassert writes a row as its owner knew it once.
func (d *duel) reassert() {
	p := d.row("row")
	if n := len(d.sides[0].seen); n > 0 && d.oneIn(3, "of old") {
		p = pick{old: d.draw("row", n)}
	}
	d.reassertOf(p)
}

// recover is a failover, behind which all write what they knew last, Spots first.
func (d *duel) recover() {
	d.failover()
	for _, id := range []string{"s1", "s2", "i1", "p1", "p2", "p3"} {
		d.reassertOf(pick{latest: id})
	}
}

func (d *duel) reassertOf(p pick) {
	op, other, c := d.op(), d.oneIn(8, "another process"), d.process("process")
	oldEpoch := d.oneIn(8, "old epoch")
	d.changeOf("Reassert", p, func(ctx context.Context, s *side, a *store.Authority) (store.Change, error) {
		if a.OwnerID == nobody {
			return store.Change{Reason: store.Missing}, nil // nobody knows of the row
		}
		r := store.Reassert{
			Op: op, Epoch: s.epoch(oldEpoch), Owner: store.Lease{RID: a.RID, OwnerID: a.OwnerID, Gen: a.LeaseGen},
			ID: a.ID, Kind: a.Kind, Type: a.Type, Wide: a.Wide, ObjectGen: a.ObjectGen, OwnerGen: a.OwnerGen, Version: a.Version,
			Mesh: a.Mesh, SpotID: a.SpotID, InUserSpot: a.InUserSpot, Shares: a.SpotVersion != 0,
		}
		if other || a.RID == "" {
			r.Owner = s.lease(c)
		}
		return s.store.Reassert(ctx, r)
	})
}

// newEpoch begins one and lets all sides learn its number.
func (d *duel) newEpoch(how string, begin func(ctx context.Context, s *side) error) {
	d.play(how, func(ctx context.Context, s *side) (string, error) {
		s.elapse() // two epochs of one millisecond are not told apart by the clock if one is lost
		if err := begin(ctx, s); err != nil {
			return "", err
		}
		r, err := s.store.RenewLease(ctx, s.leases[0], s.epoch(false), time.Hour)
		s.noteEpoch(r.Epoch)
		return s.names.Lease(r), err
	})
	d.met[how]++
}

func (d *duel) mark() {
	d.play("mark", func(_ context.Context, s *side) (string, error) {
		s.marks = append(s.marks, s.mark())
		return "", nil
	})
}

func (d *duel) failover() {
	n := len(d.sides[0].marks)
	if n == 0 {
		d.mark()
		n = 1
	}
	which := d.draw("which mark", n)
	d.newEpoch("failover", func(_ context.Context, s *side) error {
		s.marks[which]()
		return nil
	})
}
