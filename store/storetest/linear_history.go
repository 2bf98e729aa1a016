package storetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/anishathalye/porcupine"

	"github.com/zlnode/zlnode/store"
)

// history performs calls, not always as asked, and keeps what became of them.
type history struct {
	w     *world
	model *rowModel
	name  string // says how to have it again
	kinds map[string]store.Kind
	clock atomic.Int64 // counts beginnings and ends of calls

	mu    sync.Mutex
	known map[string][]event // by id: as the callers know it
	done  map[string][]event // by id: as the Store did it
	held  []func()           // calls whose callers gave up, to be done yet
}

// event is one call of one id.
type event struct {
	caller   int
	call     any
	seen     seen
	from, to int64 // by the history's clock; an outcome that is unknown has no end
}

// fate is what becomes of a call.
type fate int

const (
	answered fate = iota
	answerLost
	doneLater
	neverDone
)

// do performs the call, which the Store may never get, or get later than its caller
// thinks, or answer in vain: then its outcome is not known.
func (h *history) do(caller int, random *rand.Rand, id string, call any) (c store.Change, known bool) {
	if random.IntN(3) == 0 {
		h.doHeld()
	}
	from := h.clock.Add(1)
	fates := [16]fate{answerLost, answerLost, doneLater, doneLater, neverDone} // the rest is answered
	fate := fates[random.IntN(len(fates))]
	if _, reads := call.(reading); reads {
		fate = answered
	}
	switch fate {
	case answered, answerLost:
		c = h.perform(caller, id, call)
	case doneLater:
		h.mu.Lock()
		h.held = append(h.held, func() { h.perform(caller, id, call) })
		h.mu.Unlock()
	case neverDone:
	}
	e := event{caller: caller, call: call, seen: saw(call, c), from: from, to: h.clock.Add(1)}
	if fate != answered {
		e.seen, e.to = seen{unknown: true}, math.MaxInt64
	}
	h.mu.Lock()
	h.known[id] = append(h.known[id], e)
	h.mu.Unlock()
	if fate != answered {
		return store.Change{}, false
	}
	return c, true
}

// doHeld does the oldest of the calls that were held back. It reports whether there
// was one.
func (h *history) doHeld() bool {
	h.mu.Lock()
	var call func()
	if len(h.held) > 0 {
		call, h.held = h.held[0], h.held[1:]
	}
	h.mu.Unlock()
	if call == nil {
		return false
	}
	call()
	return true
}

// perform has the Store do the call.
func (h *history) perform(caller int, id string, call any) store.Change {
	from := h.clock.Add(1)
	c, err := ask(h.w.ctx(), h.w.s, id, call)
	if err != nil {
		h.w.t.Errorf("%s: %T of %s: %v", h.name, call, id, err)
		return c
	}
	e := event{caller: caller, call: call, seen: saw(call, c), from: from, to: h.clock.Add(1)}
	h.mu.Lock()
	h.done[id] = append(h.done[id], e)
	h.mu.Unlock()
	return c
}

func ask(ctx context.Context, s store.Store, id string, call any) (c store.Change, err error) {
	switch r := call.(type) {
	case reading:
		c.Record, c.Found, err = s.Read(ctx, id)
		return c, err
	case store.Reserve:
		return s.Reserve(ctx, r)
	case store.Finish:
		return s.Finish(ctx, r)
	case cancellation:
		return s.CancelCreation(ctx, id, r.gen, r.ver)
	case deletion:
		return s.Delete(ctx, r.Fence, r.op)
	case store.Free:
		return s.Free(ctx, r)
	case store.ChangeSpot:
		return s.ChangeSpot(ctx, r)
	case store.ReserveMove:
		return s.ReserveMove(ctx, r)
	case store.CommitMove:
		return s.CommitMove(ctx, r)
	case store.EndMove:
		return s.EndMove(ctx, r)
	default:
		return c, fmt.Errorf("no such call: %T", call)
	}
}

