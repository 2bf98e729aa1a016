package storetest

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/zlnode/zlnode/store"
)

// caller is one of several of a process that change the same objects without an
// agreement. It chooses by its own random numbers alone, and knows of a row what it saw
// last, maybe long ago.
type caller struct {
	h      *history
	board  *board
	number int
	process
	random *rand.Rand
	ids    []string
	saw    map[string][]store.Authority // rows by id, the latest last
	sent   []func()                     // its latest calls, each to be sent once more
}

// turn sends one call.
func (c *caller) turn() {
	if len(c.sent) > 0 && c.random.IntN(8) == 0 {
		c.sent[c.random.IntN(len(c.sent))]() // as a network does
		return
	}
	id := c.pick(c.ids)
	call := c.choose(id)
	c.send(id, call)
	c.sent = append(c.sent[max(0, len(c.sent)-5):], func() { c.send(id, call) })
}

// send performs the call. If the outcome stays unknown it repeats it under the same
// operation or looks at the row.
func (c *caller) send(id string, call any) {
	change, known := c.h.do(c.number, c.random, id, call)
	for !known {
		if c.random.IntN(2) == 0 {
			call = reading{}
		}
		change, known = c.h.do(c.number, c.random, id, call)
	}
	if !change.Found {
		c.saw[id] = nil
		return
	}
	c.saw[id] = append(c.saw[id], change.Record)
	if change.Record.Move != nil {
		c.board.post(change.Record)
	}
}

// choose is what a process does with what it knows, and at times anything else.
func (c *caller) choose(id string) any {
	rows := c.saw[id]
	if len(rows) == 0 {
		if c.random.IntN(4) == 0 {
			return reading{}
		}
		return c.reserve(id)
	}
	a := rows[len(rows)-1]
	if c.random.IntN(8) == 0 {
		a = rows[c.random.IntN(len(rows))]
	}
	posted, there := c.board.latest(id, 0)
	if c.random.IntN(4) > 0 {
		switch {
		case a.State == store.Creating && a.OwnerID == c.OwnerID:
			return c.finish(a)
		case there && posted.Move.TargetOwnerID == c.OwnerID && posted.Version >= a.Version:
			return c.commit(posted)
		case a.Move != nil && a.OwnerID == c.OwnerID:
			return c.end(a)
		case a.Move == nil && a.OwnerID == c.OwnerID:
			return c.move(a)
		default:
			return reading{}
		}
	}
	if c.random.IntN(3) == 0 {
		posted, there = c.board.latest(id, 1+c.random.IntN(3))
	}
	switch n := c.random.IntN(16); {
	case n < 2:
		return c.reserve(id)
	case n < 3:
		return cancellation{a.ObjectGen, a.Version}
	case n < 5 && a.Create != nil:
		return c.finish(a)
	case n < 6:
		return deletion{c.fence(a), c.op()}
	case n < 7:
		f := store.FreeOf(&a, c.op())
		f.By = c.Lease
		return f
	case n < 9 && a.SpotID != "":
		return c.changeSpot(a)
	case n < 10:
		return c.move(a)
	case n < 12 && there:
		return c.commit(posted)
	case n < 14 && there:
		return c.end(posted)
	default:
		return reading{}
	}
}

// fence is that of the row, but by this process: it acts as itself, owner or not.
func (c *caller) fence(a store.Authority) store.Fence {
	f := store.FenceOf(&a)
	f.OwnerID, f.LeaseGen = c.OwnerID, c.Gen
	return f
}

func (c *caller) reserve(id string) store.Reserve {
	target := c.h.model.processes[c.pick(rids)]
	r := request(id, target)
	if c.h.kinds[id] == store.UserSpot {
		r = spotRequest(store.UserSpot, id, target)
	}
	r.Op = store.OperationKey{SourceRID: c.RID, SourceLifecycle: c.Gen, Op: c.op()}
	return r
}

func (c *caller) finish(a store.Authority) store.Finish {
	results := [...]store.Result{store.Created, store.Created, store.Created, store.Rejected, store.Failed}
	f := store.Finish{Fence: c.fence(a), Op: a.Create.Op, Result: results[c.random.IntN(len(results))]}
	if c.random.IntN(12) == 0 {
		f.Op.Op = c.op()
	}
	return f
}

func (c *caller) changeSpot(a store.Authority) store.ChangeSpot {
	spot := c.spotOf(c.RID)
	return store.ChangeSpot{Fence: c.fence(a), Op: c.op(), SpotID: spot, InUserSpot: c.h.model.places[spot].user}
}

func (c *caller) move(a store.Authority) any {
	if a.SpotID != "" && c.random.IntN(3) == 0 {
		return c.changeSpot(a)
	}
	target := c.h.model.processes[c.pick(rids)] // maybe itself
	m := store.ReserveMove{
		Fence: c.fence(a), Op: c.op(), Epoch: a.Epoch, Relocation: store.RelocationID{1 + byte(c.random.IntN(2))},
		Attempt: 1 + c.random.Uint32N(2), Validity: time.Hour, TargetRID: target.RID, TargetLifecycle: target.Gen,
	}
	if a.SpotID != "" {
		m.SpotID = c.spotOf(target.RID)
		m.InUserSpot = c.h.model.places[m.SpotID].user
	}
	return m
}

func (c *caller) commit(a store.Authority) any {
	if c.random.IntN(5) == 0 {
		return c.end(a)
	}
	m := store.CommitOf(&a, c.Lease, c.op())
	if c.random.IntN(12) == 0 {
		m.SourceOwnerID, m.SourceLease = c.OwnerID, c.Gen
	}
	return m
}

func (c *caller) end(a store.Authority) store.EndMove {
	e := store.EndOf(&a, store.Source, c.Lease, c.op())
	if a.Move.TargetOwnerID == c.OwnerID {
		e.By = store.Target
	}
	if c.random.IntN(5) == 0 {
		e.By = store.Source + store.MoveParty(c.random.IntN(3))
	}
	return e
}

// spotOf is a Spot of that process, or at times of any.
func (c *caller) spotOf(rid string) string {
	if c.random.IntN(8) == 0 {
		rid = c.pick(rids)
	}
	return c.pick(spots) + rid
}

// op is a new operation.
func (c *caller) op() (op store.OpID) {
	binary.BigEndian.PutUint64(op[:8], c.random.Uint64())
	binary.BigEndian.PutUint64(op[8:], c.random.Uint64())
	return op
}

func (c *caller) pick(from []string) string { return from[c.random.IntN(len(from))] }
