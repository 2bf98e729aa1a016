package storetest

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/zlnode/zlnode/store"
)

// rowModel is the obvious, sequential Store of one id: the second opinion. Leases are
// valid, nodes take all, and the Spots that Actors enter stay where they are.
type rowModel struct {
	processes map[string]process // by RID
	places    map[string]place   // Spots to enter, by id
}

// place is a Spot that Actors enter.
type place struct {
	rid  string
	user bool // a User Spot, not an Entry Spot
}

// Calls that the Store takes as several arguments. The others are their own requests.
type (
	reading  struct{}
	deletion struct {
		store.Fence
		op store.OpID
	}
	cancellation struct {
		gen store.ObjectGen
		ver store.Version
	}
	// conclusion is no call: all calls of which the end is known are before it.
	conclusion struct{}
)

// facts are what an answer says of a row. The zero value says that there is none.
type facts struct {
	state    store.State
	gen      store.ObjectGen
	ver      store.Version
	ownerGen store.OwnerGen
	owner    string // owner id of the process
	spot     string
	move     moveFacts
}

type moveFacts struct {
	id      store.RelocationID
	attempt uint32
	target  string // owner id of the process
	spot    string
}

func factsOf(c store.Change) facts {
	if !c.Found {
		return facts{}
	}
	a := &c.Record
	f := facts{state: a.State, gen: a.ObjectGen, ver: a.Version, ownerGen: a.OwnerGen, owner: a.OwnerID, spot: a.SpotID}
	if m := a.Move; m != nil {
		f.move = moveFacts{m.ID, m.Attempt, m.TargetOwnerID, m.SpotID}
	}
	return f
}

// seen is what the caller learnt of its call.
type seen struct {
	unknown   bool // whether it was done at all
	hasReason bool
	reason    store.Reason
	hasRow    bool
	row       facts
}

// row is the state of the id.
type row struct {
	facts
	op store.OpID // the last one applied
	// A generation or version that was issued and that no answer has shown yet stands
	// as 0 in the facts. It is above all that were shown.
	lastGen store.ObjectGen
	lastVer store.Version
	kept    string     // creations whose outcome the Store keeps, one behind the other
	removed store.OpID // the Delete or Free that removed the last incarnation that was removed by one
	over    bool       // the conclusion was reached
}

// step returns the row after the call, and whether the caller may have seen that.
func (m *rowModel) step(r row, call any, s seen) (bool, row) {
	if _, ends := call.(conclusion); ends {
		r.over = true
		return true, r
	}
	if s.unknown && r.over {
		return true, r // it was never done
	}
	reason, after := m.apply(r, call)
	if s.unknown {
		return reason == store.Applied, after
	}
	if s.hasReason && reason != s.reason {
		return false, r
	}
	if s.hasRow {
		return after.shown(s.row)
	}
	return true, after
}

// shown returns the row with what an answer shows of it, and whether it may.
func (r row) shown(f facts) (bool, row) {
	learnt := r
	if r.state != 0 && r.gen == 0 && f.gen > r.lastGen {
		learnt.gen, learnt.lastGen = f.gen, f.gen
	}
	if r.state != 0 && r.ver == 0 && f.ver > r.lastVer {
		learnt.ver, learnt.lastVer = f.ver, f.ver
	}
	return learnt.facts == f, learnt
}

// apply returns the answer to a call and the row after it.
func (m *rowModel) apply(r row, call any) (store.Reason, row) {
	switch c := call.(type) {
	case reading:
		return 0, r
	case store.Reserve:
		return m.reserve(r, c)
	case store.Finish:
		return finish(r, c)
	case cancellation:
		if why := r.refusal(c.gen, c.ver, store.Creating); why != 0 {
			return why, r
		}
		return store.OwnerAlive, r
	case deletion:
		return m.delete(r, c)
	case store.Free:
		return free(r, c)
	case store.ChangeSpot:
		return m.changeSpot(r, c)
	case store.ReserveMove:
		return m.reserveMove(r, c)
	case store.CommitMove:
		return commitMove(r, c)
	case store.EndMove:
		return endMove(r, c)
	default:
		panic(fmt.Sprintf("no such call: %T", call))
	}
}

func (m *rowModel) reserve(r row, c store.Reserve) (store.Reason, row) {
	switch {
	case r.keeps(c.Op.Op) || r.op == c.Op.Op:
		return store.AlreadyApplied, r
	case r.state != 0:
		return store.Exists, r
	}
	target := m.processes[c.TargetRID]
	r.facts = facts{state: store.Creating, ownerGen: 1, owner: target.OwnerID}
	if c.Kind == store.Actor {
		r.spot = target.desc.EntrySpotID
	}
	r.op = c.Op.Op
	return store.Applied, r
}

func finish(r row, c store.Finish) (store.Reason, row) {
	if r.keeps(c.Op.Op) {
		return store.AlreadyApplied, r
	}
	why := r.fenced(c.Fence, store.Creating)
	if why == 0 && r.op != c.Op.Op {
		why = store.VersionConflict
	}
	switch {
	case why != 0:
		return why, r
	case c.Result == store.Created:
		r.state, r.ver = store.Ready, 0
	default:
		r = r.gone()
	}
	r.kept += string(c.Op.Op[:])
	return store.Applied, r
}