func saw(call any, c store.Change) seen {
	_, reads := call.(reading)
	return seen{hasReason: !reads, reason: c.Reason, hasRow: true, row: factsOf(c)}
}

// check ends the history: what is still held is done, and all must fit one order.
func (h *history) check() {
	for h.doHeld() {
	}
	for _, id := range slices.Sorted(maps.Keys(h.done)) {
		h.checkOrder("as its callers know it", id, h.known[id])
		h.checkOrder("as the Store did it", id, h.done[id])
		h.checkOwners(id, h.done[id])
	}
}

// checkOrder fails unless one order of all calls gives each its answer. A call of which
// the outcome is unknown stands anywhere behind its beginning, or nowhere.
func (h *history) checkOrder(as, id string, events []event) {
	var ops []porcupine.Operation
	add := func(e event) {
		ops = append(ops, porcupine.Operation{ClientId: e.caller, Input: e.call, Call: e.from, Output: e.seen, Return: e.to})
	}
	for _, e := range events {
		if !h.atOnce(id, e) {
			// The row was read by itself behind the refusal.
			read := e
			read.call, read.seen.hasReason = reading{}, false
			e.seen.hasRow = false
			add(read)
		}
		add(e)
	}
	add(event{call: conclusion{}, from: math.MaxInt64 - 1, to: math.MaxInt64 - 1})
	if got := porcupine.CheckOperationsTimeout(h.model.porcupine(), ops, stepMax); got != porcupine.Ok {
		h.w.t.Errorf("%s: the calls of %s, %s, fit one order: %v%s", h.name, id, as, got, h.describe(events))
	}
}

// atOnce reports whether reason and row of an answer are of one instant. An Actor's
// owner can stand in the row of a Spot that a refused call did not name: then the row
// is read again.
func (h *history) atOnce(id string, e event) bool {
	return e.seen.unknown || !e.seen.hasReason || e.seen.reason == store.Applied || h.kinds[id] != store.Actor
}

// checkOwners fails unless each version of the row is one change and one owner's, and
// the generations grow with it: no two processes own the same incarnation under one
// owner generation, and none gets it back under an older one.
func (h *history) checkOwners(id string, events []event) {
	rows, changes := map[store.Version]facts{}, map[store.Version]event{}
	wrong := func(format string, args ...any) {
		h.w.t.Errorf("%s: %s: %s%s", h.name, id, fmt.Sprintf(format, args...), h.describe(events))
	}
	for _, e := range events {
		f := e.seen.row
		if f == (facts{}) {
			continue
		}
		if before, there := rows[f.ver]; there && before != f {
			wrong("version %d is both %+v and %+v", f.ver, before, f)
		}
		rows[f.ver] = f
		if e.seen.reason == store.Applied {
			if other, there := changes[f.ver]; there {
				wrong("version %d was given to %+v and to %+v", f.ver, other.call, e.call)
			}
			changes[f.ver] = e
		}
	}
	var before facts
	for _, ver := range slices.Sorted(maps.Keys(rows)) {
		f := rows[ver]
		switch {
		case f.gen < before.gen:
			wrong("object generation %d is behind %d", f.gen, before.gen)
		case f.gen == before.gen && f.ownerGen < before.ownerGen:
			wrong("owner generation %d is behind %d", f.ownerGen, before.ownerGen)
		case f.gen == before.gen && f.ownerGen == before.ownerGen && f.owner != before.owner:
			wrong("owner generation %d is that of %s and of %s", f.ownerGen, before.owner, f.owner)
		}
		before = f
	}
}

// describe lists calls in the order in which they began.
func (h *history) describe(events []event) string {
	var b strings.Builder
	for _, e := range slices.SortedFunc(slices.Values(events), func(a, b event) int { return cmp.Compare(a.from, b.from) }) {
		fmt.Fprintf(&b, "\n  %d: %d–%d %T %+v\n    -> %+v", e.caller, e.from, e.to, e.call, e.call, e.seen)
	}
	return b.String()
}