func (m *rowModel) delete(r row, c deletion) (store.Reason, row) {
	why := r.fenced(c.Fence, store.Ready)
	switch {
	case r.removed == c.op:
		return store.AlreadyApplied, r
	case why != 0:
		return why, r
	case r.move != moveFacts{}:
		return store.Moving, r
	case m.places[r.spot].user:
		return store.IsMember, r
	}
	r.removed = c.op
	return store.Applied, r.gone()
}

func free(r row, c store.Free) (store.Reason, row) {
	switch {
	case r.removed == c.Op:
		return store.AlreadyApplied, r
	case r.state == 0:
		return store.Missing, r
	case r.gen != c.ObjectGen:
		return store.GenerationConflict, r
	case r.ver != c.Version || r.spot != c.SpotID || r.move.spot != c.MoveSpotID:
		return store.VersionConflict, r
	case r.owner != c.By.OwnerID:
		return store.OwnerAlive, r
	}
	r.removed = c.Op
	return store.Applied, r.gone()
}

func (m *rowModel) changeSpot(r row, c store.ChangeSpot) (store.Reason, row) {
	why := r.fenced(c.Fence, store.Ready)
	switch {
	case r.op == c.Op:
		return store.AlreadyApplied, r
	case why != 0:
		return why, r
	case r.move != moveFacts{}:
		return store.Moving, r
	case m.processes[m.places[c.SpotID].rid].OwnerID != r.owner:
		return store.SpotUnavailable, r
	}
	r.spot, r.op, r.ver = c.SpotID, c.Op, 0
	return store.Applied, r
}

func (m *rowModel) reserveMove(r row, c store.ReserveMove) (store.Reason, row) {
	why := r.fenced(c.Fence, store.Ready)
	target := m.processes[c.TargetRID].OwnerID
	switch {
	case r.op == c.Op:
		return store.AlreadyApplied, r
	case why != 0:
		return why, r
	case r.move != moveFacts{}:
		return store.Moving, r
	case r.owner == target:
		return store.TargetIncompatible, r
	case c.SpotID != "" && m.places[c.SpotID].rid != c.TargetRID:
		return store.SpotUnavailable, r
	}
	r.move = moveFacts{c.Relocation, c.Attempt, target, c.SpotID}
	r.op, r.ver = c.Op, 0
	return store.Applied, r
}

func commitMove(r row, c store.CommitMove) (store.Reason, row) {
	why := r.named(c.MoveRef)
	switch {
	case r.op == c.Op:
		return store.AlreadyApplied, r
	case why != 0:
		return why, r
	case r.owner != c.SourceOwnerID || r.move.target != c.Target.OwnerID:
		return store.OwnerConflict, r
	}
	r.owner, r.spot, r.ownerGen = r.move.target, r.move.spot, r.ownerGen+1
	r.move, r.op, r.ver = moveFacts{}, c.Op, 0
	return store.Applied, r
}

func endMove(r row, c store.EndMove) (store.Reason, row) {
	why := r.named(c.MoveRef)
	may := r.move.target
	if c.By == store.Source {
		may = r.owner
	}
	switch {
	case r.op == c.Op:
		return store.AlreadyApplied, r
	case why != 0:
		return why, r
	case may != c.Asker.OwnerID:
		return store.OwnerConflict, r
	case c.By == store.Sweep:
		return store.OwnerAlive, r
	}
	r.move, r.op, r.ver = moveFacts{}, c.Op, 0
	return store.Applied, r
}

func (r row) gone() row {
	r.facts, r.op = facts{}, store.OpID{}
	return r
}

func (r row) keeps(op store.OpID) bool {
	for kept := r.kept; kept != ""; kept = kept[len(op):] {
		if strings.HasPrefix(kept, string(op[:])) {
			return true
		}
	}
	return false
}

// refusal says why a call does not fit the row; 0 if it does.
func (r row) refusal(gen store.ObjectGen, ver store.Version, state store.State) store.Reason {
	switch {
	case r.state == 0:
		return store.Missing
	case r.gen != gen:
		return store.GenerationConflict
	case r.ver != ver || r.state != state:
		return store.VersionConflict
	default:
		return 0
	}
}

func (r row) fenced(f store.Fence, state store.State) store.Reason {
	if why := r.refusal(f.ObjectGen, f.Version, state); why != 0 {
		return why
	}
	switch {
	case r.spot != f.SpotID:
		return store.VersionConflict
	case r.owner != f.OwnerID:
		return store.OwnerConflict
	default:
		return 0
	}
}

// named says why the move is not that of the row; 0 if it is.
func (r row) named(m store.MoveRef) store.Reason {
	switch {
	case r.state == 0:
		return store.Missing
	case r.gen != m.ObjectGen:
		return store.GenerationConflict
	case r.move.id != m.Relocation || r.move.attempt != m.Attempt:
		return store.MoveConflict
	case r.ver != m.Version || r.spot != m.SpotID || r.move.spot != m.MoveSpotID:
		return store.VersionConflict
	default:
		return 0
	}
}

// porcupine is the model in the form that the checker takes.
func (m *rowModel) porcupine() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return row{} },
		Step: func(state, call, answer any) (bool, any) {
			return m.step(state.(row), call, answer.(seen))
		},
	}
}
